"""Private copies of the kubeconfig for the programs that a command starts.

The engine's provider and kubectl read the kubeconfig when they start. A concurrent change of the user's file, such as
`kubectl config use-context`, must not send them to a cluster other than the one that the command read.
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


def shared_copy(context: str | None) -> Path:
    """Return the process's copy, readable by its owner only, with the chosen context only; removed at exit.

    Raises OSError, ValueError, KeyError, TypeError or yaml.YAMLError for an invalid kubeconfig.
    """
    key = (kubeconfig.kubeconfig_path(), context)
    if key not in _copies:
        if not _copies:
            _remove_at_exit()
        _copies[key] = new_copy(context)
    return _copies[key]


def new_copy(context: str | None) -> Path:
    """Write a copy in its own folder, which the caller removes. Raises the errors of `shared_copy`."""
    content = json.dumps(kubeconfig.chosen(context))
    # mkdtemp creates a folder that only its owner can open.
    file = Path(tempfile.mkdtemp(prefix="trainstack-kubeconfig-")) / "kubeconfig"
    with open(file, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as copy:
        copy.write(content)
    return file


def variables(context: str | None) -> dict[str, str]:
    """Environment variables for a program that reads the kubeconfig."""
    return {kubeconfig.VARIABLE: str(shared_copy(context)), kubeconfig.ORIGIN: kubeconfig.shown_path()}


def remove_copies() -> None:
    while _copies:
        _, file = _copies.popitem()
        shutil.rmtree(file.parent, ignore_errors=True)


def _remove_at_exit() -> None:
    """Remove the copies at exit and on SIGTERM and SIGHUP; SIGKILL leaves them."""
    atexit.register(remove_copies)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, _: FrameType | None) -> None:
    remove_copies()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
