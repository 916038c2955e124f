"""Whether runs would be admitted by what a cluster holds now."""

from dataclasses import replace
from typing import Any

from tests.unit.checks.cluster_cases import IMAGES, KUEUE, check, make_live, make_node, operators
from tests.unit.checks.cluster_cases import make_cluster_queue as make_queue_of_cluster
from tests.unit.checks.live import NOW
from tests.unit.make import make_cluster_queue, make_group, make_queues, make_run, make_settings
from trainstack.declared.declared import Declared
from trainstack.kueue.verdict import Verdict
from trainstack.preflight.live_context import Live, LiveContext
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import Preemption, ResourceFlavor
from trainstack.settings.sections.workloads import Resources

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
    declared = Declared(make_settings(make_run(), queues=make_queues(cluster_queues=(pool,))))
    (verdict,) = LiveContext(declared, live, {}).verdicts
    return verdict.outcome


def test_a_run_that_is_yet_to_be_submitted_is_newer_than_whoever_is_there() -> None:
    """So it evicts nobody of its own priority, though those who are newer than it might be."""
    assert outcome(make_user(priority=1000)) == "waits"
    assert outcome(make_user(priority=999)) == "fits by preempting"


def test_what_the_files_tell_is_not_told_again() -> None:
    """The cluster's own quota is another figure, and the same fault."""
    run = make_run(resources=Resources(requests={"cpu": "3", "memory": "1Gi"}))
    assert found(make_settings(run), {}, make_node(cpu="4")) == []


def test_a_queue_that_lacks_what_the_environment_declares_is_not_inactive() -> None:
    """`up` creates it. A queue of others that lacks a flavor is reported."""

    def inactive(settings: Settings) -> list[str]:
        lists = {"ClusterQueue": (make_queue_of_cluster("FlavorNotFound"),), "ResourceFlavor": ()}
        return [each.message for each in check(settings, make_live(lists), IMAGES) if each.id == "queue-inactive"]

    assert inactive(make_settings(make_run())) == []
    assert inactive(make_settings(make_run(), queues=THEIRS)) == [
        "cluster queue research lists a flavor that does not exist: ask its owner to declare or remove it"
    ]


def test_a_queue_without_its_topology_is_inactive_whether_or_not_topologies_can_be_read() -> None:
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": "9"}]}],
    }
    queue = {**make_queue_of_cluster("TopologyNotFound"), "spec": {"resourceGroups": [group]}}
    flavor = {"kind": "ResourceFlavor", "metadata": {"name": "cpu"}, "spec": {"topologyName": "gone"}}
    for topologies in ((), None):
        live = make_live({"ClusterQueue": (queue,), "ResourceFlavor": (flavor,)})
        live = replace(live, admission={**live.admission, "Topology": topologies})
        assert "queue-inactive" in [each.id for each in check(make_settings(make_run(), queues=THEIRS), live, IMAGES)]


def verdict_of(settings: Settings, live: Live) -> Verdict:
    """The verdict on the only run where others installed Kueue."""
    settings = settings.model_copy(update={"operators": settings.operators.model_copy(update={"kueue": None})})
    (verdict,) = LiveContext(Declared(settings), live, {}).verdicts
    return verdict


def test_a_kueue_that_does_not_serve_what_is_read_has_no_verdicts() -> None:
    """Its lists in v1beta2 are empty: the queues of others would be missing, and the quota all free."""
    live = make_live(operators=operators(kueue=replace(KUEUE, release="v0.14.0")))
    nothing = dict.fromkeys(("ClusterQueue", "LocalQueue", "ResourceFlavor", "Workload", "AdmissionCheck"), ())
    live = replace(live, admission={**live.admission, **nothing})
    for queues in (THEIRS, make_queues()):
        verdict = verdict_of(make_settings(make_run(), queues=queues), live)
        assert (verdict.outcome, verdict.reasons[0].cause) == ("unknown", "unread")


NIC = make_run(resources=Resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"example.com/nic": "1"}))
THEIRS = make_queues(flavors=(), cohorts=(), cluster_queues=(), local_queues=())


def found(settings: Settings, resources: Body, node: Body) -> list[str]:
    """What is found where the configuration of a Kueue that others installed says this of resources."""
    operators = settings.operators.model_copy(update={"kueue": None})
    settings = settings.model_copy(update={"operators": operators})
    return [each.id for each in check(settings, make_live({"Node": (node,)}, kueue={"resources": resources}), IMAGES)]


def test_a_resource_that_the_clusters_kueue_does_not_count_needs_no_quota() -> None:
    """Its configuration says so, which the files cannot know; a node must have it all the same."""
    settings, node = make_settings(NIC, queues=THEIRS), make_node()
    having = make_node()
    having["status"]["allocatable"]["example.com/nic"] = "1"
    assert found(settings, {}, having) == ["resource-uncovered"]
    assert found(settings, {"excludeResourcePrefixes": ["example.com/"]}, having) == []
    assert found(settings, {"excludeResourcePrefixes": ["example.com/"]}, node) == ["node-resources"]


def test_what_kueue_counts_for_others_is_on_no_node() -> None:
    """Neither a pod nor a quota needs nodes that have it."""
    group = make_group(("cpu", {"cpu": "2", "memory": "8Gi", "credits": "4"}))
    pools = [make_cluster_queue(name=name, resource_groups=(group,)) for name in ("research", "other")]
    pools = [pools[0], pools[1].model_copy(update={"resource_groups": (make_group(("cpu", {"credits": "4"})),)})]
    settings = make_settings(make_run(), queues=make_queues(cluster_queues=tuple(pools)))
    counted = {"transformations": [{"input": "cpu", "outputs": {"credits": "3"}}]}
    assert found(settings, {}, make_node()) == ["quota-over-nodes", "quota-over-nodes"]
    assert found(settings, counted, make_node()) == []


def test_a_run_that_waits_is_compared_with_the_nodes_of_its_queues_flavors() -> None:
    """Not with a larger node of no flavor."""
    labels = {"pool": "a"}
    queues = make_queues(flavors=(ResourceFlavor(name="cpu", node_labels=labels),))
    nodes = (make_node("small", cpu="500m", labels=labels), make_node("large"))
    live = make_live({"Node": nodes})
    live = make_live({"Node": nodes}, admission={**live.admission, "Workload": (make_user(),)})
    messages = [each.message for each in check(make_settings(make_run(), queues=queues), live, IMAGES)]
    assert "a pod requests 1 cpu; the largest node of flavor cpu has 0.5" in messages
