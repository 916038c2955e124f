"""Data loaders of commands: their progress is printed, and a signal ends the command."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from trainstack.cli.cluster_in_use import announce_cluster
from trainstack.cli.output import console, progress
from trainstack.settings.model import Settings
from trainstack.transfer import loader


class TerminalProgress:
    """Prints the progress of transfers on stderr."""

    step = staticmethod(console.step)
    bar = staticmethod(progress.bar)
    count = staticmethod(progress.count)

    @staticmethod
    def info(message: str) -> None:
        console.err.print(f"  {message}", markup=False)

    @staticmethod
    def warn(message: str) -> None:
        console.err.print(message, style="yellow", markup=False)


@contextmanager
def data_loader(settings: Settings, namespace: str, volume: str) -> Iterator[loader.Loader]:
    """Run a data loader for the duration of the block. Raises the errors of `loader.data_loader`, and RefusedError."""
    announce_cluster(settings)
    reporter = TerminalProgress()
    try:
        with loader.data_loader(settings, namespace, volume, reporter) as running_loader:
            yield running_loader
    except KeyboardInterrupt as interrupt:
        reporter.warn("interrupted; complete data is kept, and the same command resumes the transfer")
        raise typer.Exit(128 + (interrupt.args or (signal.SIGINT,))[0]) from None
