"""Private copies of the kubeconfig for the programs that a command starts.

The Kubernetes provider and kubectl read the kubeconfig when they start. If the user's file changes meanwhile, for
example through `kubectl config use-context`, they must still use the cluster that the command read.
"""

import atexit
import json
from pathlib import Path

from trainstack.files.temporary import SecretFile, secret_file
from trainstack.live import kubeconfig

_copies: dict[tuple[str, str | None], SecretFile] = {}


def shared_copy(context: str | None) -> Path:
    """Return the path of this process's copy, which has only the selected context and is deleted at exit.

    Raises OSError, ValueError, KeyError, TypeError or yaml.YAMLError for an invalid kubeconfig.
    """
    key = (kubeconfig.kubeconfig_path(), context)
    if key not in _copies:
        _copies[key] = new_copy(context)
        atexit.register(remove_copies)
    return _copies[key].path


def new_copy(context: str | None) -> SecretFile:
    """Write a new copy, which the caller must close. Raises the errors of `shared_copy`."""
    return secret_file(json.dumps(kubeconfig.select_context(context)).encode())


def variables(context: str | None) -> dict[str, str]:
    """Return the environment variables for a program that reads the kubeconfig. Raises the errors of `shared_copy`."""
    return {
        kubeconfig.KUBECONFIG_VARIABLE: str(shared_copy(context)),
        kubeconfig.ORIGIN_VARIABLE: kubeconfig.display_path(),
    }


def remove_copies() -> None:
    while _copies:
        _copies.popitem()[1].close()
