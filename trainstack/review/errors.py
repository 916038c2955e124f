"""The errors of a review."""

from trainstack.errors import ExitCode, TrainstackError


class UnreviewedError(TrainstackError):
    """Environments are not reviewed; the message names the causes."""

    exit_code = ExitCode.FINDINGS


class EngineError(TrainstackError):
    """The engine could not be called; the message is its output."""
