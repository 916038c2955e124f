"""The preflight rules: each finds its fault, with path and remedy, and nothing in a valid environment."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_kueue,
    make_manifest,
    make_mount,
    make_queues,
    make_quota,
    make_run,
    make_settings,
    make_storage,
    make_sweeps,
    make_training_operator,
    make_volume,
)
from tests.unit.preflight.cases import ROOT, TENANT, Case
from tests.unit.preflight.environment_cases import every_case
from tests.unit.preflight.pod_cases import enforcing
from trainstack.preflight import silences
from trainstack.preflight.all_rules import RULES_BY_ID
from trainstack.preflight.file_checks import RULES, check
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.sections.environment import Environment, Existing, Namespace
from trainstack.settings.sections.operators import Install, Operators
from trainstack.settings.sections.queues import (
    AdmissionCheck,
    ClusterKubeConfig,
    Cohort,
    FlavorQuotas,
    LocalQueue,
    MultiKueueCluster,
    MultiKueueConfig,
    ProvisioningRequestConfig,
    Queues,
    ResourceGroup,
    Topology,
)
from trainstack.settings.sections.storage import PersistentVolume
from trainstack.settings.sections.tenants import Team, Tenants
from trainstack.settings.sections.workloads import Record, ReplicatedJob

EMPTY = Path("/nonexistent")


def limited(name: str, *, nominal: str = "1", **limits: str) -> ResourceGroup:
    """Return a group that covers cpu, with a quota of a resource on flavor `cpu`."""
    flavor = FlavorQuotas(name="cpu", resources=(make_quota(name, nominal, **limits),))
    return ResourceGroup(covered_resources=("cpu",), flavors=(flavor,))


@pytest.mark.parametrize(
    ("rule", "case"), [pytest.param(rule, case, id=f"{rule}-{case.path}") for rule, case in every_case()]
)
def test_a_fault_is_found_by_its_rule_alone(rule: str, case: Case) -> None:
    """The fault has one finding, of its rule, with the path of the value and the remedy."""
    assert case.severity in ("error", "warning", "unknown")
    findings = [
        (finding.id, finding.severity, finding.path, finding.message, finding.remedy)
        for finding in check(case.settings, ROOT)
    ]
    assert findings == [(rule, case.severity, case.path, case.message, case.remedy)]
    assert case.severity in RULES_BY_ID[rule].severities


def test_every_rule_has_a_case_and_a_section() -> None:
    """The sections are in docs/checks.md."""
    sections = re.findall(r"^### `(.+)`$", (ROOT / "docs/checks.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {rule for rule, _ in every_case()} == {*RULES, *(rule.id for rule in silences.RULES)}
    assert sections == [*RULES_BY_ID]


def test_a_valid_environment_has_no_findings() -> None:
    """It has a Job and a distributed run."""
    assert check(make_settings(make_run(), make_distributed(name="dist")), EMPTY) == []


def test_objects_of_the_platform_are_unknown_for_a_tenant() -> None:
    """Objects that the platform's owner may declare are unknown; the tenant's own volumes are known."""
    settings = make_settings(
        make_run(volumes=(make_mount(), make_mount(volume="other", mount_path="/x"))),
        environment=TENANT,
        queues=make_queues(flavors=(), cohorts=(), cluster_queues=(), priority_classes=(), local_queues=()),
        storage=make_storage(classes=()),
        operators=Operators(),
    )
    assert [(finding.id, finding.severity, finding.path) for finding in check(settings, EMPTY)] == [
        ("volume-unknown", "error", "workloads.runs[train].volumes[1].volume"),
        ("namespace-unknown", "unknown", "storage.volumes[training].namespace"),
        ("storage-class-unknown", "unknown", "storage.volumes[training].storageClass"),
        ("namespace-unknown", "unknown", "workloads.runs[train].namespace"),
        ("priority-unknown", "unknown", "workloads.runs[train].priority"),
        ("queue-unknown", "unknown", "workloads.runs[train].queue"),
    ]


def test_the_message_names_a_queue_of_another_namespace() -> None:
    """A run can use only queues of its own namespace."""
    queue = LocalQueue(name="elsewhere", namespace="default", cluster_queue="research")
    findings = check(make_settings(make_run(queue="elsewhere"), queues=make_queues(local_queues=(queue,))), EMPTY)
    assert [finding.message for finding in findings] == [
        "local queue 'elsewhere' is not declared in namespace research (it is in namespace default)"
    ]


def test_a_privileged_namespace_accepts_a_baseline_run_with_the_nodes_network() -> None:
    """The setting `security` of a run does not change the level of its namespace."""
    findings = check(enforcing("privileged", security="baseline", host_network=True), ROOT)
    assert {finding.id for finding in findings} == {"namespace-privileged"}


def test_a_class_of_static_volumes_needs_no_object() -> None:
    """A claim and a static volume match by the class name alone."""
    static = PersistentVolume(
        name="static", storage_class="manual", size="10Gi", access_modes=("ReadWriteMany",), host_path="/data"
    )
    storage = make_storage(persistent_volumes=(static,), volumes=(make_volume(storage_class="manual"),))
    assert check(make_settings(storage=storage), EMPTY) == []


@pytest.mark.parametrize(
    "declared",
    [
        {"topologies": (Topology(name="a", levels=("rack",)),)},
        {"admission_checks": (AdmissionCheck(name="a", controller_name="example.org/c"),)},
        {"provisioning_request_configs": (ProvisioningRequestConfig(name="a", provisioning_class_name="c"),)},
        {"multi_kueue_clusters": (MultiKueueCluster(name="a", kube_config=ClusterKubeConfig(location="a")),)},
        {"multi_kueue_configs": (MultiKueueConfig(name="a", clusters=("a",)),)},
    ],
    ids=lambda declared: next(iter(declared)),
)
def test_lists_of_cluster_scoped_objects_are_for_owners_and_have_no_duplicates(declared: dict[str, Any]) -> None:
    tenant = make_settings(
        environment=Environment(profile="tenant", existing=Existing(namespaces=("research",))),
        queues=Queues(**declared),
        storage=make_storage(classes=(), volumes=()),
        operators=Operators(),
    )
    assert "tenant-cluster-scoped" in {finding.id for finding in check(tenant, ROOT)}
    twice = make_settings(queues=make_queues(**{key: items * 2 for key, items in declared.items()}))
    assert "name-duplicate" in {finding.id for finding in check(twice, ROOT)}


def test_existing_objects_of_other_owners_may_be_referenced() -> None:
    """A namespace and a class of the cluster need no declaration, only an entry in `environment.existing`."""
    environment = Environment(existing=Existing(namespaces=("research",), storage_classes=("vendor",)))
    storage = make_storage(classes=(), volumes=(make_volume(storage_class="vendor"),))
    assert check(make_settings(make_run(), environment=environment, storage=storage), EMPTY) == []
    storage = make_storage(classes=(), volumes=(make_volume(storage_class="vender"),))
    (finding,) = check(make_settings(make_run(), environment=environment, storage=storage), EMPTY)
    assert (finding.id, finding.remedy) == (
        "storage-class-unknown",
        "did you mean vendor? (or declare it under storage.classes)",
    )


@pytest.mark.parametrize(
    ("cohort", "rule"),
    [
        ({"resource_groups": (make_group(("gone", {"cpu": "1"})),)}, "flavor-unknown"),
        ({"resource_groups": (make_group(("cpu", {"cpu": "1"})),) * 2}, "group-overlap"),
        ({"resource_groups": (limited("cpu", lending_limit="1"),)}, "limit-without-cohort"),
        ({"resource_groups": (limited("memory"),)}, "covered-resources"),
        ({"resource_groups": (make_group(("cpu", {"cpu": "9P", "memory": "9E"})),)}, "quota-overflow"),
    ],
)
def test_the_quota_of_a_cohort_is_checked_as_that_of_a_queue(cohort: dict[str, Any], rule: str) -> None:
    """Kueue's webhook refuses the same values in both, and their quotas are added up."""
    queue = make_cluster_queue(resource_groups=(make_group(("cpu", {"cpu": "1P", "memory": "1E"})),))
    queues = make_queues(cohorts=(Cohort(name="local", **cohort),), cluster_queues=(queue,))
    assert rule in {finding.id for finding in check(make_settings(queues=queues), ROOT)}


def test_a_cohort_with_a_parent_may_lend_more_than_its_own_quota() -> None:
    """Its members lend to it."""
    cohorts = (
        Cohort(name="local", parent="lab", resource_groups=(limited("cpu", lending_limit="5"),)),
        Cohort(name="lab"),
    )
    assert check(make_settings(queues=make_queues(cohorts=cohorts)), ROOT) == []


@pytest.mark.parametrize(
    ("limits", "overflows"),
    [
        # Quota that is not lent is not added up, and a limit counts for its own queue.
        (({"lending_limit": "0"}, {"lending_limit": "0"}), False),
        (({"lending_limit": "1"}, {"lending_limit": "0"}), False),
        (({}, {"lending_limit": "0"}), True),
        (({"borrowing_limit": "9P", "lending_limit": "0"}, {"lending_limit": "0"}), True),
    ],
)
def test_quotas_overflow_only_where_kueue_adds_them_up(limits: tuple[dict[str, str], ...], *, overflows: bool) -> None:
    """The second queue keeps its own quota and may use the quota that the first lends."""
    queues = [
        make_cluster_queue(name=name, resource_groups=(limited("cpu", nominal="8P", **quota),))
        for name, quota in zip(("research", "other"), limits, strict=True)
    ]
    settings = make_settings(queues=make_queues(cluster_queues=tuple(queues)))
    assert ("quota-overflow" in {finding.id for finding in check(settings, ROOT)}) is overflows


def test_every_cohort_of_a_cycle_is_reported() -> None:
    """The message has the cycle. A cohort below the cycle is not reported."""
    cohorts = (Cohort(name="local", parent="a"), Cohort(name="a", parent="b"), Cohort(name="b", parent="a"))
    findings = check(make_settings(queues=make_queues(cohorts=cohorts)), EMPTY)
    assert [(finding.path, finding.message) for finding in findings] == [
        ("queues.cohorts[a].parent", "cohort a is its own ancestor: a -> b -> a"),
        ("queues.cohorts[b].parent", "cohort b is its own ancestor: b -> a -> b"),
    ]


def test_an_install_declares_its_namespace() -> None:
    """The namespace of an operator that is not declared is unknown."""
    install = Install(manifest=make_manifest())
    installs = {
        "kueue-system": Operators(kueue=make_kueue()),
        "kubeflow": Operators(training_operator=make_training_operator()),
        "jobset-system": Operators(jobset=install),
        "kubeflow-system": Operators(trainer=install, jobset=install),
    }
    for namespace, declared in installs.items():
        storage = make_storage(volumes=(make_volume(namespace=namespace),))
        assert check(make_settings(operators=declared, storage=storage), EMPTY) == []
        (finding,) = check(make_settings(operators=Operators(), storage=storage), EMPTY)
        assert (finding.id, finding.path) == ("namespace-unknown", "storage.volumes[training].namespace")


def test_an_old_jobset_is_accepted_without_dependencies() -> None:
    """A missing feature of a release is a fault only if a run uses it."""
    old = Operators(jobset=Install(manifest=make_manifest(version="v0.7.2")))
    run = make_run(kind="JobSet", managed=False, record=None, replicated_jobs=(ReplicatedJob(name="a"),), queue=None)
    assert check(make_settings(run, operators=old), EMPTY) == []


def test_the_volumes_of_record_and_data_are_checked() -> None:
    """The rules check them like those of mounts."""
    run = make_run(record=Record(volume="lost"), volumes=())
    findings = check(make_settings(run), EMPTY)
    assert [(finding.id, finding.path) for finding in findings] == [
        ("record-unmounted", "workloads.runs[train].record.volume"),
        ("volume-unknown", "workloads.runs[train].record.volume"),
    ]


def test_the_dev_environment_has_no_findings_except_of_missing_tools() -> None:
    """The release manifests exist once the tools are built."""
    loaded = load_with_places(ROOT, "dev")
    findings = check(loaded.settings, ROOT, loaded.places)
    assert [finding for finding in findings if not finding.id.startswith("manifest-")] == []


def test_findings_have_their_place_and_read_as_one_line(tmp_path: Path) -> None:
    """If the places of the values are given, findings have file and line, and are sorted by them."""
    (tmp_path / "Pulumi.test.yaml").write_text(
        "config:\n  trainstack:queues:\n    cohorts:\n      - {name: b, parent: c}\n      - {name: a, parent: d}\n",
        encoding="utf-8",
    )
    loaded = load_with_places(tmp_path, "test")
    remedy = "valid names: a, b (or declare it under queues.cohorts)"
    assert [str(finding) for finding in check(loaded.settings, tmp_path, loaded.places)] == [
        f"error [cohort-unknown] Pulumi.test.yaml:4: queues.cohorts[b].parent: cohort 'c' is not declared; {remedy}",
        f"error [cohort-unknown] Pulumi.test.yaml:5: queues.cohorts[a].parent: cohort 'd' is not declared; {remedy}",
    ]


def test_a_value_has_one_finding() -> None:
    """A mount that two roles inherit is reported once."""
    run = make_distributed(volumes=(make_mount(volume="lost"),), managed=False, record=None)
    assert [finding.path for finding in check(make_settings(run), EMPTY)] == ["workloads.runs[train].volumes[0].volume"]


def test_a_pod_is_queued_only_where_kueue_manages_pods() -> None:
    """By default it does not: a queued Pod would start at once, and one without a queue is not suspended."""
    queued = make_run(kind="Pod")
    (finding,) = check(make_settings(queued), EMPTY)
    assert (finding.id, finding.message) == (
        "framework-unlisted",
        "Kueue does not manage kind Pod: the run would start at once, outside every quota",
    )
    assert finding.remedy == "add pod to operators.kueue.configuration.frameworks"
    assert check(make_settings(queued, operators=Operators(kueue=make_kueue(frameworks=("pod",)))), EMPTY) == []
    unqueued = make_run(kind="Pod", queue=None, priority=None)
    for frameworks, expected in ((("batch/job",), []), (("pod",), ["queue-missing"])):
        kueue = make_kueue(frameworks=frameworks, manage_jobs_without_queue_name=True)
        findings = check(make_settings(unqueued, operators=Operators(kueue=kueue)), EMPTY)
        assert [finding.id for finding in findings] == expected


def test_a_fixed_name_may_be_longer_than_a_derived_one() -> None:
    """The names of its pods have no hash."""
    name = "n" * 45
    (finding,) = check(make_settings(make_distributed(name=name)), EMPTY)
    assert finding.id == "name-derived"
    assert check(make_settings(make_distributed(name=name, naming="fixed")), EMPTY) == []


def test_a_run_and_a_trial_cannot_share_a_fixed_name() -> None:
    """A trial's name is that of its sweep with its number."""
    sweeps = make_sweeps(run=make_run(name="search", naming="fixed"))
    assert check(make_settings(make_run(name="search-5", naming="fixed"), sweeps=sweeps), EMPTY) == []
    assert check(make_settings(make_run(name="search-3"), sweeps=sweeps), EMPTY) == []
    (finding,) = check(make_settings(make_run(name="search-3", naming="fixed"), sweeps=sweeps), EMPTY)
    assert (finding.id, finding.path) == ("name-duplicate", "sweeps.sweeps")
    assert finding.message == "Job research/search-3 is listed 2 times"


def test_the_rights_of_a_team_need_its_namespace() -> None:
    """A Role is namespaced."""
    teams = Tenants(teams=(Team(name="vision", namespace="visoin", groups=("ml",)),))
    settings = make_settings(tenants=teams, environment=Environment(namespaces=(Namespace(name="vision"),)))
    findings = [finding for finding in check(settings, EMPTY) if finding.path.startswith("tenants")]
    assert [(finding.id, finding.severity, finding.path) for finding in findings] == [
        ("namespace-unknown", "error", "tenants.teams[vision].namespace")
    ]
    assert findings[0].remedy == "did you mean vision? (or declare it under environment.namespaces)"
