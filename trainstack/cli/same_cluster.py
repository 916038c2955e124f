"""Guards before an engine call: the stack's cluster, and the owner of its objects.

The program checks both too (stacks/plan_change.py, components/cluster.py). But the engine refreshes before it runs the
program and destroys without it: on another cluster it would take every missing object for deleted.
"""

import json

from trainstack.cli.cluster_in_use import announce_cluster
from trainstack.cli.console import fail
from trainstack.cli.engine import export, resources
from trainstack.cli.session import Session
from trainstack.errors import ExitCode
from trainstack.guards.cluster_identity import MEMORY, another, memory_name, unexpected
from trainstack.guards.states import of_others, taken_away
from trainstack.lifecycle.recovery.state import read_state
from trainstack.live.identity import read_cluster
from trainstack.live.marked import read_held


def ensure_same_cluster(session: Session) -> None:
    """Print the cluster, and exit with a remedy if the stack was created on another one.

    Raises RefusedError as `announce_cluster` does, and ClusterError.
    """
    announce_cluster(session.settings)
    identity, expected = read_cluster(session.settings), session.settings.cluster.identity
    refusal = unexpected(identity, session.stack, expected, session.loaded.where("cluster.identity"))
    if expected is None:
        refusal = another(_recorded_cluster(session), identity, session.stack)
    if refusal:
        fail(refusal, ExitCode.REFUSED)


def ensure_own_objects(session: Session) -> None:
    """Exit with a remedy if another state of the stack has taken over objects in this state. Raises ClusterError.

    A destroy deletes every object in the state, including those that another state owns by now.
    """
    exported, cluster = export(session), session.settings.cluster
    if exported is None:
        return
    own = read_state(json.loads(exported)).own
    others = of_others(read_held(own.held, cluster.context), own, session.stack)
    if refusal := taken_away(others, own, session.stack, cluster.take_over):
        fail(refusal, ExitCode.REFUSED)


def _recorded_cluster(session: Session) -> dict[str, str]:
    name = f"::{memory_name(session.settings.environment.profile)}"
    for resource in resources(session):
        if resource["type"] == MEMORY and resource["urn"].endswith(name):
            return dict(resource["outputs"]["output"])
    return {}
