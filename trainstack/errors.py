"""The base of all errors whose cause a user can remove. Any other exception is a bug, and keeps its traceback."""


class TrainstackError(Exception):
    """An error with a text for users: `<where>: <path>: <message>; <remedy>`, without the parts that are empty.

    Args:
        message: what is wrong, with the value and the limit.
        remedy: what the user can do.
        path: the setting, object or file that is wrong.
        where: the place in a file, as `Pulumi.dev.yaml:12`.

    """

    def __init__(self, message: str, remedy: str = "", *, path: str = "", where: str = "") -> None:
        subject = "".join(f"{part}: " for part in (where, path) if part)
        super().__init__(subject + "; ".join(filter(None, (message, remedy))))
        self.message, self.remedy, self.path, self.where = message, remedy, path, where
