"""Private copies of the kubeconfig for the programs that a command starts.

The engine's provider and kubectl read the kubeconfig when they start. A concurrent change of the user's file, such as
`kubectl config use-context`, must not send them to a cluster other than the one that the command read.
"""

import atexit
import json
from pathlib import Path

from trainstack.files.temporary import SecretFile, secret_file
from trainstack.live import kubeconfig

_copies: dict[tuple[str, str | None], SecretFile] = {}


def shared_copy(context: str | None) -> Path:
    """Return the process's copy, with the chosen context only, which ends with the process.

    Raises OSError, ValueError, KeyError, TypeError or yaml.YAMLError for an invalid kubeconfig.
    """
    key = (kubeconfig.kubeconfig_path(), context)
    if key not in _copies:
        _copies[key] = new_copy(context)
        atexit.register(remove_copies)
    return _copies[key].path


def new_copy(context: str | None) -> SecretFile:
    """Write a copy, which the caller closes. Raises the errors of `shared_copy`."""
    return secret_file(json.dumps(kubeconfig.chosen(context)).encode())


def variables(context: str | None) -> dict[str, str]:
    """Environment variables for a program that reads the kubeconfig."""
    return {kubeconfig.VARIABLE: str(shared_copy(context)), kubeconfig.ORIGIN: kubeconfig.shown_path()}


def remove_copies() -> None:
    while _copies:
        _copies.popitem()[1].close()
