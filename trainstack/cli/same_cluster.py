"""Guards before an engine call: the stack's cluster, and the owner of its objects.

The program checks both too (stacks/plan_change.py, components/cluster.py). But the engine refreshes before it runs the
program and destroys without it: on another cluster it would take every missing object for deleted.
"""

from collections.abc import Mapping
from typing import Any

from trainstack.cli.cluster_in_use import announce_cluster
from trainstack.cli.output.console import fail
from trainstack.cli.session import Session
from trainstack.errors import ExitCode
from trainstack.guards.cluster_identity import (
    FACTS_RESOURCE_TYPE,
    facts_resource_name,
    other_cluster_refusal,
    unexpected_cluster_refusal,
)
from trainstack.guards.deletions import owner_refusals
from trainstack.guards.other_states import foreign_deletion_refusal, objects_of_other_states
from trainstack.lifecycle.recovery.state import read_state
from trainstack.live.identity import read_cluster_identity
from trainstack.live.labeled_objects import read_state_metadata


def ensure_same_cluster(session: Session, deployment: Mapping[str, Any] | None) -> None:
    """Print the cluster, and exit with a remedy if the stack was created on another one.

    `deployment` is the state, None without a stack. Raises RefusedError as `announce_cluster` does, and ClusterError.
    """
    announce_cluster(session.settings)
    if refusal := cluster_refusal(session, deployment):
        fail(refusal, ExitCode.REFUSED)


def cluster_refusal(session: Session, deployment: Mapping[str, Any] | None) -> str:
    """Return why this is not the cluster of the stack, with a remedy; empty if it is. Raises ClusterError."""
    identity, expected_identity = read_cluster_identity(session.settings), session.settings.cluster.identity
    refusal = unexpected_cluster_refusal(
        identity, session.stack, expected_identity, session.loaded.place_of("cluster.identity")
    )
    if expected_identity is None:
        refusal = other_cluster_refusal(_cluster_in_state(session, deployment or {}), identity, session.stack)
    return refusal


def ensure_own_objects(session: Session, deployment: Mapping[str, Any] | None) -> None:
    """Exit with a remedy if another owner has objects in this state by now. Raises ClusterError.

    A destroy deletes every object in the state.
    """
    if deployment is None:
        return
    own_state, cluster = read_state({"deployment": deployment}).own_state, session.settings.cluster
    live_objects = read_state_metadata(
        {identity: state_object.api_version for identity, state_object in own_state.objects.items()}, cluster.context
    )
    if refusal := foreign_deletion_refusal(
        objects_of_other_states(live_objects, own_state, session.stack), own_state, session.stack, cluster.take_over
    ):
        fail(refusal, ExitCode.REFUSED)
    if refusals := owner_refusals(live_objects, own_state, session.stack, cluster.take_over):
        fail("nothing was deleted:\n" + "\n".join(refusals), ExitCode.REFUSED)


def _cluster_in_state(session: Session, deployment: Mapping[str, Any]) -> dict[str, str]:
    name = f"::{facts_resource_name(session.settings.environment.profile)}"
    for resource in deployment.get("resources") or ():
        if resource["type"] == FACTS_RESOURCE_TYPE and resource["urn"].endswith(name):
            return dict(resource["outputs"]["output"])
    return {}
