"""The error of a report."""

from trainstack.errors import TrainstackError


class ReportError(TrainstackError):
    """A record cannot be read, or has nothing to draw; the message names the file and the remedy."""
