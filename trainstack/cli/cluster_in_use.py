"""The line about the cluster that a command is about to change, and the refusal of the local one."""

from trainstack.cli.output.console import err
from trainstack.errors import RefusedError
from trainstack.live import kubeconfig
from trainstack.settings.model import Settings

_announced: set[str] = set()


def ensure_intended_cluster(settings: Settings) -> None:
    """Raise RefusedError if the cluster is the local one, and the environment neither uses nor names it."""
    if refusal := kubeconfig.unintended_local_cluster_error(settings):
        raise RefusedError(refusal)


def announce_cluster(settings: Settings) -> None:
    """Print context, server and file once in a process, before the first write. Raises as `ensure_intended` does."""
    ensure_intended_cluster(settings)
    try:
        line = f"cluster: {kubeconfig.describe_context(settings.cluster.context)}"
    except kubeconfig.READ_ERRORS:
        return  # The first read reports what is wrong with the kubeconfig.
    if line not in _announced:
        _announced.add(line)
        err.print(line)
