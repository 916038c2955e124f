"""The preflight rules: each finds its fault, with path and remedy, and nothing in a sound environment."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.checks.cases import ROOT, TENANT, Case
from tests.unit.checks.environment_cases import every_case
from tests.unit.checks.pod_cases import enforcing
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
from trainstack.preflight import silences
from trainstack.preflight.preflight import RULES, check
from trainstack.preflight.registry import BY_ID
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
    """A group that covers cpu, with a quota of a resource on flavor `cpu`."""
    flavor = FlavorQuotas(name="cpu", resources=(make_quota(name, nominal, **limits),))
    return ResourceGroup(covered_resources=("cpu",), flavors=(flavor,))


@pytest.mark.parametrize(
    ("rule", "case"), [pytest.param(rule, case, id=f"{rule}-{case.path}") for rule, case in every_case()]
)
def test_a_fault_is_found_by_its_rule_alone(rule: str, case: Case) -> None:
    """The fault is told once, by the rule whose fault it is, with the path of the value and the remedy."""
    assert case.severity in ("error", "warning", "unknown")
    found = [(each.id, each.severity, each.path, each.message, each.remedy) for each in check(case.settings, ROOT)]
    assert found == [(rule, case.severity, case.path, case.message, case.remedy)]
    assert case.severity in BY_ID[rule].severities


def test_every_rule_has_a_case_and_a_section() -> None:
    """Each rule is shown at work here, and explained in docs/checks.md."""
    sections = re.findall(r"^## `(.+)`$", (ROOT / "docs/checks.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {rule for rule, _ in every_case()} == {*RULES, *(rule.id for rule in silences.RULES)}
    assert sections == [*BY_ID]


def test_a_sound_environment_has_no_findings() -> None:
    """A Job and a distributed run that have all they need."""
    assert check(make_settings(make_run(), make_distributed(name="dist")), EMPTY) == []


def test_a_tenant_is_told_what_it_cannot_know() -> None:
    """What the platform's owner declares is unknown to a tenant, not wrong; its own volumes it knows."""
    settings = make_settings(
        make_run(volumes=(make_mount(), make_mount(volume="other", mount_path="/x"))),
        environment=TENANT,
        queues=make_queues(flavors=(), cohorts=(), cluster_queues=(), priority_classes=(), local_queues=()),
        storage=make_storage(classes=()),
        operators=Operators(),
    )
    assert [(each.id, each.severity, each.path) for each in check(settings, EMPTY)] == [
        ("volume-unknown", "error", "workloads.runs[train].volumes[1].volume"),
        ("namespace-unknown", "unknown", "storage.volumes[training].namespace"),
        ("storage-class-unknown", "unknown", "storage.volumes[training].storageClass"),
        ("namespace-unknown", "unknown", "workloads.runs[train].namespace"),
        ("priority-unknown", "unknown", "workloads.runs[train].priority"),
        ("queue-unknown", "unknown", "workloads.runs[train].queue"),
    ]


def test_a_queue_of_another_namespace_is_pointed_at() -> None:
    """A run uses queues of its own namespace; where the name is another's, that is said."""
    queue = LocalQueue(name="elsewhere", namespace="default", cluster_queue="research")
    found = check(make_settings(make_run(queue="elsewhere"), queues=make_queues(local_queues=(queue,))), EMPTY)
    assert [each.message for each in found] == [
        "local queue 'elsewhere' is not declared in namespace research (it is in namespace default)"
    ]


def test_a_privileged_namespace_accepts_a_baseline_run_with_the_nodes_network() -> None:
    """The setting `security` of a run is not the level of its namespace."""
    found = check(enforcing("privileged", security="baseline", host_network=True), ROOT)
    assert {each.id for each in found} == {"namespace-privileged"}


def test_a_class_of_hand_made_volumes_needs_no_object() -> None:
    """A claim and a static volume may meet on a class name alone."""
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
def test_every_list_of_cluster_scoped_objects_is_the_owners_and_has_no_duplicates(declared: dict[str, Any]) -> None:
    tenant = make_settings(
        environment=Environment(profile="tenant", existing=Existing(namespaces=("research",))),
        queues=Queues(**declared),
        storage=make_storage(classes=(), volumes=()),
        operators=Operators(),
    )
    assert "tenant-cluster-scoped" in {each.id for each in check(tenant, ROOT)}
    twice = make_settings(queues=make_queues(**{key: items * 2 for key, items in declared.items()}))
    assert "name-duplicate" in {each.id for each in check(twice, ROOT)}


def test_what_others_made_may_be_referred_to() -> None:
    """A namespace and a class that the cluster has already need no declaration here, only to be named as existing."""
    given = Environment(existing=Existing(namespaces=("research",), storage_classes=("vendor",)))
    storage = make_storage(classes=(), volumes=(make_volume(storage_class="vendor"),))
    assert check(make_settings(make_run(), environment=given, storage=storage), EMPTY) == []
    storage = make_storage(classes=(), volumes=(make_volume(storage_class="vender"),))
    (found,) = check(make_settings(make_run(), environment=given, storage=storage), EMPTY)
    assert (found.id, found.remedy) == (
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
    """Kueue's webhook refuses the same in both, and their quotas are added up."""
    pool = make_cluster_queue(resource_groups=(make_group(("cpu", {"cpu": "1P", "memory": "1E"})),))
    queues = make_queues(cohorts=(Cohort(name="local", **cohort),), cluster_queues=(pool,))
    assert rule in {each.id for each in check(make_settings(queues=queues), ROOT)}


def test_a_cohort_with_a_parent_may_lend_what_its_members_lend_it() -> None:
    """More than its own quota."""
    cohorts = (
        Cohort(name="local", parent="lab", resource_groups=(limited("cpu", lending_limit="5"),)),
        Cohort(name="lab"),
    )
    assert check(make_settings(queues=make_queues(cohorts=cohorts)), ROOT) == []


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        # What is not lent is not added up, and a limit counts for its own queue.
        (({"lending_limit": "0"}, {"lending_limit": "0"}), False),
        (({"lending_limit": "1"}, {"lending_limit": "0"}), False),
        (({}, {"lending_limit": "0"}), True),
        (({"borrowing_limit": "9P", "lending_limit": "0"}, {"lending_limit": "0"}), True),
    ],
)
def test_quotas_overflow_only_where_kueue_adds_them_up(limits: tuple[dict[str, str], ...], *, found: bool) -> None:
    """The second queue keeps its own quota and may use what the first lends."""
    pools = [
        make_cluster_queue(name=name, resource_groups=(limited("cpu", nominal="8P", **each),))
        for name, each in zip(("research", "other"), limits, strict=True)
    ]
    settings = make_settings(queues=make_queues(cluster_queues=tuple(pools)))
    assert ("quota-overflow" in {each.id for each in check(settings, ROOT)}) is found


def test_every_cohort_of_a_circle_is_told() -> None:
    """With the way around; what only hangs below it is not."""
    cohorts = (Cohort(name="local", parent="a"), Cohort(name="a", parent="b"), Cohort(name="b", parent="a"))
    found = check(make_settings(queues=make_queues(cohorts=cohorts)), EMPTY)
    assert [(each.path, each.message) for each in found] == [
        ("queues.cohorts[a].parent", "cohort a is its own ancestor: a -> b -> a"),
        ("queues.cohorts[b].parent", "cohort b is its own ancestor: b -> a -> b"),
    ]


def test_an_install_brings_its_namespace() -> None:
    """Each operator that is declared has one; of one that is not, the namespace is nobody's."""
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
        (found,) = check(make_settings(operators=Operators(), storage=storage), EMPTY)
        assert (found.id, found.path) == ("namespace-unknown", "storage.volumes[training].namespace")


def test_an_old_jobset_will_do_where_nothing_depends() -> None:
    """What a version lacks is a fault only for those who ask for it."""
    old = Operators(jobset=Install(manifest=make_manifest(version="v0.7.2")))
    run = make_run(kind="JobSet", managed=False, record=None, replicated_jobs=(ReplicatedJob(name="a"),), queue=None)
    assert check(make_settings(run, operators=old), EMPTY) == []


def test_record_and_data_volumes_are_looked_up() -> None:
    """The volumes of record and data are names like those of mounts."""
    run = make_run(record=Record(volume="lost"), volumes=())
    found = check(make_settings(run), EMPTY)
    assert [(each.id, each.path) for each in found] == [
        ("record-unmounted", "workloads.runs[train].record.volume"),
        ("volume-unknown", "workloads.runs[train].record.volume"),
    ]


def test_the_dev_environment_is_sound_but_for_tools() -> None:
    """The embedded default has no fault of its own; its manifests are there once the tools are built."""
    loaded = load_with_places(ROOT, "dev")
    found = [each for each in check(loaded.settings, ROOT, loaded.places) if not each.id.startswith("manifest-")]
    assert found == []


def test_findings_have_their_place_and_read_as_one_line(tmp_path: Path) -> None:
    """With the places of the files, each finding names file and line, and they are sorted by them."""
    (tmp_path / "Pulumi.test.yaml").write_text(
        "config:\n  trainstack:queues:\n    cohorts:\n      - {name: b, parent: c}\n      - {name: a, parent: d}\n",
        encoding="utf-8",
    )
    loaded = load_with_places(tmp_path, "test")
    remedy = "valid names: a, b (or declare it under queues.cohorts)"
    assert [str(each) for each in check(loaded.settings, tmp_path, loaded.places)] == [
        f"error [cohort-unknown] Pulumi.test.yaml:4: queues.cohorts[b].parent: cohort 'c' is not declared; {remedy}",
        f"error [cohort-unknown] Pulumi.test.yaml:5: queues.cohorts[a].parent: cohort 'd' is not declared; {remedy}",
    ]


def test_findings_of_one_value_are_one() -> None:
    """A mount that two roles inherit is told once."""
    run = make_distributed(volumes=(make_mount(volume="lost"),), managed=False, record=None)
    assert [each.path for each in check(make_settings(run), EMPTY)] == ["workloads.runs[train].volumes[0].volume"]


def test_a_pod_is_queued_only_where_kueue_manages_pods() -> None:
    """By default it does not: a queued Pod would start at once, and one without a queue is not held."""
    queued = make_run(kind="Pod")
    (finding,) = check(make_settings(queued), EMPTY)
    assert (finding.id, finding.message) == (
        "framework-unlisted",
        "Kueue does not manage kind Pod: the run would start at once, outside every quota",
    )
    assert finding.remedy == "add pod to operators.kueue.configuration.frameworks"
    assert check(make_settings(queued, operators=Operators(kueue=make_kueue(frameworks=("pod",)))), EMPTY) == []
    free = make_run(kind="Pod", queue=None, priority=None)
    for frameworks, expected in ((("batch/job",), []), (("pod",), ["queue-missing"])):
        kueue = make_kueue(frameworks=frameworks, manage_jobs_without_queue_name=True)
        found = check(make_settings(free, operators=Operators(kueue=kueue)), EMPTY)
        assert [each.id for each in found] == expected


def test_a_name_that_is_fixed_may_be_longer_than_one_that_is_derived() -> None:
    """No hash stands in the names of its pods."""
    name = "n" * 45
    (finding,) = check(make_settings(make_distributed(name=name)), EMPTY)
    assert finding.id == "name-derived"
    assert check(make_settings(make_distributed(name=name, naming="fixed")), EMPTY) == []


def test_a_run_and_a_trial_do_not_share_a_fixed_name() -> None:
    """A trial is called after its sweep and its number."""
    sweeps = make_sweeps(run=make_run(name="search", naming="fixed"))
    assert check(make_settings(make_run(name="search-5", naming="fixed"), sweeps=sweeps), EMPTY) == []
    assert check(make_settings(make_run(name="search-3"), sweeps=sweeps), EMPTY) == []
    (finding,) = check(make_settings(make_run(name="search-3", naming="fixed"), sweeps=sweeps), EMPTY)
    assert (finding.id, finding.path) == ("name-duplicate", "sweeps.sweeps")
    assert finding.message == "Job research/search-3 is listed 2 times"


def test_the_rights_of_a_team_need_its_namespace() -> None:
    """A role can stand only where there is a namespace."""
    teams = Tenants(teams=(Team(name="vision", namespace="visoin", groups=("ml",)),))
    settings = make_settings(tenants=teams, environment=Environment(namespaces=(Namespace(name="vision"),)))
    found = [each for each in check(settings, EMPTY) if each.path.startswith("tenants")]
    assert [(each.id, each.severity, each.path) for each in found] == [
        ("namespace-unknown", "error", "tenants.teams[vision].namespace")
    ]
    assert found[0].remedy == "did you mean vision? (or declare it under environment.namespaces)"
