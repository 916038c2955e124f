"""Errors of transfers."""


class TransferError(Exception):
    """A transfer failed. The message gives the cause and the remedy."""


class BrokenConnectionError(Exception):
    """The connection or the data loader failed. Complete data is kept, and a new attempt resumes the transfer."""
