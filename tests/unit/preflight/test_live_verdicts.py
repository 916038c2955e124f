"""The admission verdicts on runs with the live objects of a cluster."""

from dataclasses import replace
from typing import Any

from tests.unit.live_objects import NOW
from tests.unit.make import (
    make_cluster_queue,
    make_group,
    make_manifest_run,
    make_queues,
    make_run,
    make_runtime_run,
    make_settings,
)
from tests.unit.preflight.cluster_cases import IMAGES, KUEUE, check, make_live, make_node, operators
from tests.unit.preflight.cluster_cases import make_cluster_queue as make_queue_of_cluster
from tests.unit.runs.runtimes import make_cluster_runtime, make_job
from trainstack.kueue.format import summary
from trainstack.kueue.verdict import Change, Remedy, Verdict
from trainstack.kueue.verdicts import stack_verdicts
from trainstack.preflight.live_context import LiveCluster, LiveContext
from trainstack.settings.model import Settings
from trainstack.settings.sections.objects import Objects
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import Preemption, ResourceFlavor
from trainstack.settings.sections.workloads import Resources, Workload
from trainstack.stack_objects.stack_objects import StackObjects

Body = dict[str, Any]


def make_user(priority: int = 1000) -> Body:
    """Return a Workload that uses the 2 cpu of the queue `research`."""
    container = {"name": "one", "resources": {"requests": {"cpu": "2"}}}
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}]
    assignment = {"name": "main", "count": 1, "flavors": {"cpu": "cpu"}, "resourceUsage": {"cpu": "2"}}
    return {
        "kind": "Workload",
        "metadata": {"name": "busy", "namespace": "research", "creationTimestamp": NOW},
        "spec": {"queueName": "research", "priority": priority, "podSets": pod_sets},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": NOW}],
            "admission": {"clusterQueue": "research", "podSetAssignments": [assignment]},
        },
    }


def outcome(user: Body) -> str:
    """Return the verdict on a run of priority 1000 whose queue preempts with policy LowerOrNewerEqualPriority."""
    queue = make_cluster_queue(preemption=Preemption(within_cluster_queue="LowerOrNewerEqualPriority"))
    live = make_live()
    live = make_live(admission={**live.admission, "Workload": (user,)})
    declared = StackObjects(make_settings(make_run(), queues=make_queues(cluster_queues=(queue,))))
    (verdict,) = LiveContext(declared, live, {}).verdicts
    return verdict.outcome


def test_a_new_run_does_not_preempt_workloads_of_equal_priority() -> None:
    """The policy allows the preemption of newer workloads, but the run itself is the newest."""
    assert outcome(make_user(priority=1000)) == "waits"
    assert outcome(make_user(priority=999)) == "fits by preempting"


def test_a_finding_of_the_files_is_not_repeated() -> None:
    """The live quota has another value, but the fault is the same."""
    run = make_run(resources=Resources(requests={"cpu": "3", "memory": "1Gi"}))
    assert finding_ids(make_settings(run), {}, make_node(cpu="4")) == []


def test_a_queue_that_lacks_what_the_environment_declares_is_not_inactive() -> None:
    """`up` creates the object. A queue of another owner that lacks a flavor is reported."""

    def inactive(settings: Settings) -> list[str]:
        lists = {"ClusterQueue": (make_queue_of_cluster("FlavorNotFound"),), "ResourceFlavor": ()}
        findings = check(settings, make_live(lists), IMAGES)
        return [finding.message for finding in findings if finding.id == "queue-inactive"]

    assert inactive(make_settings(make_run())) == []
    assert inactive(make_settings(make_run(), queues=NO_QUEUES)) == [
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
        findings = check(make_settings(make_run(), queues=NO_QUEUES), live, IMAGES)
        assert "queue-inactive" in [finding.id for finding in findings]


def verdict_of(settings: Settings, live: LiveCluster) -> Verdict:
    """Return the verdict on the only run, on a cluster with a Kueue of another owner."""
    settings = settings.model_copy(update={"operators": settings.operators.model_copy(update={"kueue": None})})
    (verdict,) = LiveContext(StackObjects(settings), live, {}).verdicts
    return verdict


def test_a_kueue_that_does_not_serve_the_read_version_has_no_verdicts() -> None:
    """Its lists in v1beta2 are empty: queues would be missing, and the whole quota would be free."""
    live = make_live(operators=operators(kueue=replace(KUEUE, release="v0.14.0")))
    empty_lists = dict.fromkeys(("ClusterQueue", "LocalQueue", "ResourceFlavor", "Workload", "AdmissionCheck"), ())
    live = replace(live, admission={**live.admission, **empty_lists})
    for queues in (NO_QUEUES, make_queues()):
        verdict = verdict_of(make_settings(make_run(), queues=queues), live)
        assert (verdict.outcome, verdict.reasons[0].cause) == ("unknown", "unread")


NIC = make_run(resources=Resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"example.com/nic": "1"}))
BIG = Resources(requests={"cpu": "1", "memory": "9Gi"})
NO_QUEUES = make_queues(flavors=(), cohorts=(), cluster_queues=(), local_queues=())


def finding_ids(settings: Settings, resources: Body, node: Body) -> list[str]:
    """Return the findings on a cluster with a Kueue of another owner, configured with these `resources`."""
    operators = settings.operators.model_copy(update={"kueue": None})
    settings = settings.model_copy(update={"operators": operators})
    live = make_live({"Node": (node,)}, kueue={"resources": resources})
    return [finding.id for finding in check(settings, live, IMAGES)]


def test_a_resource_that_the_clusters_kueue_does_not_count_needs_no_quota() -> None:
    """Only Kueue's live configuration shows it. A node must still have the resource."""
    settings, node = make_settings(NIC, queues=NO_QUEUES), make_node()
    node_with_nic = make_node()
    node_with_nic["status"]["allocatable"]["example.com/nic"] = "1"
    assert finding_ids(settings, {}, node_with_nic) == ["resource-uncovered"]
    assert finding_ids(settings, {"excludeResourcePrefixes": ["example.com/"]}, node_with_nic) == []
    assert finding_ids(settings, {"excludeResourcePrefixes": ["example.com/"]}, node) == ["node-resources"]


def test_a_resource_that_kueue_computes_from_others_is_on_no_node() -> None:
    """Neither a pod nor a quota needs nodes with the resource."""
    group = make_group(("cpu", {"cpu": "2", "memory": "8Gi", "credits": "4"}))
    pools = [make_cluster_queue(name=name, resource_groups=(group,)) for name in ("research", "other")]
    pools = [pools[0], pools[1].model_copy(update={"resource_groups": (make_group(("cpu", {"credits": "4"})),)})]
    settings = make_settings(make_run(), queues=make_queues(cluster_queues=tuple(pools)))
    resources = {"transformations": [{"input": "cpu", "outputs": {"credits": "3"}}]}
    assert finding_ids(settings, {}, make_node()) == ["quota-over-nodes", "quota-over-nodes"]
    assert finding_ids(settings, resources, make_node()) == []


def test_a_run_that_waits_is_compared_with_the_nodes_of_its_queues_flavors() -> None:
    """A larger node outside the flavors does not count."""
    labels = {"pool": "a"}
    queues = make_queues(flavors=(ResourceFlavor(name="cpu", node_labels=labels),))
    nodes = (make_node("small", cpu="500m", labels=labels), make_node("large"))
    live = make_live({"Node": nodes})
    live = make_live({"Node": nodes}, admission={**live.admission, "Workload": (make_user(),)})
    messages = [finding.message for finding in check(make_settings(make_run(), queues=queues), live, IMAGES)]
    assert "a pod requests 1 cpu; the largest node of flavor cpu has 0.5" in messages


def test_the_overhead_of_a_runtime_class_is_known_on_a_cluster_alone() -> None:
    """Its 2 cpu do not fit beside the run's own."""
    run = make_run(pod_patch={"spec": {"runtimeClassName": "kata"}})
    declared, live = StackObjects(make_settings(run)), make_live()
    (of_files,) = stack_verdicts(declared)
    assert (of_files.outcome, of_files.reasons[0].message) == (
        "unknown",
        "the overhead of runtime class kata counts as a request, and is unknown here; `check --cluster` reads it",
    )
    outcomes = []
    for overhead in ("2", "1"):
        body = {"kind": "RuntimeClass", "metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": overhead}}}
        with_class = replace(live, admission={**live.admission, "RuntimeClass": (body,)})
        outcomes += [verdict.outcome for verdict in LiveContext(declared, with_class, {}).verdicts]
    assert outcomes == ["never fits", "fits"]


def test_the_pods_of_a_runtime_are_known_on_a_cluster_alone() -> None:
    """Its proxies count beside the nodes: three nodes of 0.5 cpu fit into 2 cpu, with proxies of 0.25 cpu they do not.
    The nodes of MPI are not counted."""
    settings = make_settings(make_runtime_run(), operators=Operators())
    (of_files,) = stack_verdicts(StackObjects(settings))
    (reason,) = of_files.reasons
    assert (of_files.outcome, reason.path) == ("unknown", "workloads.runs[train].runtime")
    assert reason.message == (
        "the pods that ClusterTrainingRuntime torch-distributed defines are unknown here; `trainstack check --cluster` "
        "reads them, except for MPI and Flux"
    )
    proxy = {"name": "proxy", "resources": {"requests": {"cpu": "250m"}}}
    runtimes = (
        make_cluster_runtime(),
        make_cluster_runtime(make_job("node", {"name": "node"}, proxy, step="trainer")),
        make_cluster_runtime(mpi={}),
    )
    outcomes = []
    for runtime in runtimes:
        live = make_live({"ClusterTrainingRuntime": (runtime,)})
        stack_objects = StackObjects(settings, runtimes=live.countable_runtimes)
        outcomes += [verdict.outcome for verdict in LiveContext(stack_objects, live, {}).verdicts]
    assert outcomes == ["fits", "never fits", "unknown"]


TRAINER = {"numNodes": 3, "resourcesPerNode": {"requests": {"cpu": "500m"}}}


def make_trainjob_run(**reference: str) -> Workload:
    """Return a run whose manifest is a TrainJob on a runtime."""
    spec = {"runtimeRef": {"name": "torch-distributed", **reference}, "trainer": TRAINER}
    return make_manifest_run({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": spec})


def test_the_pods_of_a_manifest_are_those_of_its_runtime() -> None:
    """Of the cluster, or one that the environment declares. Otherwise they are unknown."""
    settings = make_settings(make_trainjob_run(), operators=Operators())
    (of_files,) = stack_verdicts(StackObjects(settings))
    (reason,) = of_files.reasons
    assert (of_files.outcome, reason.path) == ("unknown", "workloads.runs[train].manifest.spec.runtimeRef.name")
    proxy = {"name": "proxy", "resources": {"requests": {"cpu": "250m"}}}
    runtime = make_cluster_runtime(make_job("node", {"name": "node"}, proxy, step="trainer"))
    live = make_live({"ClusterTrainingRuntime": (runtime,)})
    stack_objects = StackObjects(settings, runtimes=live.countable_runtimes)
    assert [verdict.outcome for verdict in LiveContext(stack_objects, live, {}).verdicts] == ["never fits"]

    own = make_settings(make_trainjob_run(kind="TrainingRuntime"), operators=Operators())
    assert [verdict.outcome for verdict in stack_verdicts(StackObjects(own))] == ["unknown"]
    for step, outcome in (("trainer", "never fits"), ("", "fits")):
        job = make_job("node", {"name": "node"}, *([proxy] if step else []), step="trainer")
        body = {**make_cluster_runtime(job), "kind": "TrainingRuntime"}
        body["metadata"] = {"name": "torch-distributed", "namespace": "research"}
        declared = own.model_copy(update={"objects": Objects(manifests=(body,))})
        assert [verdict.outcome for verdict in stack_verdicts(StackObjects(declared))] == [outcome]


def remedies_of(settings: Settings, live: LiveCluster) -> dict[str, Remedy]:
    """Return the remedies for the only run, which never fits, by their texts."""
    verdict = verdict_of(settings, live)
    assert verdict.outcome == "never fits"
    return {remedy.text: remedy for remedy in verdict.remedies}


def test_remedies_in_a_declared_queue_are_settings_and_in_another_its_owners() -> None:
    """`up` applies the environment's queue; nobody else's is a setting. The text names who changes it."""
    settings, live = make_settings(make_run(resources=BIG)), make_live()
    for queues, place, path in (
        (make_queues(), "settings", "queues.clusterQueues[research]."),
        (NO_QUEUES, "cluster", "ClusterQueue research spec."),
    ):
        found = remedies_of(settings.model_copy(update={"queues": queues}), live)
        (raised,) = (remedy for text, remedy in found.items() if "nominalQuota" in text)
        assert raised.changes_in == place
        assert raised.text.startswith("have the owner of cluster queue research ") == (place == "cluster")
        assert raised.changes == (
            Change(f"{path}resourceGroups[0].flavors[cpu].resources[memory].nominalQuota", "8Gi", "9Gi"),
        )


def test_a_smaller_request_leaves_room_for_the_overhead_of_the_runtime_class() -> None:
    """Only the cluster has the RuntimeClass."""
    run = make_run(resources=BIG, pod_patch={"spec": {"runtimeClassName": "kata"}})
    live = make_live()
    kata = {"kind": "RuntimeClass", "metadata": {"name": "kata"}, "overhead": {"podFixed": {"memory": "512Mi"}}}
    live = replace(live, admission={**live.admission, "RuntimeClass": (kata,)})
    assert "lower resources.requests.memory from 9Gi to 7680Mi" in remedies_of(make_settings(run), live)


def test_defaults_of_a_limit_range_are_no_setting() -> None:
    """Lowering or removing nothing is no remedy: only the quota can be raised, or the resource covered."""
    for resource, text in (
        ("memory", "in cluster queue research, raise nominalQuota of memory on cpu from 8Gi to 9Gi"),
        ("example.com/nic", "cover example.com/nic (at least 1) in cluster queue research"),
    ):
        amount = {"memory": "9Gi", "example.com/nic": "1"}[resource]
        bounds = {"type": "Container", "default": {resource: amount}, "defaultRequest": {resource: amount}}
        limits = {"kind": "LimitRange", **body("defaults", "research", {"limits": [bounds]})}
        live = make_live()
        live = replace(live, admission={**live.admission, "LimitRange": (limits,)})
        run = make_run(resources=Resources(requests={"cpu": "1"}))
        assert [*remedies_of(make_settings(run), live)] == [text]


def test_a_request_is_not_lowered_below_the_minimum_of_a_limit_range() -> None:
    """Kueue refuses such pods."""
    bounds = {"type": "Container", "min": {"memory": "9Gi"}}
    limits = {"kind": "LimitRange", **body("bounds", "research", {"limits": [bounds]})}
    live = make_live()
    live = replace(live, admission={**live.admission, "LimitRange": (limits,)})
    found = remedies_of(make_settings(make_run(resources=BIG)), live)
    assert [*found] == ["in cluster queue research, raise nominalQuota of memory on cpu from 8Gi to 9Gi"]


def body(name: str, namespace: str, spec: Body) -> Body:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def test_an_unread_configuration_is_assumed_or_makes_the_verdict_unknown() -> None:
    """It is unknown where fair sharing or excluded resources would decide, and marked elsewhere."""

    def verdict(*, configuration: Body | None, user: Body | None = None, **changes: Any) -> str:
        live = make_live(kueue=configuration)
        live = make_live(kueue=configuration, admission={**live.admission, "Workload": (user,) if user else ()})
        settings = make_settings(make_run(**changes), operators=Operators())
        (found,) = LiveContext(StackObjects(settings), live, {}).verdicts
        return summary(found)

    mark = "(if Kueue's Configuration, which could not be read, has its defaults)"
    assert verdict(configuration=None).startswith(f"fits {mark}: on cpu")
    assert verdict(configuration={}).startswith("fits: on cpu")
    nic = Resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"example.com/nic": "1"})
    assert verdict(configuration={}, resources=nic).startswith("never fits: the pod requests example.com/nic")
    assert verdict(configuration=None, resources=nic) == (
        "unknown: the cluster queue does not cover what the pods request, which resources may leave out or transform: "
        "these credentials cannot read Kueue's Configuration"
    )
    assert verdict(configuration={}, user=make_user()).startswith("waits: ")
    assert verdict(configuration=None, user=make_user()) == (
        "unknown: the quota is in use, and fairSharing decides whose workloads are preempted: these credentials cannot "
        "read Kueue's Configuration"
    )
    big = Resources(requests={"cpu": "9", "memory": "1Gi"})
    assert verdict(configuration=None, resources=big).startswith(f"never fits {mark}: ")
