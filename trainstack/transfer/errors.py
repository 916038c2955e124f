"""Errors of transfers."""

from trainstack.errors import TrainstackError


class TransferError(TrainstackError):
    """A transfer failed. The message gives the cause and the remedy."""


class DamagedRecordError(TransferError):
    """A finished run's record on the volume differs from its run.json."""


class BrokenConnectionError(TrainstackError):
    """The connection or the data loader failed. Complete data is kept, and a new attempt resumes the transfer."""
