"""Queues: Kueue's objects in the order in which they refer to each other."""

import pulumi

from tests.registrations.recorder import Registration
from tests.unit.components.declare import declare
from tests.unit.make import make_queues
from trainstack.components.queues import Queues

FLAVOR, COHORT, PRIORITY = "ResourceFlavor cpu", "Cohort local", "WorkloadPriorityClass normal"
CLUSTER_QUEUE, LOCAL_QUEUE = "ClusterQueue research", "LocalQueue research/research"
COMPONENT = "Queues queues"


def queues(kueue: str | None = None) -> dict[str, Registration]:
    """What the engine receives of `make_queues`, with a release of Kueue in the same stack or without."""

    def component(opts: pulumi.ResourceOptions) -> Queues:
        version = None if kueue is None else pulumi.Output.from_input(kueue)
        return Queues("queues", make_queues(), opts, kueue=version)

    return declare(component, torn_down=True)


def test_each_object_follows_what_it_refers_to() -> None:
    """So the engine deletes a flavor after the cluster queue that uses it, which Kueue demands."""
    found = queues()
    assert {*found} == {COMPONENT, FLAVOR, COHORT, PRIORITY, CLUSTER_QUEUE, LOCAL_QUEUE}
    assert found[COMPONENT].type == "trainstack:platform:Queues"
    assert {registration.parent for key, registration in found.items() if key != COMPONENT} == {"queues"}
    assert found[CLUSTER_QUEUE].dependencies == ["cpu", "local"]
    assert found[LOCAL_QUEUE].dependencies == ["research"]
    assert [found[key].dependencies for key in (FLAVOR, COHORT, PRIORITY)] == [[], [], []]
    assert found[COMPONENT].outputs == {"cluster_queues": ["research"], "local_queues": ["research/research"]}


def test_a_cluster_queue_is_drained_before_it_is_deleted() -> None:
    """What a finalizer may hold is given three minutes, not the engine's ten."""
    found = queues()
    assert found[CLUSTER_QUEUE].hooks == {"before_delete": ["teardown-queue"]}
    assert found[CLUSTER_QUEUE].options["customTimeouts"] == {"delete": "3m"}
    assert found[FLAVOR].options["customTimeouts"] == {"delete": "3m"}
    assert not found[LOCAL_QUEUE].hooks


def test_a_local_queue_is_replaced_where_it_refers_to_another_cluster_queue() -> None:
    """Kueue refuses the edit of `spec.clusterQueue`."""
    options = queues()[LOCAL_QUEUE].options
    assert options["replaceOnChanges"] == ["spec.clusterQueue"]
    assert options["deleteBeforeReplace"] is True


def test_the_release_of_kueue_changes_no_object() -> None:
    """It only delays them: their label is an output of the controller."""
    with_kueue, without = queues("v0.15.2"), queues()
    assert {key: found.inputs for key, found in with_kueue.items()} == {
        key: found.inputs for key, found in without.items()
    }
