"""Before the engine is called: is this the cluster that the stack was made on?

The program asks too (components/cluster.py). But the engine refreshes and destroys before, or without, the program: it
would take every object for deleted that it does not find on another cluster.
"""

from checks.cluster.identity import read_cluster
from checks.identity import MEMORY, another, memory_name, unexpected
from cli.console import fail
from cli.engine import resources
from cli.session import Session


def ensure_same_cluster(session: Session) -> None:
    """Return when nothing shows that this is another cluster; else end the command with what to do.

    Raises ClusterError where the cluster cannot be read.
    """
    here, expected = read_cluster(session.settings), session.settings.cluster.identity
    refusal = unexpected(here, session.stack, expected, session.loaded.where("cluster.identity"))
    if expected is None:
        refusal = another(_remembered(session), here, session.stack)
    if refusal:
        fail(refusal)


def _remembered(session: Session) -> dict[str, str]:
    """What the stack's state says of its cluster; {} before the first `up`."""
    name = f"::{memory_name(session.settings.environment.profile)}"
    for each in resources(session):
        if each["type"] == MEMORY and each["urn"].endswith(name):
            return dict(each["outputs"]["output"])
    return {}
