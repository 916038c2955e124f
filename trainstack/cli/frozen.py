"""The kubeconfig for the programs that a command starts: a private copy, the same for all of them.

The engine's provider and kubectl read their kubeconfig when they start. What somebody does meanwhile to the person's
own file, such as `kubectl config use-context`, must not send them to another cluster than the one that the command
read.
"""

import atexit
import json
import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType

from trainstack.live import kubeconfig

_copies: dict[tuple[str, str | None], Path] = {}


def frozen(context: str | None) -> Path:
    """The file: the context that this process chose, alone, for its owner's eyes. It is gone when the process ends.

    Raises OSError, ValueError, KeyError, TypeError or yaml.YAMLError for a kubeconfig that cannot be used.
    """
    key = (kubeconfig.kubeconfig_path(), context)
    if key not in _copies:
        if not _copies:
            _remove_when_ended()
        _copies[key] = private_copy(context)
    return _copies[key]


def private_copy(context: str | None) -> Path:
    """A copy of its own, in a folder of its own, which the caller removes. Raises as `frozen` does."""
    content = json.dumps(kubeconfig.chosen(context))
    # A folder that only its owner may enter, as mkdtemp makes it.
    file = Path(tempfile.mkdtemp(prefix="trainstack-kubeconfig-")) / "kubeconfig"
    with open(file, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as copy:
        copy.write(content)
    return file


def variables(context: str | None) -> dict[str, str]:
    """The environment of a program that reads the cluster's kubeconfig."""
    return {kubeconfig.VARIABLE: str(frozen(context)), kubeconfig.ORIGIN: kubeconfig.shown_path()}


def remove() -> None:
    """Remove all copies."""
    while _copies:
        _, file = _copies.popitem()
        shutil.rmtree(file.parent, ignore_errors=True)


def _remove_when_ended() -> None:
    """When the process ends by itself, by an exception, SIGTERM or SIGHUP; SIGKILL leaves the copy there."""
    atexit.register(remove)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    remove()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
