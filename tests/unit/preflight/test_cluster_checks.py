"""The rules that compare an environment with a cluster snapshot: each finds its fault, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.live_objects import Body
from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_manifest_job,
    make_manifest_run,
    make_queues,
    make_run,
    make_settings,
    make_storage,
    make_volume,
)
from tests.unit.preflight.cases import TENANT
from tests.unit.preflight.cluster_cases import (
    CHARM,
    ELSEWHERE,
    GPU,
    IMAGES,
    KUEUE,
    RUN,
    Case,
    check,
    make_class,
    make_live,
    make_local_queue,
    named,
    operators,
)
from tests.unit.preflight.environment_cases import check_of, dispatching, with_quota
from tests.unit.preflight.node_cases import every_live_case, with_resource_quota
from tests.unit.runs.manifests.test_object import make_object
from trainstack.objects.labels import WORKLOAD
from trainstack.platform.storage import claim
from trainstack.preflight.all_rules import RULES_BY_ID
from trainstack.preflight.cluster_checks import RULES
from trainstack.preflight.finding import Finding
from trainstack.preflight.live_context import CLUSTER_SCOPED, DryRun, LiveCluster
from trainstack.preflight.live_rules import nodes
from trainstack.preflight.resource_quotas import pod_at_creation
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import Cohort, LocalQueue, QueueCheck, ResourceFlavor, ResourceQuota
from trainstack.settings.sections.workloads import Resources, Role, Workload


@pytest.mark.parametrize(
    ("rule", "case"), [pytest.param(rule, case, id=f"{rule}-{case.path}") for rule, case in every_live_case()]
)
def test_a_fault_is_found_by_its_rule_alone(rule: str, case: Case) -> None:
    """The finding has the path of the value and the remedy; an object that `up` creates is only a warning."""
    findings = [
        (finding.id, finding.severity, finding.path, finding.message, finding.remedy)
        for finding in check(case.settings, case.live, IMAGES)
    ]
    assert findings == [(rule, case.severity, case.path, case.message, case.remedy)]
    assert case.severity in RULES_BY_ID[rule].severities


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, _ in every_live_case()} == set(RULES)


def test_a_complete_cluster_has_no_findings() -> None:
    """An existing launch in the dry run is no finding either."""
    dry_runs = tuple(DryRun(RUN, "Job", "research", status, "") for status in (201, 404, 409))
    settings = make_settings(make_run(), make_distributed(name="dist"))
    assert check(settings, make_live(dry_runs=dry_runs), IMAGES) == []


def test_an_operator_of_a_stateful_set_is_accepted() -> None:
    """There is no finding if its pod is ready."""
    settings = make_settings(make_distributed(), operators=Operators())
    assert check(settings, make_live(operators=operators(training_operator=CHARM)), IMAGES) == []


def test_a_release_of_kueue_that_does_not_enable_pytorchjobs_is_a_warning() -> None:
    """Its configuration, which could not be read, may enable them. Jobs are enabled in every release."""
    runs = (make_distributed(), make_object(name="jax"), make_run(name="job"))
    found: dict[str, dict[str, Finding]] = {}
    for release in ("v0.18.4", "v0.19.0", "main"):
        live = make_live(operators=operators(kueue=replace(KUEUE, image=f"kueue:{release}")), frameworks=None)
        found[release] = {
            finding.path: finding
            for finding in check(make_settings(*runs, **ELSEWHERE), live, IMAGES)
            if finding.id == "framework-unlisted"
        }
    paths = [f"workloads.runs[{run.name}].kind" for run in runs]
    severities = {release: [findings[path].severity for path in paths] for release, findings in found.items()}
    unknown = ["unknown"] * 3
    assert severities == {"v0.18.4": unknown, "v0.19.0": ["warning", "warning", "unknown"], "main": unknown}
    distributed, jax = (found["v0.19.0"][path] for path in paths[:2])
    assert distributed.message == (
        "Kueue v0.19.0 manages kind PyTorchJob only if its configuration, which could not be read, enables it: "
        "otherwise the run would start outside every quota"
    )
    assert distributed.remedy == (
        "have kubeflow.org/pytorchjob added to integrations.frameworks of Kueue's configuration, or use kind TrainJob"
    )
    assert jax.remedy == "have kubeflow.org/jaxjob added to integrations.frameworks of Kueue's configuration"


def test_the_remedy_for_a_missing_operator_without_its_kinds_is_to_install_it() -> None:
    """If the cluster serves the kinds, its owner may have installed an operator that is not recognized."""
    live = make_live(operators=operators(training_operator=None), unserved=frozenset({"PyTorchJob"}))
    (unready,) = (
        finding
        for finding in check(make_settings(make_distributed(), operators=Operators()), live, IMAGES)
        if finding.id == "operator-unready"
    )
    assert unready.message == "no Deployment or pod of the training operator was found"
    assert unready.remedy == "have it installed, or declare operators.trainingOperator"


def test_missing_nodes_of_an_autoscaled_cluster_are_no_finding() -> None:
    """The autoscaler adds nodes when pods wait for them."""
    run = make_run(resources=GPU, node_selector={"pool": "gpu"})
    assert check(make_settings(run), make_live(has_autoscaler=True), IMAGES) == []


def test_a_bound_claim_needs_no_storage_class() -> None:
    """A claim with a static volume of the same class name needs none either."""
    volume = make_volume(storage_class="manual")
    settings = make_settings(storage=make_storage(classes=(), volumes=(volume,)))
    bound = {**claim(volume, "test"), "status": {"phase": "Bound"}}
    static = named("static", spec={"storageClassName": "manual"})
    assert check(settings, make_live({"PersistentVolumeClaim research": (bound,)}), IMAGES) == []
    assert check(settings, make_live({"PersistentVolume": (static,)}), IMAGES) == []


def test_unreadable_lists_are_unknown_for_a_tenant() -> None:
    """The remedy names the platform's environment. A tenant can read its namespace: queue, claims and dry runs."""
    settings = make_settings(
        make_run(resources=GPU),
        environment=TENANT,
        storage=make_storage(classes=()),
        operators=Operators(),
        queues=make_queues(flavors=(), cohorts=(), cluster_queues=(), priority_classes=(), local_queues=()),
    )
    live = make_live(dict.fromkeys(CLUSTER_SCOPED), operators=None, namespaces={"research": None})
    findings = check(settings, live, {})
    unknown = ["namespace-unknown", "node-resources", "operator-unready", "priority-unknown", "storage-class-unknown"]
    assert sorted((finding.id, finding.severity) for finding in findings) == [(rule, "unknown") for rule in unknown]
    assert all("platform's environment" in finding.remedy for finding in findings)


def test_a_tenant_gets_findings_about_readable_lists() -> None:
    """Its namespace exists, and the class of its claim is a block device, which is not shared."""
    storage = make_storage(classes=(), volumes=(make_volume(), make_volume(name="other", storage_class="missing")))
    settings = make_settings(environment=TENANT, storage=storage, operators=Operators())
    classes = {**dict.fromkeys(CLUSTER_SCOPED), "StorageClass": (make_class(provisioner="ebs.csi.aws.com"),)}
    findings = check(settings, make_live(classes, operators=None), {})
    assert [(finding.id, finding.severity, finding.path) for finding in findings] == [
        ("storage-class-unknown", "error", "storage.volumes[other].storageClass"),
        ("volume-access-mode", "error", "storage.volumes[training].accessModes"),
    ]


def test_unreadable_nodes_are_unknown_for_runs_that_select_nodes() -> None:
    """So are they for a run that requests a resource of only some nodes. Pods of other runs fit on any node."""
    roles = {"Master": Role(), "Worker": Role(resources=GPU)}
    runs = (make_run(node_selector={"pool": "a"}), make_distributed(name="gpu", roles=roles), make_run(name="any"))
    settings = make_settings(*runs, queues=make_queues(local_queues=(), cluster_queues=()))
    live = make_live({"Node": None, "ClusterQueue": None})
    findings = [finding for finding in check(settings, live, IMAGES) if finding.id == "node-resources"]
    assert [(finding.severity, finding.path) for finding in findings] == [
        ("unknown", "workloads.runs[gpu]"),
        ("unknown", RUN),
    ]


def test_a_queue_without_a_status_is_no_finding() -> None:
    """A queue whose status is still empty does not count as closed."""
    new_queue = {**make_local_queue(), "status": {}}
    assert check(make_settings(make_run()), make_live({"LocalQueue research": (new_queue,)}), IMAGES) == []


BIG = Resources(requests={"cpu": "6", "memory": "1Gi"})
FAR = ResourceFlavor(name="far", node_labels={"site": "far"})
SENT = {"name": "sent", "admission_checks": (QueueCheck(name="west"),)}
"""Fields of a cluster queue whose workloads MultiKueue dispatches."""


def node_findings(settings: Settings, live: LiveCluster) -> list[tuple[str, str]]:
    """Return the ids and paths of the findings of the rules about nodes."""
    rules = {rule for rule, check_ in RULES.items() if check_.find.__module__ == nodes.__name__}
    return sorted((finding.id, finding.path) for finding in check(settings, live, IMAGES) if finding.id in rules)


def with_dispatched_run(*, own: tuple[Workload, ...] = (make_run(),), **changes: object) -> Settings:
    """Return an environment with the run `away`, which MultiKueue dispatches, and with its own runs."""
    queue = LocalQueue(name="sent", namespace="research", cluster_queue="sent")
    sections = dispatching(check_of("west"), queue={}).queues.model_dump(
        include={"admission_checks", "multi_kueue_clusters", "multi_kueue_configs"}
    )
    queues = make_queues(local_queues=(*make_queues().local_queues, queue), **{**sections, **changes})
    return make_settings(*own, make_run(name="away", queue="sent", resources=BIG), queues=queues)


def test_runs_of_other_clusters_need_no_nodes_here() -> None:
    """The flavors and quotas that only they use, including those of cohorts, need none either."""
    far_group = make_group(("far", {"cpu": "6", "memory": "8Gi"}))
    cpu_group = make_group(("cpu", {"cpu": "6", "memory": "8Gi"}))
    cohort = Cohort(name="abroad", parent="all", resource_groups=(far_group,))
    root_cohort = Cohort(name="all", resource_groups=(cpu_group,))
    queue = make_cluster_queue(**SENT, cohort="abroad", resource_groups=(far_group,))
    flavors = (FAR, ResourceFlavor(name="cpu"))
    settings = with_dispatched_run(own=(), flavors=flavors, cohorts=(cohort, root_cohort), cluster_queues=(queue,))
    assert node_findings(settings, make_live({"ClusterQueue": ()})) == []


def test_dispatched_runs_may_select_unread_nodes() -> None:
    """The nodes belong to another cluster."""
    settings = dispatching(check_of("west"), queue={}, node_selector={"pool": "a"})
    assert node_findings(settings, make_live({"Node": None})) == []


def test_manifests_may_select_unread_nodes() -> None:
    def findings(fields: dict[str, Any]) -> list[tuple[str, str]]:
        return node_findings(make_settings(make_manifest_run(make_manifest_job(fields))), make_live({"Node": None}))

    assert findings({"nodeSelector": {"pool": "a"}}) == [("node-resources", RUN)]
    assert findings({"affinity": {"podAffinity": {}}}) == [("node-resources", RUN)]
    assert findings({}) == []


def test_own_runs_need_nodes_although_others_are_dispatched() -> None:
    """Own and dispatched runs share flavors and the quotas of cohorts."""
    flavor = ResourceFlavor(name="cpu", node_labels={"pool": "a"})
    queues = (make_cluster_queue(), make_cluster_queue(**SENT))
    findings = node_findings(with_dispatched_run(flavors=(flavor,), cluster_queues=queues), make_live())
    assert findings == [("flavor-nodes", f"{RUN}.queue")]
    assert node_findings(with_dispatched_run(cluster_queues=queues), make_live()) == []
    cohort = with_quota(ResourceQuota(name="cpu", nominal_quota="1"))
    assert node_findings(with_dispatched_run(cluster_queues=queues, cohorts=(cohort,)), make_live()) == [
        ("flavor-overpromised", "queues.flavors[cpu]")
    ]


def test_a_quota_in_use_does_not_matter_to_what_exists() -> None:
    """A run that Kueue has a Workload of has pods in use itself, and a claim is in use if it exists."""
    used = {"pods": "4", "persistentvolumeclaims": "4"}
    live = with_resource_quota({"pods": "4", "persistentvolumeclaims": "4"}, used)
    settings = make_settings(make_run())

    def paths(name: str, namespace: str, claims: tuple[Body, ...] = ()) -> list[str]:
        template = {"metadata": {"labels": {WORKLOAD: name}}, "spec": {"containers": []}}
        spec = {"queueName": "other", "podSets": [{"name": "main", "count": 1, "template": template}]}
        workload = {"kind": "Workload", "metadata": {"name": "w", "namespace": namespace}, "spec": spec}
        lists = {**live.lists, "PersistentVolumeClaim research": claims}
        changed = replace(live, lists=lists, admission={**live.admission, "Workload": (workload,)})
        return [finding.path for finding in check(settings, changed) if finding.id == "resource-quota-refused"]

    both = ["storage.volumes[training].size", RUN]
    assert paths("other", "research") == paths("train", "elsewhere") == both
    assert paths("train", "research") == both[:1]
    assert paths("other", "research", (named("training"),)) == both[1:]


def test_the_overhead_of_a_runtime_class_is_used() -> None:
    assert pod_at_creation({"containers": [{"name": "one"}]}, (), {"kata": {"cpu": "1"}}, "").usage == {
        "pods": 10**9,
        "count/pods": 10**9,
    }
    kata = {"containers": [{"name": "one"}], "runtimeClassName": "kata"}
    assert pod_at_creation(kata, (), {"kata": {"cpu": "1"}}, "").usage["requests.cpu"] == 10**9


def test_a_claim_without_a_class_gets_the_default_one() -> None:
    """A claim of the cluster has one already."""
    settings = make_settings(storage=make_storage(volumes=(make_volume(storage_class=None),)))
    default = make_class()
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    assert check(settings, make_live({"StorageClass": (default,)}), IMAGES) == []
    claim = {**named("training"), "spec": {"storageClassName": "shared", "accessModes": ["ReadWriteMany"]}}
    assert check(settings, make_live({"PersistentVolumeClaim research": (claim,)}), IMAGES) == []
    assert [finding.id for finding in check(settings, make_live({"StorageClass": None}), IMAGES)] == [
        "storage-class-unknown"
    ]
