"""Models and workloads from Kubernetes objects."""

from typing import Any

import pytest

from tests.unit.kueue.make import make_model, make_queue, make_workload
from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_queues,
    make_run,
    make_settings,
)
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.from_objects import read_model, read_queue_state, stack_model
from trainstack.kueue.model import (
    AdmittedWorkload,
    ClusterNode,
    Cohort,
    LocalQueue,
    Quota,
    Requirement,
    Taint,
    Workload,
)
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.verdicts import stack_verdicts
from trainstack.kueue.workloads import read_kueue_workload, read_workload, run_workloads
from trainstack.settings.sections.affinity import Affinity
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.queues import ResourceFlavor
from trainstack.settings.sections.workloads import ReplicatedJob, Role
from trainstack.stack_objects.stack_objects import StackObjects


def body(kind: str, name: str, spec: Any = None, **changes: Any) -> dict[str, Any]:
    """Return an object."""
    metadata = {"name": name, **changes.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, **({} if spec is None else {"spec": spec}), **changes}


def test_a_model_has_the_values_of_the_objects() -> None:
    """It has every field that an admission depends on, in Kueue's integers, or with Kueue's default."""
    quota = {"name": "cpu", "nominalQuota": "1500m", "borrowingLimit": 2, "lendingLimit": "0"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    model = read_model(
        [
            body(
                "ResourceFlavor",
                "f",
                {"nodeLabels": {"pool": "a"}, "nodeTaints": [{"key": "k", "effect": "NoExecute"}]},
            ),
            body("Cohort", "lab", {"parentName": "root", "resourceGroups": [group]}),
            body(
                "ClusterQueue",
                "q",
                {
                    "cohortName": "lab",
                    "resourceGroups": [group],
                    "namespaceSelector": {"matchLabels": {"team": "red"}},
                    "queueingStrategy": "StrictFIFO",
                    "stopPolicy": "Hold",
                    "preemption": {
                        "withinClusterQueue": "LowerPriority",
                        "reclaimWithinCohort": "Any",
                        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 7},
                    },
                    "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"},
                    "admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]},
                },
            ),
            body("LocalQueue", "l", {"clusterQueue": "q"}, metadata={"namespace": "ns"}),
            body("WorkloadPriorityClass", "high", value=9),
            body("Namespace", "ns", metadata={"labels": {"team": "red"}}),
            body("AdmissionCheck", "budget", status={"conditions": [{"type": "Active", "status": "True"}]}),
            body("RuntimeClass", "heavy", overhead={"podFixed": {"cpu": "250m"}}),
            body(
                "Node",
                "n",
                {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "unschedulable": True},
                status={"allocatable": {"cpu": "4", "memory": "8Gi"}},
            ),
            body("Secret", "passed over"),
        ]
    )
    quotas = {("f", "cpu"): Quota(1500, 2000, 0)}
    assert model.cohorts == {"lab": Cohort("lab", "root", quotas)}
    queue = (model.cluster_queues or {})["q"]
    assert (queue.cohort, queue.quotas, queue.is_strict_fifo, queue.stop_policy) == ("lab", quotas, True, "Hold")
    assert queue.namespace_selector == (Requirement("team", "In", ("red",)),)
    assert (queue.preemption.borrow_within_cohort, queue.preemption.borrow_threshold) == (True, 7)
    assert (queue.fungibility.when_can_borrow, queue.fungibility.when_can_preempt) == ("TryNextFlavor", "TryNextFlavor")
    assert queue.checks == ("budget",)
    assert (model.flavors or {})["f"].taints == (Taint("k", "", "NoExecute"),)
    assert (model.priorities, model.active_checks) == ({"high": 9}, {"budget": True})
    assert model.namespaces == {"ns": {"team": "red", "kubernetes.io/metadata.name": "ns"}}
    assert model.overheads == {"heavy": {"cpu": "250m"}}
    assert model.nodes == (
        ClusterNode("n", {}, (Taint("k", "v", "NoSchedule"),), {"cpu": 4000, "memory": 8 * 2**30}, unschedulable=True),
    )


def test_a_queue_that_selects_no_namespace_is_closed() -> None:
    """A missing selector admits no namespace, an empty one admits all."""
    model = read_model([body("ClusterQueue", "closed", {}), body("ClusterQueue", "open", {"namespaceSelector": {}})])
    assert {name: queue.namespace_selector for name, queue in (model.cluster_queues or {}).items()} == {
        "closed": None,
        "open": (),
    }


def test_the_status_of_a_live_queue_counts_only_for_facts_that_no_field_has() -> None:
    """Examples are a missing topology and a terminating queue. `stopPolicy` has the hold, also after the change."""

    def queue(name: str, reason: str, message: str) -> dict[str, Any]:
        active = {"type": "Active", "status": "False", "reason": reason, "message": message}
        return body("ClusterQueue", name, {}, status={"conditions": [active]})

    terminating = body("ClusterQueue", "terminating", {}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    message = 'Can\'t admit new workloads: there is no Topology "racks" for TAS flavor "f".'
    bodies = [queue("held", "Stopped", "is stopped"), queue("bare", "TopologyNotFound", message), terminating]
    model = read_model(bodies, unread_kinds=("Topology",))
    assert {name: queue.inactive_message for name, queue in (model.cluster_queues or {}).items()} == {
        "held": "",
        "bare": 'there is no Topology "racks" for TAS flavor "f"',
        "terminating": "it is being deleted",
    }


def test_a_check_may_be_for_some_flavors() -> None:
    """`onFlavors` lists them; without it the check is for all flavors."""
    rules = [{"name": "budget"}, {"name": "spare", "onFlavors": ["b"]}]
    model = read_model([body("ClusterQueue", "q", {"admissionChecksStrategy": {"admissionChecks": rules}})])
    (queue,) = (model.cluster_queues or {}).values()
    assert (queue.checks, queue.check_flavors) == (("budget", "spare"), {"spare": frozenset("b")})


def test_unreadable_objects_are_none_and_not_empty() -> None:
    model = read_model([], unread_kinds=("ClusterQueue", "Node"))
    assert (model.cluster_queues, model.nodes, model.local_queues) == (None, None, {})


def test_an_environment_is_read_from_the_objects_that_it_declares() -> None:
    """The runs have the paths of the settings of their pods. Without the platform the queues are unknown."""
    jobs = (ReplicatedJob(name="driver"), ReplicatedJob(name="workers", replicas=2, parallelism=3))
    settings = make_settings(
        make_distributed(),
        make_run(name="free", queue=None),
        make_distributed(name="trained", kind="TrainJob"),
        make_run(name="set", kind="JobSet", managed=False, replicated_jobs=jobs, priority=None),
    )
    model = stack_model(StackObjects(settings))
    found = run_workloads(StackObjects(settings), model)
    assert [(workload.name, workload.path, workload.priority) for workload in found] == [
        ("train", "workloads.runs[train]", 1000),
        ("trained", "workloads.runs[trained]", 1000),
        ("set", "workloads.runs[set]", 0),
    ]
    assert [[(pods.name, pods.count, pods.path) for pods in workload.pod_sets] for workload in found] == [
        [
            ("master", 1, "workloads.runs[train].roles.Master"),
            ("worker", 2, "workloads.runs[train].roles.Worker"),
        ],
        [("node", 3, "workloads.runs[trained].roles.Master")],
        [
            ("driver", 1, "workloads.runs[set].replicatedJobs[driver]"),
            ("workers", 6, "workloads.runs[set].replicatedJobs[workers]"),
        ],
    ]
    assert found[0].pod_sets[1].resources_path == "workloads.runs[train].resources"
    tenant = settings.model_copy(update={"environment": Environment(layers=("training",))})
    assert [verdict.outcome for verdict in stack_verdicts(StackObjects(tenant))] == ["unknown"] * 3


def test_a_run_that_cannot_be_built_is_left_out() -> None:
    """Another rule reports the reason."""
    run = make_distributed(kind="TrainJob", env={"PET_NNODES": "2"})
    settings = make_settings(run)
    assert run_workloads(StackObjects(settings), stack_model(StackObjects(settings))) == ()


def test_the_minimum_count_of_a_job_is_read_from_its_annotation() -> None:
    """A value that is not a number is ignored."""
    job = {
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"}},
        "spec": {"parallelism": 4, "completions": 9, "template": {"spec": {"containers": [{"name": "c"}]}}},
    }
    read = read_workload(job, (), make_model())
    assert (read.pod_sets[0].count, read.pod_sets[0].min_count) == (4, 2)
    for annotation in ("some", "--2", "²", ""):
        job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": annotation}  # type: ignore[index]
        assert read_workload(job, (), make_model()).pod_sets[0].min_count is None


def make_live(**status: Any) -> dict[str, Any]:
    """Return a Workload with three pods on queue `l`, with this status."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    spec = {"queueName": "l", "priority": 5, "podSets": [{"name": "main", "count": 3, "template": template}]}
    metadata = {"namespace": "ns", "creationTimestamp": "2026-01-01T00:00:10Z"}
    return body("Workload", "w", spec, metadata=metadata, status=status)


def test_kueues_workloads_are_admitted_waiting_or_finished() -> None:
    """Admitted workloads have their usage of flavors; reclaimable pods release theirs."""
    usage = {"cpu": "3", "example.com/none": "0"}
    assigned = {"name": "main", "count": 3, "flavors": {"cpu": "f"}, "resourceUsage": usage}
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:20Z"}
    admission = {"clusterQueue": "q", "podSetAssignments": [assigned]}
    waiting = read_kueue_workload(make_live(), make_model())
    assert isinstance(waiting, Workload)
    assert (waiting.key, waiting.queue, waiting.priority, waiting.pod_sets[0].requests) == (
        "ns/w",
        "l",
        5,
        {"cpu": 3000},
    )
    admitted = read_kueue_workload(make_live(conditions=[reserved], admission=admission), make_model())
    assert isinstance(admitted, AdmittedWorkload)
    assert (admitted.cluster_queue, admitted.usage, admitted.is_evicted) == ("q", {("f", "cpu"): 3000}, False)
    assert admitted.reserved_at - admitted.workload.created == 10
    fewer = make_live(
        conditions=[reserved, {"type": "Evicted", "status": "True"}],
        admission=admission,
        reclaimablePods=[{"name": "main", "count": 2}],
    )
    evicted = read_kueue_workload(fewer, make_model())
    assert isinstance(evicted, AdmittedWorkload)
    assert (evicted.usage, evicted.is_evicted) == ({("f", "cpu"): 1000}, True)
    assert read_kueue_workload(make_live(conditions=[{"type": "Finished", "status": "True"}]), make_model()) is None


def test_a_snapshot_has_admitted_and_waiting_workloads() -> None:
    """Both are in one list of objects."""
    assigned = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3"}}
    using = make_live(
        conditions=[{"type": "QuotaReserved", "status": "True"}],
        admission={"clusterQueue": "q", "podSetAssignments": [assigned]},
    )
    found = read_queue_state([using, {**make_live(), "metadata": {"name": "next", "namespace": "ns"}}])
    assert [admitted.workload.name for admitted in found.admitted] == ["w"]
    assert [workload.name for workload in found.pending] == ["next"]
    assert found.model.is_declared is False


def test_paths_of_two_local_queues_with_the_same_name_have_an_index() -> None:
    """In settings the path has the index of the element; on a cluster it has the object's namespace."""
    held = {(name, "q"): LocalQueue(name, "q", "q", stop_policy="Hold") for name in ("ns", "other")}
    workload = make_workload(namespace="other")
    for declared, path in ((True, "queues.localQueues[1].stopPolicy"), (False, "LocalQueue other/q spec.stopPolicy")):
        verdict = simulate(workload, make_model(make_queue(), local_queues=held, is_declared=declared))
        assert (verdict.outcome, [reason.path for reason in verdict.reasons]) == ("waits", [path])


def test_the_path_of_a_cluster_queue_on_hold_is_its_stop_policy() -> None:
    settings = make_settings(make_run(), queues=make_queues(cluster_queues=(make_cluster_queue(stop_policy="Hold"),)))
    (verdict,) = stack_verdicts(StackObjects(settings))
    assert (verdict.outcome, verdict.reasons[0].path) == ("waits", "queues.clusterQueues[research].stopPolicy")


def test_objects_without_a_spec_are_read() -> None:
    """Kueue's definitions require neither a spec nor a LocalQueue's cluster queue."""
    bare = {"apiVersion": "kueue.x-k8s.io/v1beta2", "metadata": {"name": "q", "namespace": "ns"}}
    kinds = ("ResourceFlavor", "ClusterQueue", "LocalQueue", "Cohort", "AdmissionCheck", "Workload", "Node")
    state = read_queue_state([{**bare, "kind": kind} for kind in kinds])
    assert [queue.cluster_queue for queue in (state.model.local_queues or {}).values()] == [""]
    assert [simulate(workload, state.model).outcome for workload in state.pending] == ["never fits"]


def test_fair_sharing_is_read_from_kueues_configuration() -> None:
    """In v1beta2 the presence of `fairSharing` enables it, in v1beta1 `enable`."""
    old = {"apiVersion": "config.kueue.x-k8s.io/v1beta1", "fairSharing": {"preemptionStrategies": []}}
    off: list[dict[str, Any] | None] = [None, {}, {"fairSharing": {"enable": False}}, old]
    on: list[dict[str, Any]] = [
        {"fairSharing": {"enable": True}},
        {"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]}},
    ]
    assert not any(read_model((), kueue_configuration=configuration).fair_sharing for configuration in off)
    assert all(read_model((), kueue_configuration=configuration).fair_sharing for configuration in on)
    objects = (
        body("ClusterQueue", "q", {"fairSharing": {"weight": "500m"}}),
        body("ClusterQueue", "r", {}),
        body("Cohort", "lab", {"fairSharing": {"weight": 2}}),
    )
    model = read_model(objects)
    assert model.cluster_queues is not None
    assert [model.cluster_queues["q"].weight, model.cluster_queues["r"].weight, model.cohorts["lab"].weight] == [
        0.5,
        1.0,
        2.0,
    ]


def test_a_required_affinity_of_a_run_restricts_its_flavors() -> None:
    """As in Kueue, the labels of the queue's flavors count; an affinity that no flavor matches never fits."""
    fast, slow = (ResourceFlavor(name=name, node_labels={"disk": name}) for name in ("fast", "slow"))
    group = make_group(("slow", {"cpu": "2", "memory": "8Gi"}), ("fast", {"cpu": "2", "memory": "8Gi"}))
    queues = make_queues(flavors=(fast, slow), cluster_queues=(make_cluster_queue(resource_groups=(group,)),))

    def verdict(value: str) -> Verdict:
        expression = {"key": "disk", "operator": "In", "values": (value,)}
        required = {"nodeSelectorTerms": ({"matchExpressions": (expression,)},)}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        run = make_run(affinity=Affinity.model_validate(affinity))
        (found,) = stack_verdicts(StackObjects(make_settings(run, queues=queues)))
        return found

    assert [pod_set.flavors["cpu"] for pod_set in verdict("fast").assigned] == ["fast"]
    assert [pod_set.flavors["cpu"] for pod_set in verdict("slow").assigned] == ["slow"]
    none = verdict("none")
    assert (none.outcome, {reason.cause for reason in none.reasons}) == ("never fits", {"affinity"})


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob", "TrainJob", "JobSet"])
def test_the_pods_of_a_verdict_are_patched(kind: str) -> None:
    """Resources of the main and of added containers and selectors count: the verdict is about the patched object."""
    helper = {"name": "helper", "image": "helper", "resources": {"requests": {"cpu": "250m"}}}
    program = {"name": {"PyTorchJob": "pytorch", "TrainJob": "node"}.get(kind, "training")}
    spec = {
        "containers": [{**program, "resources": {"requests": {"cpu": "1500m"}}}, helper],
        "nodeSelector": {"disk": "fast"},
    }
    roles = {"Master": Role()} if kind in ("PyTorchJob", "TrainJob") else {}
    jobs = (ReplicatedJob(name="node"),) if kind == "JobSet" else ()
    settings = make_settings(make_run(kind=kind, roles=roles, replicated_jobs=jobs, pod_patch={"spec": spec}))
    declared = StackObjects(settings)
    (workload,) = run_workloads(declared, stack_model(declared))
    (pods,) = workload.pod_sets
    assert pods.requests["cpu"] == 1750
    assert pods.selector == {"disk": "fast"}
