"""Errors of the toolchain."""

from trainstack.errors import TrainstackError


class ToolchainError(TrainstackError):
    """A tool cannot be built or found."""


class MissingTool(ToolchainError):  # noqa: N818  the name states the condition
    def __init__(self, program: str, group: str) -> None:
        super().__init__(
            f"{program} has not been built for this checkout's pinned versions (group {group}): run `make tools`"
        )
        self.program = program
        self.group = group


class NotLoggedIn(ToolchainError):  # noqa: N818  the name states the condition
    """Pulumi has no backend for a state that is not embedded."""
