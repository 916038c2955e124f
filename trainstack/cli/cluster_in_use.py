"""The line about the cluster that a command is about to change."""

import yaml

from trainstack.cli.console import err
from trainstack.live import kubeconfig

_announced: set[str] = set()


def announce_cluster(context: str | None) -> None:
    """Print context, server and file once in a process, before the first write."""
    try:
        line = f"cluster: {kubeconfig.described(context)}"
    except (KeyError, ValueError, TypeError, OSError, yaml.YAMLError):
        return  # The first read reports what is wrong with the kubeconfig.
    if line not in _announced:
        _announced.add(line)
        err.print(line)
