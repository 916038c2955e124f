"""The errors of a review."""

from trainstack.errors import ExitCode, TrainstackError


class ReviewError(TrainstackError):
    """Environments are not reviewed, or a change cannot be applied to them; the message names them."""

    exit_code = ExitCode.FINDINGS


class EngineError(TrainstackError):
    """The engine could not be called; the message is its output."""
