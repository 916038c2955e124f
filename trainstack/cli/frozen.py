"""Private copies of the kubeconfig for the programs that a command starts.

The engine's provider and kubectl read the kubeconfig when they start. A concurrent change of the user's file, such as
`kubectl config use-context`, must not direct them to another cluster than the one that the command has read.
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
    """Return this process's copy with the chosen context only, readable by its owner, removed when the process ends.

    Raises OSError, ValueError, KeyError, TypeError or yaml.YAMLError for a kubeconfig that cannot be used.
    """
    key = (kubeconfig.kubeconfig_path(), context)
    if key not in _copies:
        if not _copies:
            _remove_at_exit()
        _copies[key] = private_copy(context)
    return _copies[key]


def private_copy(context: str | None) -> Path:
    """Write a copy into its own folder, which the caller removes. Raises as `frozen` does."""
    content = json.dumps(kubeconfig.chosen(context))
    # mkdtemp creates a folder that only its owner can enter.
    file = Path(tempfile.mkdtemp(prefix="trainstack-kubeconfig-")) / "kubeconfig"
    with open(file, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as copy:
        copy.write(content)
    return file


def variables(context: str | None) -> dict[str, str]:
    return {kubeconfig.VARIABLE: str(frozen(context)), kubeconfig.ORIGIN: kubeconfig.shown_path()}


def remove() -> None:
    while _copies:
        _, file = _copies.popitem()
        shutil.rmtree(file.parent, ignore_errors=True)


def _remove_at_exit() -> None:
    """Remove the copies on a normal exit, an exception, SIGTERM and SIGHUP; SIGKILL leaves them."""
    atexit.register(remove)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)


def _terminate(number: int, _: FrameType | None) -> None:
    remove()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
