"""Before the engine is called: is this the cluster that the stack was made on, and are the objects its own?

The program asks too (trainstack/stacks/plan_change.py, trainstack/components/cluster.py). But the engine refreshes and
destroys before, or
without, the program: it would take every object for deleted that it does not find on another cluster.
"""

import json

from trainstack.cli.console import fail
from trainstack.cli.engine import export, resources
from trainstack.cli.session import Session
from trainstack.guards.cluster_identity import MEMORY, another, memory_name, unexpected
from trainstack.guards.states import of_others, taken_away
from trainstack.lifecycle.recovery.state import read_state
from trainstack.live.identity import read_cluster
from trainstack.live.marked import read_held


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
