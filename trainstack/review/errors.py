"""The errors of a review."""

from trainstack.errors import TrainstackError


class EngineError(TrainstackError):
    """The engine could not be called; the message is its output."""
