"""The snapshot of a cluster: the users of its quota, as Kueue counts it, and what a tenant may not read."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admission.bench import Bench, has_reservation
from tests.admission.cases import make_object
from tests.admission.kueue import Body, wait_until
from tests.cluster.people import Person, cluster_command
from tests.cluster.project import Project
from tests.unit.make import make_cluster_queue, make_group, make_run, make_settings
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.model import QueueState
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.workloads import run_workloads
from trainstack.live import admission
from trainstack.live.environment import read_environment
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.platform import queues, teams
from trainstack.preflight.live_context import LiveContext
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import Cohort, LocalQueue, Queues, ResourceFlavor
from trainstack.settings.sections.storage import Storage
from trainstack.settings.sections.tenants import Team
from trainstack.settings.sections.workloads import Resources, Workloads
from trainstack.stack_objects.stack_objects import StackObjects

NAME = "snapshot"
"""Of the namespace, its queue, cohort and flavor."""
GPU = "example.com/gpu"
QUOTA = {"cpu": "200m", "memory": "1Gi", GPU: "1"}


def environment(**changes: object) -> Settings:
    """Two pools that lend to each other, 400m cpu together, and a run that asks for half of it."""
    pool = make_cluster_queue(name=NAME, cohort=NAME, resource_groups=(make_group((NAME, QUOTA)),))
    declared = Queues(
        flavors=(ResourceFlavor(name=NAME), ResourceFlavor(name=f"{NAME}-none", node_labels={"pool": "none"})),
        cohorts=(Cohort(name=NAME),),
        cluster_queues=(pool, pool.model_copy(update={"name": f"{NAME}-other"})),
        local_queues=(LocalQueue(name=NAME, namespace=NAME, cluster_queue=NAME),),
    )
    run = make_run(
        namespace=NAME,
        queue=NAME,
        priority=None,
        managed=False,
        record=None,
        volumes=(),
        resources=Resources(requests={"cpu": "200m", "memory": "64Mi"}),
    )
    base = {"environment": Environment(namespaces=(Namespace(name=NAME),)), "storage": Storage(), "queues": declared}
    return make_settings(run, operators=Operators(), **{**base, **changes})


def kueue_workload(name: str, count: int) -> Body:
    """A Workload of so many pods, each with 100m cpu and 64Mi."""
    container = {"name": "one", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    pods = {"restartPolicy": "Never", "containers": [container]}
    sets = [{"name": "main", "count": count, "template": {"spec": pods}}]
    return make_object("Workload", name, {"queueName": NAME, "podSets": sets}, NAME)


BUSY, LATE = kueue_workload("busy", 3), kueue_workload("late", 2)


@pytest.fixture(scope="module")
def site(bench: Bench) -> Iterator[Bench]:
    """The pools, with 300m of their 400m cpu taken, 100m of it borrowed, and a workload that waits."""
    declared = environment().queues
    platform: list[Body] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}},
        *(queues.resource_flavor(flavor, NAME) for flavor in declared.flavors),
        *(queues.cohort(cohort, NAME) for cohort in declared.cohorts),
        *(queues.cluster_queue(queue, NAME) for queue in declared.cluster_queues),
    ]
    local = [queues.local_queue(queue, NAME) for queue in declared.local_queues]
    bench.api.create(platform)
    bench.api.create(local)
    try:
        bench.api.create([BUSY])
        wait_until("it is admitted", lambda: has_reservation(bench.api.read(BUSY)))
        bench.api.create([LATE])
        wait_until("it was tried", lambda: "conditions" in bench.api.read(LATE).get("status", {}))
        yield bench
    finally:
        bench.api.delete([BUSY, LATE, *local])
        bench.api.delete(platform[1:])


@pytest.fixture
def owner(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Use the kubeconfig of the owner, who may read everything."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    return Person(cluster.kubeconfig)


@pytest.fixture
def researcher(cluster: LocalCluster, site: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """A member of a team with the rights that a platform gives, whose kubeconfig is used."""
    team = Team(name=NAME, namespace=NAME, service_account="researcher")
    for body in teams.team_manifests(team, NAME):
        done = Person(cluster.kubeconfig).kubectl("apply", "--server-side", body=body)
        assert done.code == 0, done.text
    file = tmp_path / "kubeconfig"
    done = cluster_command(
        "kubeconfig", "--state", str(cluster.state), "--as", f"{NAME}/researcher", "--output", str(file)
    )
    assert done.code == 0, done.text
    monkeypatch.setenv("KUBECONFIG", str(file))
    return Person(file)


def read_snapshot(settings: Settings) -> QueueState:
    """Return the snapshot that `check --cluster` uses."""
    return LiveContext(StackObjects(settings), read_environment(settings, ()), {}).snapshot


def verdict_of(snapshot: QueueState, settings: Settings) -> Verdict:
    """The verdict on the environment's run."""
    (workload,) = run_workloads(StackObjects(settings), snapshot.model)
    return AdmissionSimulator(snapshot.model, snapshot.admitted).verdict(workload)


def reserved(owner: Person) -> dict[str, str]:
    """Return the reserved quota of the cluster queue by resource, from its status."""
    counted = owner.get("clusterqueue", NAME).get("status", {}).get("flavorsReservation", ())
    return {
        resource["name"]: resource["total"]
        for flavor in counted
        for resource in flavor["resources"]
        if resource["total"] != "0"
    }


def test_the_snapshot_has_the_quota_users_that_kueue_counts(site: Bench, owner: Person) -> None:
    """The snapshot has the admitted Workloads, the pending one, and the nodes."""
    found = read_snapshot(environment())
    (admitted,) = [workload for workload in found.admitted if workload.workload.namespace == NAME]
    totals = wait_until("Kueue has counted it", lambda: reserved(owner))
    assert (admitted.workload.key, admitted.cluster_queue) == (f"{NAME}/busy", NAME)
    assert totals == {"cpu": "300m", "memory": "192Mi"}
    assert admitted.usage == {(NAME, "cpu"): 300, (NAME, "memory"): 192 * 2**20}
    assert [workload.key for workload in found.pending if workload.namespace == NAME] == [f"{NAME}/late"]
    assert [node.name for node in found.model.nodes or ()] == [
        node["metadata"]["name"] for node in owner.items("nodes")
    ]
    assert not found.model.has_autoscaler


def test_a_long_list_is_read_to_its_end(site: Bench, owner: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list has several pages. Objects that other tests have deleted may disappear between two reads."""

    def read(most: int) -> QueueState:
        monkeypatch.setattr(admission, "PAGE_SIZE", most)
        return read_snapshot(environment())

    wait_until("one by one it is what it is in one answer", lambda: read(1) == read(10**6))


def test_a_run_waits_for_what_others_use(site: Bench, owner: Person) -> None:
    """It fits once the quota is free. Pending changes of the environment's queues are applied first."""
    settings = environment()
    now = verdict_of(read_snapshot(settings), settings)
    assert now.outcome == "waits"
    assert [(reason.cause, reason.resource, reason.missing) for reason in now.reasons] == [("in-use", "cpu", 100)]
    more = make_group((NAME, {**QUOTA, "cpu": "300m"}))
    pools = [pool.model_copy(update={"resource_groups": (more,)}) for pool in settings.queues.cluster_queues]
    raised = environment(queues=settings.queues.model_copy(update={"cluster_queues": tuple(pools)}))
    then = verdict_of(read_snapshot(raised), raised)
    assert (then.outcome, then.borrowed) == ("fits by borrowing", {(NAME, "cpu"): 200})


def test_the_report_for_a_tenant_names_the_platform_owner(researcher: Person) -> None:
    """A tenant may read its queue and its workloads, but not the cluster queue; this is not an error."""
    tenant = Environment(profile="tenant", layers=("training",))
    settings = environment(environment=tenant, queues=Queues())
    found = read_snapshot(settings)
    assert found.model.cluster_queues is None
    assert found.model.nodes is None
    assert list(found.model.local_queues or ()) == [(NAME, NAME)]
    verdict = verdict_of(found, settings)
    assert (verdict.outcome, [reason.cause for reason in verdict.reasons]) == ("unknown", ["unread"])
    assert "the platform's owner can run" in verdict.reasons[0].message


def test_missing_rights_leave_it_unknown_under_any_profile(researcher: Person) -> None:
    """The verdict does not guess what may not be read."""
    settings = environment()
    found = read_snapshot(settings)
    assert (found.model.cluster_queues, found.model.nodes) == (None, None)
    assert verdict_of(found, settings).outcome == "unknown"


def test_check_tells_verdicts_and_findings_of_the_cluster(
    site: Bench, cluster: LocalCluster, tmp_path: Path, owner: Person
) -> None:
    """The run waits; quota and a flavor have no nodes; Kueue does not manage Pods, as its configuration says."""
    whole = environment()
    runs = (*whole.workloads.runs, whole.workloads.runs[0].model_copy(update={"name": "bare", "kind": "Pod"}))
    whole = whole.model_copy(update={"workloads": Workloads(runs=runs)})
    declared = whole.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"stack"})
    declared["queues"]["priorityClasses"] = None
    config = {f"trainstack:{section}": value for section, value in declared.items()}
    project = Project.copy(tmp_path, cluster).other_stack(NAME, config)
    report = json.loads(project.trainstack("check", "--cluster", "--json").out)
    assert {line["name"]: line["outcome"] for line in report["verdicts"]} == {"train": "waits", "bare": "waits"}
    found = {(finding["id"], finding["severity"], finding["path"]) for finding in report["findings"]}
    quota = "resourceGroups[0].flavors[snapshot].resources"
    assert found == {
        ("quota-over-nodes", "warning", f"queues.clusterQueues[{name}].{quota}[{GPU}].nominalQuota")
        for name in (NAME, f"{NAME}-other")
    } | {
        ("flavor-nodes", "warning", f"queues.flavors[{NAME}-none].nodeLabels"),
        ("framework-unlisted", "error", "workloads.runs[bare].kind"),
    }
