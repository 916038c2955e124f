"""Before the engine is called: is this the cluster that the stack was made on, and are the objects its own?

The program asks too (stacks/program.py, components/cluster.py). But the engine refreshes and destroys before, or
without, the program: it would take every object for deleted that it does not find on another cluster.
"""

import json

from checks.cluster.identity import read_cluster
from checks.cluster.marked import read_held
from checks.identity import MEMORY, another, memory_name, unexpected
from checks.recovery.state import read_state
from checks.states import of_others, taken_away
from cli.console import fail
from cli.engine import export, resources
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


def ensure_own_objects(session: Session) -> None:
    """Return when this state still owns every object that it holds; else end the command with what to do.

    What ends a stack deletes what the state holds, also what another state of the stack has taken over since.

    Raises ClusterError where the cluster cannot be read.
    """
    exported, cluster = export(session), session.settings.cluster
    if exported is None:
        return
    own = read_state(json.loads(exported)).own
    others = of_others(read_held(own.held, cluster.context), own, session.stack)
    if refusal := taken_away(others, own, session.stack, cluster.take_over):
        fail(refusal)


def _remembered(session: Session) -> dict[str, str]:
    """What the stack's state says of its cluster; {} before the first `up`."""
    name = f"::{memory_name(session.settings.environment.profile)}"
    for each in resources(session):
        if each["type"] == MEMORY and each["urn"].endswith(name):
            return dict(each["outputs"]["output"])
    return {}
