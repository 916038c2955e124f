"""Queues: Kueue's objects in the order in which they refer to each other."""

import pulumi

from tests.registrations.recorder import Registration
from tests.unit.components.declare import declare
from tests.unit.make import make_cluster_queue, make_group, make_queues
from trainstack.components.queues import Queues
from trainstack.settings.sections.queues import AdmissionCheck, Cohort, LocalQueue, QueueCheck, ResourceFlavor

FLAVOR, COHORT, PRIORITY = "ResourceFlavor cpu", "Cohort local", "WorkloadPriorityClass normal"
CLUSTER_QUEUE, LOCAL_QUEUE = "ClusterQueue research", "LocalQueue research/research"
COMPONENT = "Queues queues"


def queues(kueue: str | None = None) -> dict[str, Registration]:
    """Return the registrations of `make_queues`, with or without a release of Kueue in the same stack."""

    def component(opts: pulumi.ResourceOptions) -> Queues:
        version = None if kueue is None else pulumi.Output.from_input(kueue)
        return Queues("queues", make_queues(), opts, kueue=version)

    return declare(component, with_teardown=True)


def test_each_object_depends_on_those_that_it_refers_to() -> None:
    """The engine therefore deletes a flavor after the cluster queue that uses it, as Kueue requires."""
    found = queues()
    assert {*found} == {COMPONENT, FLAVOR, COHORT, PRIORITY, CLUSTER_QUEUE, LOCAL_QUEUE}
    assert found[COMPONENT].type == "trainstack:platform:Queues"
    assert {registration.parent for key, registration in found.items() if key != COMPONENT} == {"queues"}
    assert found[CLUSTER_QUEUE].dependencies == ["cpu", "local"]
    assert found[LOCAL_QUEUE].dependencies == ["research"]
    assert [found[key].dependencies for key in (FLAVOR, COHORT, PRIORITY)] == [[], [], []]
    assert found[COMPONENT].outputs == {"cluster_queues": ["research"], "local_queues": ["research/research"]}


def test_a_queue_depends_on_no_other_queue() -> None:
    """Otherwise the dependencies of many queues would be most of the state."""
    names = ("speech", "vision")
    declared = make_queues(
        flavors=tuple(ResourceFlavor(name=name) for name in (*names, "spare")),
        cohorts=tuple(Cohort(name=name) for name in names),
        admission_checks=tuple(AdmissionCheck(name=f"{name}-nodes", controller_name="x/y") for name in names),
        cluster_queues=tuple(
            make_cluster_queue(
                name=name,
                cohort=name,
                resource_groups=(make_group((name, {"cpu": "2"}), ("of-the-cluster", {"cpu": "2"})),),
                admission_checks=(QueueCheck(name=f"{name}-nodes"),),
            )
            for name in names
        ),
        local_queues=tuple(LocalQueue(name=name, namespace=name, cluster_queue=name) for name in names),
    )
    found = declare(lambda opts: Queues("queues", declared, opts))
    for name in names:
        assert found[f"ClusterQueue {name}"].dependencies == [name, name, f"{name}-nodes"]
        assert found[f"LocalQueue {name}/{name}"].dependencies == [name]


def test_a_cluster_queue_is_drained_before_it_is_deleted() -> None:
    """The timeout for objects with finalizers is three minutes, not the engine's ten."""
    found = queues()
    assert found[CLUSTER_QUEUE].hooks == {"before_delete": ["teardown-deletion", "teardown-queue"]}
    assert found[CLUSTER_QUEUE].options["customTimeouts"] == {"delete": "3m"}
    assert found[FLAVOR].options["customTimeouts"] == {"delete": "3m"}
    assert found[LOCAL_QUEUE].hooks == {"before_delete": ["teardown-deletion"]}


def test_a_local_queue_is_replaced_if_it_refers_to_another_cluster_queue() -> None:
    """Kueue refuses the edit of `spec.clusterQueue`."""
    options = queues()[LOCAL_QUEUE].options
    assert options["replaceOnChanges"] == ["spec.clusterQueue"]
    assert options["deleteBeforeReplace"] is True


def test_the_release_of_kueue_changes_no_object() -> None:
    """It only delays them: a label is an output of the controller."""
    with_kueue, without = queues("v0.15.2"), queues()
    assert {key: entry.inputs for key, entry in with_kueue.items()} == {
        key: entry.inputs for key, entry in without.items()
    }
