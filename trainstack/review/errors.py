"""The error of a review."""

from trainstack.errors import TrainstackError


class ReviewError(TrainstackError):
    """A review that cannot be done or is incomplete; the message names the cause."""
