"""An edit of a queue that evicts admitted runs is refused like their deletion."""

from typing import Any

import pytest

from tests.unit.lifecycle.teardown.teardown_cases import make_body, make_scene, owned_by
from tests.unit.live_objects import RUN, make_launch_body
from tests.unit.make import make_cluster_queue, make_queues, make_settings
from trainstack.lifecycle.evictions import draining_queues, eviction_refusals, find_evicted_runs, worker_refusals
from trainstack.objects.ownership import Identity
from trainstack.runs.launches import live_launch
from trainstack.settings.sections.queues import LocalQueue, MultiKueueConfig
from trainstack.settings.sections.workloads import Workloads

Body = dict[str, Any]
CLUSTER_QUEUE: Identity = ("ClusterQueue", None, "research")
LOCAL_QUEUE: Identity = ("LocalQueue", "research", "research")
LAUNCH = make_launch_body()
THEIRS = make_body("Job", "theirs", "research")


def make_workload(owner: Body, **status: Any) -> Body:
    """Return the admitted Workload of a launch."""
    return make_body(
        "Workload",
        f"w-{owner['metadata']['name']}",
        "research",
        spec={"queueName": "research"},
        status={"admission": {"clusterQueue": "research"}, **status},
        metadata=owned_by(owner),
    )


def refusals(*workloads: Body, draining: Identity = CLUSTER_QUEUE, stop: tuple[str, ...] = (), **lists: Any) -> str:
    """Return the refusals of a change after which a queue drains."""
    live = make_scene(launches=(live_launch(LAUNCH),), lists={"Workload": workloads, **lists})
    return "\n".join(eviction_refusals(live, {draining}, stop))


def test_the_draining_queues_are_declared_with_hold_and_drain() -> None:
    """`Hold` lets admitted runs end."""
    held = make_cluster_queue(stop_policy="Hold")
    assert draining_queues(make_settings(queues=make_queues(cluster_queues=(held,)))) == frozenset()
    drained = make_cluster_queue(stop_policy="HoldAndDrain")
    local = LocalQueue(name="research", namespace="research", cluster_queue="research", stop_policy="HoldAndDrain")
    settings = make_settings(queues=make_queues(cluster_queues=(drained,), local_queues=(local,)))
    assert draining_queues(settings) == {CLUSTER_QUEUE, LOCAL_QUEUE}


@pytest.mark.parametrize("queue", [CLUSTER_QUEUE, LOCAL_QUEUE])
def test_an_admitted_run_is_named_before_it_is_evicted(queue: Identity) -> None:
    """The refusal has the entry of `stop`, also for runs of other owners."""
    text = refusals(make_workload(LAUNCH), make_workload(THEIRS), draining=queue)
    assert f"would evict Job research/{LAUNCH['metadata']['name']} (running" in text
    assert f"stop: [{RUN}]" in text
    assert "would evict Job research/theirs" in text
    assert "stop: [research/theirs]" in text
    assert "`stopPolicy: Hold`" in text
    assert refusals(make_workload(LAUNCH), make_workload(THEIRS), draining=queue, stop=(RUN, "research/theirs")) == ""


def test_waiting_and_finished_runs_are_not_evicted() -> None:
    """Nor are runs of other queues, or those of a queue that drains already."""
    finished = {"conditions": [{"type": "Finished", "status": "True"}]}
    assert refusals(make_workload(LAUNCH, admission=None), make_workload(THEIRS, **finished)) == ""
    assert refusals(make_workload(LAUNCH, admission={"clusterQueue": "other"})) == ""
    stopped = make_body("ClusterQueue", "research", spec={"stopPolicy": "HoldAndDrain"})
    assert refusals(make_workload(LAUNCH), ClusterQueue=(stopped,)) == ""


def test_evicted_runs_are_known_to_the_notes_on_stop() -> None:
    """An entry for a run of another stack is not reported as unknown while it has an effect."""
    live = make_scene(launches=(live_launch(LAUNCH),), lists={"Workload": (make_workload(THEIRS),)})
    assert [name for *_, name in find_evicted_runs(live, {CLUSTER_QUEUE})] == ["research/theirs"]


def test_a_worker_cluster_is_not_removed_under_a_dispatched_run() -> None:
    """Kueue would find the worker lost, and dispatch the run to another one while it executes."""
    config = MultiKueueConfig(name="workers", clusters=("east",))
    parameters = {"kind": "MultiKueueConfig", "name": "workers"}
    lists = {
        "MultiKueueConfig": (make_body("MultiKueueConfig", "workers", spec={"clusters": ["east", "west"]}),),
        "AdmissionCheck": (make_body("AdmissionCheck", "remote", spec={"parameters": parameters}),),
    }

    def refused(cluster: str, check: str = "remote", stop: tuple[str, ...] = ()) -> tuple[str, ...]:
        workload = make_workload(THEIRS, clusterName=cluster, admissionChecks=[{"name": check}])
        settings = make_settings(
            queues=make_queues(multi_kueue_configs=(config,)), workloads=Workloads(stop=stop, runs=())
        )
        return worker_refusals(make_scene(lists={**lists, "Workload": (workload,)}), settings)

    (text,) = refused("west")
    assert text.startswith("MultiKueueCluster west is removed from its MultiKueueConfig, and Job research/theirs is")
    assert "stop: [research/theirs]" in text
    assert refused("east") == refused("west", check="other") == refused("west", stop=("research/theirs",)) == ()
