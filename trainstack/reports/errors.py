"""The error of a report."""


class ReportError(Exception):
    """A record cannot be read, or has nothing to draw; the message names the file and the remedy."""
