"""Whether runs would be admitted by what a cluster holds now."""

from typing import Any

from checks.against_cluster import check
from checks.live import LiveScene
from settings.queues import Preemption
from settings.workloads import Resources
from tests.unit.checks.cluster_cases import IMAGES, make_live
from tests.unit.checks.live import NOW
from tests.unit.make import make_cluster_queue, make_queues, make_run, make_settings

Body = dict[str, Any]


def make_user(priority: int = 1000) -> Body:
    """A Workload that has both of the 2 cpu of the queue `research`."""
    container = {"name": "one", "resources": {"requests": {"cpu": "2"}}}
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}]
    given = {"name": "main", "count": 1, "flavors": {"cpu": "cpu"}, "resourceUsage": {"cpu": "2"}}
    return {
        "kind": "Workload",
        "metadata": {"name": "busy", "namespace": "research", "creationTimestamp": NOW},
        "spec": {"queueName": "research", "priority": priority, "podSets": sets},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": NOW}],
            "admission": {"clusterQueue": "research", "podSetAssignments": [given]},
        },
    }


def outcome(user: Body) -> str:
    """What is said of a run of priority 1000 whose queue evicts who is of lower, or newer and of its own, priority."""
    pool = make_cluster_queue(preemption=Preemption(within_cluster_queue="LowerOrNewerEqualPriority"))
    live = make_live()
    live = make_live(admission={**live.admission, "Workload": (user,)})
    (verdict,) = LiveScene(make_settings(make_run(), queues=make_queues(cluster_queues=(pool,))), live, {}).verdicts
    return verdict.outcome


def test_a_run_that_is_yet_to_be_submitted_is_newer_than_whoever_is_there() -> None:
    """So it evicts nobody of its own priority, though those who are newer than it might be."""
    assert outcome(make_user(priority=1000)) == "waits"
    assert outcome(make_user(priority=999)) == "fits by preempting"


def test_what_the_files_tell_is_not_told_again() -> None:
    """The cluster's own quota is another figure, and the same fault."""
    run = make_run(resources=Resources(requests={"cpu": "3", "memory": "1Gi"}))
    found = check(make_settings(run), make_live(), IMAGES)
    assert [each.id for each in found if each.id == "never-admitted"] == []
