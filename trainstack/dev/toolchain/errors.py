"""Errors of the toolchain."""

from trainstack.errors import TrainstackError


class ToolchainError(TrainstackError):
    """A tool cannot be built or found."""


class MissingTool(ToolchainError):  # noqa: N818  the name states the condition
    def __init__(self, program: str, group: str) -> None:
        super().__init__(
            f"{program} has not been built in the pinned version (group {group}): run `trainstack dev tools`"
        )
        self.program = program
        self.group = group
