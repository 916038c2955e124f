"""The errors of a review."""

from trainstack.errors import ExitCode, TrainstackError


class ReviewError(TrainstackError):
    """Some environments have no review, or a change cannot be applied to them; the message names them."""

    exit_code = ExitCode.FINDINGS


class EngineError(TrainstackError):
    """A call of the engine failed; the message is its output or the reason."""
