"""The errors of a review."""

from trainstack.errors import TrainstackError


class ReviewError(TrainstackError):
    """A review that cannot be done or is incomplete; the message names the cause."""


class EngineError(TrainstackError):
    """The engine could not be called; the message is its output."""
