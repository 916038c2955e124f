"""The rules that hold an environment against a cluster, on recorded reads: each finds its fault, and nothing else."""

import pytest

from tests.unit.checks.cases import TENANT
from tests.unit.checks.cluster_cases import (
    CHARM,
    GPU,
    IMAGES,
    RUN,
    Case,
    check,
    make_class,
    make_live,
    named,
    operators,
)
from tests.unit.checks.environment_cases import check_of, dispatching, with_quota
from tests.unit.checks.live import make_queue
from tests.unit.checks.node_cases import every_live_case
from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_queues,
    make_run,
    make_settings,
    make_storage,
    make_volume,
)
from trainstack.preflight.against_cluster import RULES
from trainstack.preflight.live_context import CLUSTER_SCOPED, DryRun, Live
from trainstack.preflight.live_rules import nodes
from trainstack.preflight.registry import BY_ID
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import Cohort, LocalQueue, QueueCheck, ResourceFlavor, ResourceQuota
from trainstack.settings.sections.workloads import Resources, Role, Workload


@pytest.mark.parametrize(
    ("rule", "case"), [pytest.param(rule, case, id=f"{rule}-{case.path}") for rule, case in every_live_case()]
)
def test_a_fault_is_found_by_its_rule_alone(rule: str, case: Case) -> None:
    """With the path of the value and the remedy; what the environment itself makes is a warning."""
    found = [
        (each.id, each.severity, each.path, each.message, each.remedy)
        for each in check(case.settings, case.live, IMAGES)
    ]
    assert found == [(rule, case.severity, case.path, case.message, case.remedy)]
    assert case.severity in BY_ID[rule].severities


def test_every_rule_has_a_case() -> None:
    """Each rule is shown at work here."""
    assert {rule for rule, _ in every_live_case()} == set(RULES)


def test_a_cluster_that_has_all_of_it_is_fine() -> None:
    """Also when the launch that is asked for exists already."""
    told = tuple(DryRun(RUN, "Job", "research", status, "") for status in (201, 404, 409))
    settings = make_settings(make_run(), make_distributed(name="dist"))
    assert check(settings, make_live(dry_runs=told), IMAGES) == []


def test_an_operator_that_a_stateful_set_runs_is_enough() -> None:
    """Nothing is advised where its pod is ready."""
    settings = make_settings(make_distributed(), operators=Operators())
    assert check(settings, make_live(operators=operators(training_operator=CHARM)), IMAGES) == []


def test_a_missing_operator_is_to_be_installed_where_its_kinds_are_missing_too() -> None:
    """Where the cluster serves them, its owner may have installed one that is not recognized."""
    live = make_live(operators=operators(training_operator=None), unserved=frozenset({"PyTorchJob"}))
    (found,) = (
        each
        for each in check(make_settings(make_distributed(), operators=Operators()), live, IMAGES)
        if each.id == "operator-unready"
    )
    assert found.message == "no Deployment or pod of the training operator was found"
    assert found.remedy == "have it installed, or declare operators.trainingOperator"


def test_a_cluster_that_grows_may_yet_have_the_nodes() -> None:
    """A node autoscaler makes them when pods wait for them."""
    run = make_run(resources=GPU, node_selector={"pool": "gpu"})
    assert check(make_settings(run), make_live(grows=True), IMAGES) == []


def test_a_bound_claim_needs_its_class_no_more() -> None:
    """Nor does one that meets a volume made by hand on a class's name."""
    volume = make_volume(storage_class="manual")
    settings = make_settings(storage=make_storage(classes=(), volumes=(volume,)))
    bound = named("training", status={"phase": "Bound"})
    by_hand = named("static", spec={"storageClassName": "manual"})
    assert check(settings, make_live({"PersistentVolumeClaim research": (bound,)}), IMAGES) == []
    assert check(settings, make_live({"PersistentVolume": (by_hand,)}), IMAGES) == []


def test_a_tenant_is_told_what_it_cannot_know_and_who_can() -> None:
    """What is in its namespace it knows: its queue, its claims, whether its launch is taken."""
    settings = make_settings(
        make_run(resources=GPU),
        environment=TENANT,
        storage=make_storage(classes=()),
        operators=Operators(),
        queues=make_queues(flavors=(), cohorts=(), cluster_queues=(), priority_classes=(), local_queues=()),
    )
    live = make_live(dict.fromkeys(CLUSTER_SCOPED), operators=None, namespaces={"research": None})
    found = check(settings, live, {})
    unknown = ["namespace-unknown", "node-resources", "operator-unready", "priority-unknown", "storage-class-unknown"]
    assert sorted((each.id, each.severity) for each in found) == [(rule, "unknown") for rule in unknown]
    assert all("platform's environment" in each.remedy for each in found)


def test_a_tenant_is_told_what_it_may_read() -> None:
    """That its namespace exists, and what its class is: a block device is not shared."""
    storage = make_storage(classes=(), volumes=(make_volume(), make_volume(name="other", storage_class="missing")))
    settings = make_settings(environment=TENANT, storage=storage, operators=Operators())
    classes = {**dict.fromkeys(CLUSTER_SCOPED), "StorageClass": (make_class(provisioner="ebs.csi.aws.com"),)}
    found = check(settings, make_live(classes, operators=None), {})
    assert [(each.id, each.severity, each.path) for each in found] == [
        ("storage-class-unknown", "error", "storage.volumes[other].storageClass"),
        ("volume-access-mode", "error", "storage.volumes[training].accessModes"),
    ]


def test_nodes_that_may_not_be_read_are_unknown_to_those_who_choose_among_them() -> None:
    """A run that selects nodes, or asks for what only some have; any other may stand anywhere."""
    roles = {"Master": Role(), "Worker": Role(resources=GPU)}
    runs = (make_run(node_selector={"pool": "a"}), make_distributed(name="gpu", roles=roles), make_run(name="any"))
    settings = make_settings(*runs, queues=make_queues(local_queues=(), cluster_queues=()))
    live = make_live({"Node": None, "ClusterQueue": None})
    found = [each for each in check(settings, live, IMAGES) if each.id == "node-resources"]
    assert [(each.severity, each.path) for each in found] == [("unknown", "workloads.runs[gpu]"), ("unknown", RUN)]


def test_a_queue_without_a_word_is_no_finding() -> None:
    """A queue that says nothing of itself yet is not taken for one that is closed."""
    silent = {**make_queue("research", "Ready"), "status": {}}
    assert check(make_settings(make_run()), make_live({"LocalQueue research": (silent,)}), IMAGES) == []


BIG = Resources(requests={"cpu": "6", "memory": "1Gi"})
FAR = ResourceFlavor(name="far", node_labels={"site": "far"})
SENT = {"name": "sent", "admission_checks": (QueueCheck(name="west"),)}
"""Fields of a cluster queue whose workloads MultiKueue dispatches."""


def of_nodes(settings: Settings, live: Live) -> list[tuple[str, str]]:
    """The findings of the rules about nodes, with their paths."""
    rules = {rule for rule, check_ in RULES.items() if check_.find.__module__ == nodes.__name__}
    return sorted((each.id, each.path) for each in check(settings, live, IMAGES) if each.id in rules)


def beside(*, own: tuple[Workload, ...] = (make_run(),), **changes: object) -> Settings:
    """An environment with the run `away`, which MultiKueue dispatches, beside its own runs."""
    queue = LocalQueue(name="sent", namespace="research", cluster_queue="sent")
    sections = dispatching(check_of("west"), queue={}).queues.model_dump(
        include={"admission_checks", "multi_kueue_clusters", "multi_kueue_configs"}
    )
    queues = make_queues(local_queues=(*make_queues().local_queues, queue), **{**sections, **changes})
    return make_settings(*own, make_run(name="away", queue="sent", resources=BIG), queues=queues)


def test_runs_of_other_clusters_need_no_nodes_here() -> None:
    """Neither do the flavors and the quota that only they use, also of cohorts."""
    quota = make_group(("far", {"cpu": "6", "memory": "8Gi"}))
    near = make_group(("cpu", {"cpu": "6", "memory": "8Gi"}))
    cohort = Cohort(name="abroad", parent="all", resource_groups=(quota,))
    above = Cohort(name="all", resource_groups=(near,))
    pool = make_cluster_queue(**SENT, cohort="abroad", resource_groups=(quota,))
    flavors = (FAR, ResourceFlavor(name="cpu"))
    settings = beside(own=(), flavors=flavors, cohorts=(cohort, above), cluster_queues=(pool,))
    assert of_nodes(settings, make_live({"ClusterQueue": ()})) == []


def test_dispatched_runs_may_select_nodes_that_are_not_read() -> None:
    """They are those of another cluster."""
    settings = dispatching(check_of("west"), queue={}, node_selector={"pool": "a"})
    assert of_nodes(settings, make_live({"Node": None})) == []


def test_own_runs_beside_dispatched_ones_need_nodes() -> None:
    """On flavors that both use, and of quota in cohorts that both use."""
    flavor = ResourceFlavor(name="cpu", node_labels={"pool": "a"})
    queues = (make_cluster_queue(), make_cluster_queue(**SENT))
    found = of_nodes(beside(flavors=(flavor,), cluster_queues=queues), make_live())
    assert found == [("flavor-nodes", f"{RUN}.queue")]
    assert of_nodes(beside(cluster_queues=queues), make_live()) == []
    lent = with_quota(ResourceQuota(name="cpu", nominal_quota="1"))
    assert of_nodes(beside(cluster_queues=queues, cohorts=(lent,)), make_live()) == [
        ("flavor-overpromised", "queues.flavors[cpu]")
    ]
