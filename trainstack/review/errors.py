"""The error of a review."""


class ReviewError(Exception):
    """A review that cannot be done or is incomplete; the message names the cause."""
