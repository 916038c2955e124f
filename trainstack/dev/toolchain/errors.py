"""What can go wrong in the toolchain. Every text says what failed, where, and what to do about it."""


class ToolchainError(Exception):
    """A tool cannot be made or found."""


class MissingTool(ToolchainError):  # noqa: N818  the name says what is so
    """A program was asked for that has not been built yet."""

    def __init__(self, program: str, group: str) -> None:
        super().__init__(
            f"{program} has not been built for this checkout's pinned versions (group {group}): run `make tools`"
        )
        self.program = program
        self.group = group
