"""The error that ends a report."""


class ReportError(Exception):
    """A record that cannot be read. Says which file, what is wrong with it, and what to do."""
