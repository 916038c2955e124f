"""The errors of a review."""

from trainstack.errors import ExitCode, TrainstackError


class ReviewError(TrainstackError):
    """A review that cannot be done; the message names the cause."""


class UnreviewedError(ReviewError):
    """Environments are not reviewed; the message names the causes."""

    exit_code = ExitCode.FINDINGS


class EngineError(TrainstackError):
    """The engine could not be called; the message is its output."""
