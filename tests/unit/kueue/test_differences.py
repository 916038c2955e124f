"""The rules in which Kueue v0.18 and v0.19 differ from the releases before."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.differences import RELEASES, release_of
from trainstack.kueue.flavor_assigner import GranularMode, Mode, is_preferred
from trainstack.kueue.from_objects import read_model
from trainstack.kueue.model import Flavor, FlavorFungibility, Model, Preemption, ResourceGroup
from trainstack.kueue.scheduler import Scheduler
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.workloads import read_kueue_workload

Body = dict[str, Any]


def make_objects(*quotas: Body, labels: Body | None = None, **queue: Any) -> list[Body]:
    """Return a queue `q` with these quotas on the flavors f0, f1, …; the first one has the labels."""
    covered = [name for name in quotas[0] if name != "lendingLimit"]
    flavors = [
        {"name": f"f{index}", "resources": [{"name": name, "nominalQuota": quota[name]} for name in covered]}
        for index, quota in enumerate(quotas)
    ]
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": covered, "flavors": flavors}],
        **queue,
    }
    return [
        *(
            {
                "kind": "ResourceFlavor",
                "metadata": {"name": flavor["name"]},
                "spec": {"nodeLabels": labels or {}} if flavor is flavors[0] else {},
            }
            for flavor in flavors
        ),
        {"kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": spec},
        {"kind": "LocalQueue", "metadata": {"name": "q", "namespace": "ns"}, "spec": {"clusterQueue": "q"}},
    ]


def make_body(annotations: Body | None = None, status: Body | None = None, **spec: Any) -> Body:
    """Return a Workload of Kueue with one pod that requests 1 cpu, or has this spec."""
    pod_spec = {"containers": [{"name": "one", "resources": {"requests": {"cpu": "1"}}}], **spec}
    return {
        "kind": "Workload",
        "metadata": {"name": "asked", "namespace": "ns", "annotations": annotations or {}},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": pod_spec}}]},
        "status": status or {},
    }


def judge(body: Body, release: str, objects: list[Body], **configuration: Any) -> Verdict:
    model = read_model(objects, kueue_configuration=configuration, release=release)
    workload = read_kueue_workload(body, model)
    assert workload is not None
    return simulate(workload, model)  # type: ignore[arg-type]


STOCK: Body = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "health": {"healthProbeBindAddress": ":8081"},
    "metrics": {"bindAddress": ":8443"},
    "webhook": {"port": 9443},
    "leaderElection": {"leaderElect": True},
    "controller": {"groupKindConcurrency": {"Job.batch": 5}},
    "clientConnection": {"qps": 300, "burst": 500},
    "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"]},
}
"""The fields that Kueue's release sets."""


@pytest.mark.parametrize("release", ["v0.18.4", "v0.19.2"])
def test_ordinary_runs_in_ordinary_queues_have_a_verdict_with_the_configuration_of_the_release(release: str) -> None:
    """The gates that are on by default count only for what uses them."""
    assert judge(make_body(), release, make_objects({"cpu": "1"}), **STOCK).outcome == "fits"
    large = make_body(containers=[{"name": "one", "resources": {"requests": {"cpu": "2"}}}])
    assert judge(large, release, make_objects({"cpu": "1"}), **STOCK).outcome == "never fits"


@pytest.mark.parametrize(
    ("release", "outcome"),
    [
        *(("v0.15.2", "never fits"), ("v0.17.5", "never fits"), ("v0.18.4", "fits"), ("v0.19.2", "fits")),
        *(("v0.17.6", "unknown"), ("v0.18.1", "unknown"), ("", "unknown")),
    ],
)
def test_a_selector_is_compared_with_a_flavors_own_labels_since_v0_18(release: str, outcome: str) -> None:
    """Only the first flavor has the label, and its value is another one."""
    objects = make_objects({"cpu": "1"}, {"cpu": "1"}, labels={"pool": "a"})
    assert judge(make_body(nodeSelector={"pool": "b"}), release, objects).outcome == outcome
    assert judge(make_body(nodeSelector={"other": "b"}), release, objects).outcome == "fits"


@pytest.mark.parametrize(("release", "preferred"), [("v0.15", True), ("v0.18", True), ("v0.19", False)])
def test_a_flavor_without_preemption_candidates_is_the_worst_since_v0_19(release: str, preferred: bool) -> None:
    """Otherwise its lower borrowing level makes it better than one that fits, where levels come first."""
    none, fit = GranularMode(Mode.NO_CANDIDATES, 0), GranularMode(Mode.FIT, 1)
    fungibility = FlavorFungibility(
        preference="BorrowingOverPreemption", no_candidates_last=RELEASES[release].no_candidates_last
    )
    assert is_preferred(none, fit, fungibility) is preferred
    assert is_preferred(none, GranularMode(Mode.NO_FIT, 0), fungibility)


@pytest.mark.parametrize(
    ("release", "unknown"),
    [("v0.18.4", False), ("v0.18.5", True), ("v0.19.0", True), ("v0.19.1", False), ("v0.19", False)],
)
def test_the_place_of_such_a_flavor_is_unknown_for_patch_releases_with_another_rule(
    release: str, unknown: bool
) -> None:
    queue = make_objects({"cpu": "1"}, flavorFungibility={"preference": "PreemptionOverBorrowing"})
    assert (judge(make_body(), release, queue).outcome == "unknown") is unknown


@pytest.mark.parametrize(("release", "outcome"), [("v0.17.0", "never fits"), ("v0.18.4", "fits"), ("", "unknown")])
def test_quotas_that_overflow_are_unlimited_since_v0_18(release: str, outcome: str) -> None:
    """The cohort of two queues with 9E each has a negative quota before."""
    objects = make_objects({"memory": "9E"}, cohortName="lab")
    other = make_objects({"memory": "9E"}, cohortName="lab")[1]
    objects.append({**other, "metadata": {"name": "other"}})
    body = make_body(containers=[{"name": "one", "resources": {"requests": {"memory": "1Gi"}}}])
    assert judge(body, release, objects).outcome == outcome


def test_nothing_of_unlimited_quota_is_lent_if_it_has_a_lending_limit() -> None:
    """Unlimited minus any amount is unlimited, which is what the queue keeps."""
    objects = make_objects({"memory": "0"}, cohortName="lab")
    lender = make_objects({"memory": "30E"}, cohortName="lab")[1]
    lender["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = "1Ti"
    objects.append({**lender, "metadata": {"name": "lender"}})
    body = make_body(containers=[{"name": "one", "resources": {"requests": {"memory": "1Gi"}}}])
    assert judge(body, "v0.19.2", objects).outcome == "never fits"


@pytest.mark.parametrize(
    ("release", "outcome"),
    [("v0.17.0", "fits"), ("v0.17.7", "unknown"), ("v0.18.2", "unknown"), ("v0.18.4", "never fits"), ("", "unknown")],
)
def test_a_limit_of_the_whole_pod_counts_as_its_request_since_v0_18(release: str, outcome: str) -> None:
    body = make_body(resources={"limits": {"cpu": "2"}})
    assert judge(body, release, make_objects({"cpu": "1"})).outcome == outcome


def test_a_request_of_the_whole_pod_above_its_limit_is_refused_since_v0_18() -> None:
    body = make_body(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})
    assert judge(body, "v0.17.0", make_objects({"cpu": "9"})).outcome == "fits"
    (reason,) = judge(body, "v0.19.2", make_objects({"cpu": "9"})).reasons
    assert reason.message == "the pod requests more cpu than its limit"


TRANSFORMATION = {"input": "cpu", "strategy": "Retain", "outputs": {"x.com/credits": "10"}}


@pytest.mark.parametrize(
    ("release", "booked"), [("v0.17.0", 10), ("v0.17.7", None), ("v0.18.4", 3), ("v0.19.2", 3), ("", None)]
)
def test_transformations_multiply_the_exact_amount_since_v0_18(release: str, booked: int | None) -> None:
    """Of 300m, each of which is worth a hundredth of a credit; before, it counts as a whole core."""
    body = make_body(containers=[{"name": "one", "resources": {"requests": {"cpu": "300m"}}}])
    objects = make_objects({"cpu": "1", "x.com/credits": "99"})
    found = judge(body, release, objects, resources={"transformations": [TRANSFORMATION]})
    assert found.usage.get(("f0", "x.com/credits")) == booked


@pytest.mark.parametrize(("release", "booked"), [("v0.18.4", None), ("v0.19.0", None), ("v0.19.2", 12)])
def test_outputs_are_added_to_requests_since_v0_19(release: str, booked: int | None) -> None:
    """Before, chance decides."""
    requested = {"cpu": "1", "x.com/credits": "2"}
    body = make_body(containers=[{"name": "one", "resources": {"requests": requested}}])
    objects = make_objects({"cpu": "1", "x.com/credits": "99"})
    found = judge(body, release, objects, resources={"transformations": [TRANSFORMATION]})
    assert found.usage.get(("f0", "x.com/credits")) == booked


@pytest.mark.parametrize(
    ("strategy", "gate", "outcome"),
    [
        ("IgnoreUndeclared", True, "fits"),
        ("IgnoreUndeclared", False, "never fits"),
        ("BlockUndeclared", True, "never fits"),
    ],
)
def test_requests_that_the_queue_does_not_cover_may_be_ignored_since_v0_18(
    strategy: str, gate: bool, outcome: str
) -> None:
    body = make_body(containers=[{"name": "one", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}])
    configuration = {"resources": {"quotaCheckStrategy": strategy}, "featureGates": {"QuotaCheckStrategy": gate}}
    for release in ("v0.18.4", "v0.19.2"):
        assert judge(body, release, make_objects({"cpu": "1"}), **configuration).outcome == outcome


@pytest.mark.parametrize(
    ("annotation", "since"),
    [
        ("kueue.x-k8s.io/admission-gated-by", "v0.19.2"),
        ("kueue.x-k8s.io/elastic-job", "v0.18.4"),
        ("kueue.x-k8s.io/workload-slice-replacement-for", "v0.18.4"),
    ],
)
def test_an_annotation_of_a_feature_makes_its_own_verdict_unknown_where_the_gate_is_on(
    annotation: str, since: str
) -> None:
    body = make_body({annotation: "true"})
    objects = make_objects({"cpu": "1"})
    for release in ("v0.15.2", "v0.17.0", "v0.18.4", "v0.19.2"):
        found = judge(body, release, objects)
        assert found.outcome == ("unknown" if release >= since else "fits")
        assert all(f"Workload ns/asked sets annotation {annotation}: " in reason.message for reason in found.reasons)
    assert judge(make_body({annotation: ""}), "v0.19.2", objects).outcome == "fits"


@pytest.mark.parametrize(("release", "outcome"), [("v0.17.0", "fits"), ("v0.18.4", "unknown"), ("", "unknown")])
def test_pods_with_resource_claims_have_no_verdict_since_v0_18(release: str, outcome: str) -> None:
    body = make_body(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])
    assert judge(body, release, make_objects({"cpu": "1"})).outcome == outcome


@pytest.mark.parametrize(("release", "outcome"), [("v0.18.4", "fits"), ("v0.19.2", "unknown")])
def test_extended_resources_may_be_of_device_classes_since_v0_19(release: str, outcome: str) -> None:
    """Only with mappings of device classes do they need quota under other names."""
    requested = {"cpu": "1", "nvidia.com/gpu": "1"}
    body = make_body(containers=[{"name": "one", "resources": {"requests": requested}}])
    objects = make_objects({"cpu": "1", "nvidia.com/gpu": "1"})
    mappings = [{"name": "gpus", "deviceClassNames": ["gpu.nvidia.com"]}]
    assert judge(body, release, objects).outcome == "fits"
    assert judge(body, release, objects, resources={"deviceClassMappings": mappings}).outcome == outcome
    assert judge(make_body(), release, objects, resources={"deviceClassMappings": mappings}).outcome == "fits"


@pytest.mark.parametrize(
    ("release", "outcomes"),
    [
        ("v0.17.0", ("fits", "never fits", "never fits", "never fits")),
        ("v0.18.4", ("fits", "fits", "never fits", "never fits")),
        ("v0.19.2", ("fits", "fits", "fits", "never fits")),
        ("", ("fits", "unknown", "unknown", "unknown")),
    ],
)
def test_workloads_may_have_more_pod_sets_since_v0_18(release: str, outcomes: tuple[str, ...]) -> None:
    model = replace(make_model(make_queue(quotas={"cpu": {"cpu": 99}})), release=release_of(release))
    found = (
        simulate(make_workload(*(make_pods(f"p{index}", cpu=1) for index in range(count))), model).outcome
        for count in (8, 10, 18, 19)
    )
    assert tuple(found) == outcomes


@pytest.mark.parametrize(
    "conditions",
    [
        [{"type": "QuotaReserved", "status": "False", "reason": "OnHold"}],
        [{"type": "WaitingForReplacementPods", "status": "True", "reason": "x"}],
    ],
)
def test_workloads_on_hold_are_not_pending_since_v0_18(conditions: list[Body]) -> None:
    body = make_body(status={"conditions": conditions})
    for release, is_pending in (("v0.17.0", True), ("v0.19.2", False)):
        model = read_model(make_objects({"cpu": "1"}), release=release)
        assert (read_kueue_workload(body, model) is not None) is is_pending


@pytest.mark.parametrize(
    ("release", "strict", "outcome"),
    [
        *(("v0.16.2", True, "fits"), ("v0.16.2", False, "waits"), ("v0.16.4", True, "unknown")),
        *(("v0.17.0", True, "never fits"), ("v0.19.2", False, "never fits"), ("", False, "unknown")),
    ],
)
def test_a_default_of_a_limit_range_refuses_every_attempt_since_v0_17(release: str, strict: bool, outcome: str) -> None:
    """Its default request is above the pods' own limit. Before, Kueue forgets it after the first attempt."""
    limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]}
    objects = make_objects({"cpu": "9"}, queueingStrategy="StrictFIFO" if strict else "BestEffortFIFO")
    objects.append({"kind": "LimitRange", "metadata": {"name": "limits", "namespace": "ns"}, "spec": limits})
    body = make_body(containers=[{"name": "one", "resources": {"limits": {"cpu": "1"}}}])
    assert judge(body, release, objects).outcome == outcome


def make_topologies(release: str) -> Model:
    """Return a queue whose flavors of cpu and of GPUs have topologies."""
    groups = tuple(ResourceGroup(frozenset({name}), (name,)) for name in ("cpu", "nvidia.com/gpu"))
    quotas = {name: {name: 4} for name in ("cpu", "nvidia.com/gpu")}
    flavors = {name: Flavor(name, topology="racks") for name in quotas}
    model = make_model(make_queue(quotas=quotas, groups=groups), flavors=flavors, topologies={"racks": ("rack",)})
    return replace(model, release=release_of(release))


@pytest.mark.parametrize(
    ("release", "cause"),
    [
        *(("v0.17.0", "topology"), ("v0.17.5", "unmodelled"), ("v0.18.0", "unmodelled"), ("", "unmodelled")),
        *(("v0.18.4", "never fits"), ("v0.19.2", "never fits")),
    ],
)
def test_pods_get_one_flavor_with_a_topology_since_v0_18(release: str, cause: str) -> None:
    """Found by a drawn case: before, Kueue admits them without a placement."""
    pods = replace(make_pods(cpu=1, gpu=1), requests_topology=True)
    found = simulate(make_workload(pods), make_topologies(release))
    if cause == "never fits":
        assert found.reasons[0].message == (
            "the pod gets flavors cpu and nvidia.com/gpu, of which each has a topology; Kueue places pods in the "
            "topology of exactly one flavor"
        )
    assert found.outcome == ("never fits" if cause == "never fits" else "unknown")
    assert {reason.cause for reason in found.reasons} == {"topology" if cause == "never fits" else cause}
    alone = simulate(make_workload(replace(make_pods(cpu=1), requests_topology=True)), make_topologies(release))
    assert {reason.cause for reason in alone.reasons} == {"topology"}
    assert alone.outcome == "unknown", "the nodes decide"


def test_fair_sharing_does_not_panic_without_a_cohort_since_v0_18() -> None:
    preemption = Preemption(within_cluster_queue="LowerPriority")
    model = make_model(make_queue(preemption=preemption), fair_sharing=("LessThanInitialShare",))
    admitted = [make_admitted("low", cpu=1), make_admitted("high", cpu=3, priority=9)]
    workload = make_workload(make_pods(cpu=4), priority=5)
    outcomes = [
        simulate(workload, replace(model, release=release_of(release)), admitted=admitted).outcome
        for release in ("v0.17.0", "v0.18.4")
    ]
    assert outcomes == ["unknown", "waits"]


@pytest.mark.parametrize(("release", "flavors"), [("v0.18.4", ["one", "one"]), ("v0.19.2", ["two", "one"])])
def test_the_search_for_flavors_goes_on_after_a_release_of_quota_since_v0_19(release: str, flavors: list[str]) -> None:
    """The first pod set uses quota of flavor one that the second needs; another workload ends meanwhile."""
    quotas = {"one": {"cpu": 4}, "two": {"cpu": 4}}
    labelled = {name: Flavor(name, {"node": name}) for name in quotas}
    model = read_model([], release=release)
    model = replace(
        make_model(make_queue("q", quotas), make_queue("r", quotas), flavors=labelled),
        release=model.release,
        gates=model.gates,
    )
    scheduler = Scheduler(model, [make_admitted("used", "q", "one")])
    second = replace(make_pods("second", cpu=2), selector={"node": "one"})
    scheduler.submit(make_workload(make_pods("first", cpu=2), second))
    scheduler.submit(make_workload(name="other", queue="r"))
    assert [event.key for event in scheduler.advance(0.0)] == ["ns/other"]
    scheduler.finish("ns/used")
    (event,) = scheduler.advance(0.0)
    assert [pods.flavors["cpu"] for pods in event.assigned] == flavors


@pytest.mark.parametrize(
    ("release", "outcome", "preempts"),
    [("v0.17.0", "fits by preempting", ("ns/low",)), ("v0.18.4", "waits", ()), ("", "unknown", ())],
)
def test_the_quota_of_pods_is_ignored_in_preemption_since_v0_18(
    release: str, outcome: str, preempts: tuple[str, ...]
) -> None:
    """Found by a drawn case: the search ends with a workload that has no pods."""
    queue = make_queue(
        quotas={"cpu": {"cpu": 9, "pods": 2}}, preemption=Preemption(within_cluster_queue="LowerPriority")
    )
    admitted = [
        replace(make_admitted(name, cpu=1, reserved_at=time), usage={("cpu", "cpu"): 1000, ("cpu", "pods"): pods})
        for name, time, pods in (("low", 1.0, 2), ("none", 2.0, 0))
    ]
    workload = make_workload(make_pods(count=2, cpu=1), priority=5)
    model = replace(make_model(queue), release=release_of(release))
    found = simulate(workload, model, admitted=admitted)
    assert (found.outcome, found.preempts) == (outcome, preempts)


@pytest.mark.parametrize(
    ("release", "outcome"), [("", "unknown"), ("v0.15.2", "never fits"), ("v0.16.2", "fits"), ("v0.19.2", "fits")]
)
def test_tolerations_compare_integers_since_v0_16(release: str, outcome: str) -> None:
    """Before, such a toleration matches no taint, also of the same value."""
    objects = make_objects({"cpu": "4"})
    objects[0]["spec"]["nodeTaints"] = [{"key": "size", "value": "5", "effect": "NoSchedule"}]
    body = make_body(tolerations=[{"key": "size", "operator": "Gt", "value": "4"}])
    assert judge(body, release, objects).outcome == outcome
    equal = make_body(tolerations=[{"key": "size", "operator": "Gt", "value": "5"}])
    assert judge(equal, "v0.15.2", objects).outcome == judge(equal, "v0.19.2", objects).outcome == "never fits"
