"""The event loop of the program's process."""

from pulumi.runtime.settings import SETTINGS, _get_callbacks
from pulumi.runtime.sync_await import _sync_await


def serve_hooks() -> None:
    """Start the server of the resource hooks, and with it the event loop. Call it before the first hook.

    Without it, the SDK starts a server for each hook, because it stores the server in the context of the hook's task.

    At the end of a program, the SDK waits for the registrations that have started, and then for each output, which
    takes time quadratic in the number of outputs. In a program that has not run the event loop, no registration has
    started, and no output has a value.
    """
    SETTINGS.callbacks = _sync_await(_get_callbacks())
