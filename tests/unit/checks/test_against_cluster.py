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
from tests.unit.checks.live import make_queue
from tests.unit.checks.node_cases import every_live_case
from tests.unit.make import make_distributed, make_queues, make_run, make_settings, make_storage, make_volume
from trainstack.preflight.against_cluster import RULES
from trainstack.preflight.live_context import CLUSTER_SCOPED, DryRun
from trainstack.preflight.registry import BY_ID
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Role


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
