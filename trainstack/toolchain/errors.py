"""Errors of the toolchain."""

from trainstack.errors import TrainstackError


class ToolchainError(TrainstackError):
    """A tool cannot be built or found."""


class MissingTool(ToolchainError):  # noqa: N818  the name states the condition
    """A program that has not been built. The remedy names the command that builds its group."""

    def __init__(self, program: str, group: str, message: str = "", remedy: str = "") -> None:
        super().__init__(
            message or f"{program} has not been built in the pinned version (group {group})",
            remedy or "run `trainstack dev tools`",
        )
        self.program = program
        self.group = group
