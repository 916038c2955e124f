"""The merge of an environment's runs with the live workloads of its cluster."""

from datetime import UTC, datetime
from typing import Any

from tests.unit.forecast.make import make_task
from tests.unit.kueue.make import make_admitted, make_model, make_queue, make_workload
from trainstack.forecast.live_workloads import (
    LiveWorkloads,
    add_live_workloads,
    deadlines_by_workload,
    match_runs,
    owners_by_workload,
)
from trainstack.forecast.tasks import UNBOUNDED, Duration, Owner
from trainstack.kueue.model import QueueState
from trainstack.runs.launches import LiveLaunch, Phase
from trainstack.runs.ledgers import Ledger


def make_live(**changes: Any) -> LiveWorkloads:
    """Return a cluster at second 1000, on which `live` runs and `queued` waits."""
    snapshot = QueueState(
        model=make_model(make_queue()),
        admitted=(make_admitted("live", reserved_at=940.0),),
        pending=(make_workload(name="queued", created=900.0),),
    )
    return LiveWorkloads(**{"snapshot": snapshot, "now": 1000.0, **changes})


def make_body(name: str, kind: str = "Job", owner: str = "train-1", **spec: Any) -> dict[str, Any]:
    """Return one of Kueue's Workloads."""
    references = [{"kind": kind, "name": owner}] if owner else []
    return {"metadata": {"name": name, "namespace": "ns", "ownerReferences": references}, "spec": spec}


def make_ledger(name: str, launch: str = "l1") -> Ledger:
    """Return the ledger of a declared run."""
    return Ledger(run_id=f"{name}-r", workload=name, namespace="ns", attempt=1, launch_name=launch, launch={})


def make_launch(name: str, phase: Phase, launch: str = "l1") -> LiveLaunch:
    """Return a launch in the cluster."""
    return LiveLaunch(f"{name}-r", f"{name}-object", "Job", "ns", phase, datetime.now(UTC), launch)


def test_the_clusters_workloads_are_first_and_those_of_others_have_no_known_end() -> None:
    """The declared runs follow, created now. A known limit of a Workload is its maximum duration."""
    tasks, admitted = add_live_workloads([make_task("new", 30)], make_live(deadlines={"ns/queued": 50.0}))
    live, queued, new = tasks
    assert [task.workload.name for task in tasks] == ["live", "queued", "new"]
    assert (live.elapsed, live.duration, live.is_declared) == (60.0, UNBOUNDED, False)
    assert (queued.elapsed, queued.duration) == (None, Duration(50.0, "deadline"))
    assert (new.workload.created, new.duration, new.is_declared) == (1000.0, Duration(30.0, "declared"), True)
    assert [(workload.workload.key, workload.reserved_at) for workload in admitted] == [("ns/live", -60.0)]


def test_an_existing_declared_run_is_not_launched_again() -> None:
    """It has its name and duration, and no open dependencies. An ended run is left out."""
    declared = [make_task("one", 100, dependencies=("ns/two",)), make_task("two", 5), make_task("done", 5)]
    live_workloads = make_live(runs={"ns/live": "ns/one", "ns/queued": "ns/two"}, ended={"ns/done"})
    tasks, admitted = add_live_workloads(declared, live_workloads)
    assert [(task.key, task.duration.seconds, task.dependencies, task.elapsed) for task in tasks] == [
        ("ns/one", 100.0, (), 60.0),
        ("ns/two", 5.0, (), None),
    ]
    assert [workload.workload.key for workload in admitted] == ["ns/one"]
    assert tasks[1].workload.created == 900.0


def test_a_simulated_change_applies_to_a_waiting_run() -> None:
    """The run keeps its creation time."""
    declared = [make_task("two", 5, priority=7)]
    live_workloads = make_live(runs={"ns/queued": "ns/two"})
    assert add_live_workloads(declared, live_workloads)[0][1].workload.priority == 0
    task = add_live_workloads(declared, live_workloads, {"ns/two"})[0][1]
    assert (task.workload.priority, task.workload.created) == (7, 900.0)


def test_limits_are_those_of_the_workload_and_of_its_owner() -> None:
    """The lower one counts; a Workload without an owner has only its own."""
    bodies = [
        make_body("a", maximumExecutionTimeSeconds=60),
        make_body("b", owner="train-2"),
        make_body("c", "PyTorchJob", "train-3", maximumExecutionTimeSeconds=900),
        make_body("d", owner=""),
    ]
    assert owners_by_workload(bodies) == {
        "ns/a": ("Job", "ns", "train-1"),
        "ns/b": ("Job", "ns", "train-2"),
        "ns/c": ("PyTorchJob", "ns", "train-3"),
    }
    owned: dict[Owner, dict[str, Any]] = {
        ("Job", "ns", "train-2"): {"spec": {"activeDeadlineSeconds": 120}},
        ("PyTorchJob", "ns", "train-3"): {"spec": {"runPolicy": {"activeDeadlineSeconds": 300}}},
    }
    assert deadlines_by_workload(bodies, owned) == {"ns/a": 60.0, "ns/b": 120.0, "ns/c": 300.0}


def test_declared_runs_are_found_by_their_launches() -> None:
    """Active runs by their object's Workload, ended ones by object or ledger; a new run has neither."""
    names = ("active", "succeeded", "settled", "failed", "mended", "new")
    declared = [make_ledger(name, "l2" if name == "mended" else "l1") for name in names]
    live = [
        make_launch("active", "running"),
        make_launch("succeeded", "succeeded"),
        make_launch("failed", "failed"),
        make_launch("mended", "failed"),
    ]
    workloads = {("Job", "ns", "active-object"): "ns/job-active", ("Job", "ns", "other"): "ns/other"}
    runs, ended = match_runs(declared, live, [make_ledger("settled")], workloads)
    assert runs == {"ns/job-active": "ns/active"}
    # A failed run is launched again only if its launch was edited since.
    assert ended == {"ns/succeeded", "ns/settled", "ns/failed"}
