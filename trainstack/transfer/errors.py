"""Errors of transfers."""


class TransferError(Exception):
    """A transfer failed. The message gives the cause and the remedy."""


class BrokenConnectionError(Exception):
    """The connection or the data loader failed. Complete data is kept, and a new attempt resumes the transfer."""


class TransferInterruptedError(Exception):
    """A signal ended the transfer; its data loader has been deleted."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"interrupted by signal {signal_number}")
        self.signal_number = signal_number
