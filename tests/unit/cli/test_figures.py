"""The pod log or the record from which `trainstack compare` reads a run."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
import typer

from tests.unit.reports.make import make_classic, make_log, make_record, make_stamped
from trainstack.cli import run_series as figures
from trainstack.cli.commands import compare as command
from trainstack.cli.session import Session
from trainstack.live.client import Answer, ClusterError
from trainstack.reports.comparison import compare as compare_runs
from trainstack.reports.overlap import RunPlacement
from trainstack.reports.run_figures import Definition
from trainstack.runs.launches import LiveLaunch
from trainstack.runs.launches import utc_now as now
from trainstack.runs.ledgers import Ledger
from trainstack.settings.model import Settings

ID = "0123456789"


def make_pod(name: str, phase: str = "Succeeded", created: str = "2026-11-21T12:00:00Z", **env: str) -> dict[str, Any]:
    """Return a pod of one training container with these variables, between two other containers."""
    variables = [{"name": key, "value": value} for key, value in env.items()]
    train = {"name": "pytorch", "image": "mnist:1", "args": ["--backend=gloo"], "env": variables}
    return {
        "metadata": {"name": name, "creationTimestamp": created, "labels": {}},
        "spec": {"containers": [{"name": "proxy", "image": "p"}, train, {"name": "sidecar", "image": "other"}]},
        "status": {"phase": phase},
    }


class Cluster:
    """The objects of runs in a cluster: ledgers, succeeded launches, pods and their logs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledgers: list[Ledger] = []
        self.live: list[LiveLaunch] = []
        self.pods: dict[str, list[dict[str, Any]]] = {}
        self.logs: dict[str, str] = {}
        self.previous: dict[str, str] = {}
        monkeypatch.setattr(figures, "read_runs", lambda _: SimpleNamespace(ledgers=self.ledgers, live=self.live))
        monkeypatch.setattr(figures, "read", self._read)
        monkeypatch.setattr(figures, "read_text", self._read_text)

    def add(self, workload: str, *pods: dict[str, Any], log: str = "", phase: str = "succeeded") -> str:
        """Add a run of a workload, all of whose pods have this log; return its id."""
        run = f"{workload}-{ID}"
        name = f"{run}-000000"
        self.ledgers.append(
            Ledger(run_id=run, workload=workload, namespace="team", attempt=1, launch_name=name, launch={})
        )
        self.live.append(LiveLaunch(run, name, "PyTorchJob", "team", phase, now(), name))  # type: ignore[arg-type] # by test
        self.pods[run] = list(pods)
        self.logs |= {pod["metadata"]["name"]: make_stamped(log) for pod in pods}
        return run

    def _read(self, paths: list[str], _: str | None) -> dict[str, Answer]:
        (path,) = paths
        assert path.startswith("/api/v1/namespaces/team/pods?labelSelector=")
        run = unquote(path).rpartition("trainstack.dev/run=")[2]
        return {path: Answer(200, {"items": self.pods[run]})}

    def _read_text(self, path: str, _: str | None) -> str:
        path, previous, _ = path.partition("&previous=true")
        assert path.endswith("/log?container=pytorch&timestamps=true")
        return (self.previous if previous else self.logs)[path.split("/")[6]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Provide a cluster of unmanaged runs."""
    monkeypatch.setattr(figures, "fetch_run", lambda *_: None)
    return Cluster(monkeypatch)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Provide the session that commands open; `digits` is a managed workload of its environment."""
    managed = {"command": ("true",), "image": {"name": "busybox"}, "record": {"volume": "lab"}}
    settings = Settings.model_validate(
        {"stack": "dev", "workloads": {"runs": ({"name": "digits", "kind": "Job", "namespace": "team", **managed},)}}
    )
    session = Session(tmp_path, "dev")
    session.__dict__["loaded"] = SimpleNamespace(settings=settings)
    monkeypatch.setattr(Session, "open", lambda _: session)
    return session


def test_a_run_without_a_record_is_read_from_its_pods_by_rank(session: Session, cluster: Cluster) -> None:
    """World size and rank are the variables that the operator set in each pod; the container is the main container."""
    pods = [make_pod(f"mnist-{rank}", RANK=str(rank), WORLD_SIZE="3") for rank in (2, 0, 1)]
    cluster.add("mnist", *pods, log=make_classic())
    (run,) = figures.read_compared_runs(session, ["mnist"])
    assert (run.run_id, run.source, run.finished, run.world_size) == (f"mnist-{ID}", "logs", True, 3)
    assert run.steps == {0: 6, 1: 6, 2: 6}
    assert run.definition == Definition(image="mnist:1", args=("--backend=gloo",))
    assert run.notes == ()


def test_the_nodes_of_a_train_job_are_its_ranks(session: Session, cluster: Cluster) -> None:
    """Trainer sets the number of nodes, and the completion index of the Job is the rank of a pod."""
    pods = [make_pod(f"node-{index}", PET_NNODES="2") for index in range(2)]
    for index, pod in enumerate(pods):
        pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = str(index)
    cluster.add("mnist", *pods, log=make_classic())
    assert figures.read_compared_runs(session, ["mnist"])[0].steps == {0: 6, 1: 6}


def test_of_several_pods_of_a_rank_the_one_that_succeeded_last_is_shown(session: Session, cluster: Cluster) -> None:
    """The earlier ones were retries, or other completions of the Job; a pod that has not started has no log."""
    pods = [
        make_pod("first", "Failed", "2026-11-21T12:00:00Z"),
        make_pod("second", "Succeeded", "2026-11-21T12:01:00Z"),
        make_pod("third", "Failed", "2026-11-21T12:02:00Z"),
        make_pod("fourth", "Pending", "2026-11-21T12:03:00Z"),
    ]
    cluster.add("mnist", *pods, phase="running")
    cluster.logs["second"] = make_stamped(make_log())
    (run,) = figures.read_compared_runs(session, ["mnist"])
    assert (run.steps, run.finished) == ({0: 28}, False)
    assert run.notes == ("3 pods ran independently or one after the other; shown: second",)


def test_without_pods_there_is_nothing_to_compare(
    session: Session, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error states what would have recorded figures."""
    cluster.add("mnist", make_pod("waits", "Pending"))
    with pytest.raises(typer.Exit):
        figures.read_compared_runs(session, ["mnist"])
    assert "managed workload keeps a record" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("digits", f"matches several runs; name one: digits-{ID}, digits-abcdef0123"),
        ("m", f"matches several runs; name one: mnist-{ID}, mnist-small-{ID}"),
        ("resnet", f"no run 'resnet' was launched in dev (launched runs: digits-{ID}, "),
    ],
)
def test_a_word_that_selects_no_single_run_is_an_error_with_the_ids(
    session: Session, cluster: Cluster, capsys: pytest.CaptureFixture[str], word: str, message: str
) -> None:
    """The error lists the ids. The name of a workload does not match a longer name."""
    for workload in ("mnist", "mnist-small", "digits"):
        cluster.add(workload, make_pod(workload), log=make_classic())
    cluster.ledgers.append(
        Ledger(run_id="digits-abcdef0123", workload="digits", namespace="team", attempt=2, launch_name="", launch={})
    )
    assert figures.read_compared_runs(session, ["mnist"])[0].run_id == f"mnist-{ID}"
    with pytest.raises(typer.Exit):
        figures.read_compared_runs(session, [word])
    assert message in capsys.readouterr().err


def test_a_record_that_is_here_needs_no_cluster(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is not fetched again; its index selects a completion of a Job."""

    def fail(*_: object) -> None:
        raise ClusterError("away")

    for name in ("read_runs", "read", "read_text", "fetch_run"):
        monkeypatch.setattr(figures, name, fail)
    for name in (f"digits-{ID}", f"multi-{ID}/1"):
        (make_record(session.results / name, {"0.pod-1": make_log()}) / "_SUCCESS").touch()
    runs = figures.read_compared_runs(session, [f"digits-{ID}", f"multi-{ID}/1"])
    assert [(run.run_id, run.steps) for run in runs] == [(f"digits-{ID}", {0: 28}), (f"multi-{ID}/1", {0: 28})]


@pytest.mark.parametrize("reachable", [True, False])
def test_workers_without_the_volume_are_read_from_their_pods_where_there_are_any(
    session: Session, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, reachable: bool
) -> None:
    """An unreachable cluster is not an error: the record exists."""
    run_id = cluster.add(
        "digits", *(make_pod(f"p{rank}", RANK=str(rank), WORLD_SIZE="2") for rank in range(2)), log=make_log()
    )
    (make_record(session.results / run_id, {"0.m-1": make_log()}, world_size=2) / "_SUCCESS").touch()
    if not reachable:

        def fail(*_: object) -> None:
            raise ClusterError("away")

        monkeypatch.setattr(figures, "read", fail)
    assert figures.read_compared_runs(session, [run_id])[0].steps == {0: 28, 1: 28 if reachable else None}


@pytest.mark.parametrize(("restarts", "steps"), [(1, 28), (0, None)])
def test_a_worker_that_was_started_again_is_read_from_both_logs(
    session: Session, cluster: Cluster, restarts: int, steps: int | None
) -> None:
    """A missing log leaves its steps unknown, and the notes mention it."""
    pods = [make_pod(f"p{rank}", RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    pods[1]["status"]["containerStatuses"] = [
        {"name": "sidecar", "restartCount": 5},
        {"name": "pytorch", "restartCount": restarts},
    ]
    run_id = cluster.add("digits", *pods, log=make_log())
    stamped = make_stamped(make_log()).splitlines(keepends=True)
    # The pod was stopped in its second epoch, and resumed with that epoch.
    cluster.previous["p1"], cluster.logs["p1"] = "".join(stamped[:6]).rstrip("\n"), "".join(stamped[5:])
    (make_record(session.results / run_id, {"0.m-1": make_log()}, world_size=2) / "_SUCCESS").touch()
    (run,) = figures.read_compared_runs(session, [run_id])
    assert run.steps == {0: 28, 1: steps}
    notes = compare_runs([run]).notes
    assert any("the log of rank 1 lacks epochs that other ranks have" in note for note in notes) == (steps is None)
    assert not any("in a recognized format" in note for note in notes if "rank 1" in note)


NOON = "2026-11-21T12:00:00Z"
END = "2026-11-21T12:10:00Z"
LATER = "2026-11-21T12:10:30Z"
NOW = datetime(2026, 11, 21, 13, tzinfo=UTC)


def make_repeating(exit_code: int, state: dict[str, Any], restarts: int = 1) -> dict[str, Any]:
    """Return a running pod whose previous attempt ended so."""
    pod = make_pod("alone", "Running")
    ended = {"terminated": {"exitCode": exit_code, "startedAt": NOON, "finishedAt": END}}
    status = {"name": "pytorch", "restartCount": restarts, "state": state, "lastState": ended}
    pod["status"] |= {"startTime": NOON, "containerStatuses": [status]}
    pod["spec"]["nodeName"] = "local"
    return pod


@pytest.mark.parametrize(
    ("exit_code", "state", "restarts", "before", "now"),
    [
        pytest.param(0, {"running": {"startedAt": LATER}}, 1, 3, 1, id="trains again"),
        pytest.param(0, {"waiting": {"reason": "CrashLoopBackOff"}}, 0, 3, 3, id="is about to"),
        pytest.param(0, {"running": {"startedAt": LATER}}, 1, 0, 3, id="has just ended again"),
        pytest.param(1, {"running": {"startedAt": LATER}}, 1, 2, 3, id="goes on after a failure"),
    ],
)
def test_a_pod_that_is_restarted_always_is_read_from_its_last_complete_training(
    session: Session, cluster: Cluster, exit_code: int, state: dict[str, Any], restarts: int, before: int, now: int
) -> None:
    """The present attempt may have only started; the times of both attempts must not be mixed."""
    run_id = cluster.add("alone", make_repeating(exit_code, state, restarts), phase="running")
    cluster.live[-1] = replace(cluster.live[-1], endless=True, completed=exit_code == 0)
    cluster.previous["alone"] = make_stamped(make_classic(epochs=before)) if before else ""
    cluster.logs["alone"] = make_stamped(make_classic(epochs=now))
    (run,) = figures.read_compared_runs(session, [run_id])
    assert len(run.epochs) == 3
    assert run.finished == (exit_code == 0)
    note = "pod alone was restarted after it had succeeded; shown: the last training that succeeded"
    assert run.notes == (() if exit_code else (note,))


def make_ended(name: str, node: str, start: str, end: str) -> dict[str, Any]:
    """Return a pod that has succeeded."""
    pod = make_pod(name)
    state = {"terminated": {"exitCode": 0, "startedAt": start, "finishedAt": end}}
    pod["status"]["containerStatuses"] = [{"name": "pytorch", "restartCount": 0, "state": state}]
    pod["spec"]["nodeName"] = node
    return pod


def test_pods_show_where_and_when_a_run_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that is always restarted holds its node from its start until now; one without a status yields nothing."""
    pods = [
        make_ended("a", "one", NOON, END),
        make_repeating(0, {"running": {"startedAt": LATER}}),
        make_pod("evicted", "Failed"),
    ]
    moments = [datetime.fromisoformat(moment) for moment in (NOON, END)]
    assert figures._placements(pods, NOW) == (
        RunPlacement("one", moments[0], moments[1]),
        RunPlacement("local", moments[0], NOW),
    )


def test_two_runs_on_one_node_are_warned_of(
    session: Session, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The baseline still trained while the distributed run trained."""
    cluster.add("alone", make_repeating(0, {"running": {"startedAt": LATER}}), log=make_classic())
    cluster.previous["alone"] = make_stamped(make_classic())
    cluster.add("pair", make_ended("p0", "local", "2026-11-21T12:09:00Z", "2026-11-21T12:11:30Z"), log=make_classic())
    command.compare(["alone", "pair"], stack="dev")
    stdout = " ".join(capsys.readouterr().out.split())
    assert "before you compare: alone and pair ran on node local at the same time for 2 min" in stdout


@pytest.mark.parametrize("left", [True, False])
def test_a_recorded_run_is_placed_by_its_pods_while_there_are_any(
    session: Session, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, left: bool
) -> None:
    """Without the pods the record gives only the times of the run."""
    run_id = cluster.add("digits", *([make_ended("p0", "local", NOON, END)] if left else []), log=make_log())
    make_record(session.results / run_id, {"0.p0-1": make_log()}, started=NOON, finished=LATER)
    monkeypatch.setattr(figures, "fetch_run", lambda *_: session.results / run_id)
    (placement,) = figures.read_compared_runs(session, [run_id])[0].placements
    assert (placement.node, placement.end) == (
        ("local", datetime.fromisoformat(END)) if left else (None, datetime.fromisoformat(LATER))
    )


@pytest.fixture
def two(session: Session, cluster: Cluster) -> list[str]:
    """Provide a run of one replica and one of three."""
    cluster.add("alone", make_pod("alone"), log=make_classic(lines=9))
    cluster.add("pair", *(make_pod(f"p{i}", RANK=str(i), WORLD_SIZE="2") for i in range(2)), log=make_classic(lines=3))
    return ["alone", "pair"]


def test_a_person_gets_a_table_and_sentences(two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The sentences include what is unknown."""
    command.compare(two, stack="dev")
    stdout = capsys.readouterr().out
    assert "STEPS EACH" in stdout
    assert "pair, 2 replicas: 6 progress lines each against 18 (1 : 3.0)" in stdout
    assert "not known: pair has no record, so its data and seed are unknown" in stdout


def test_files_are_written_completely_with_the_json(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The picture and the page are written; stdout has the JSON only."""
    command.compare(two, stack="dev", png=tmp_path / "a.png", html=tmp_path / "a.html", json_=True)
    assert json.loads(capsys.readouterr().out)["runs"][1]["steps_ratio"] == 3.0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: command.compare(["alone"], stack="dev"), "name at least two runs"),
        (lambda folder: command.compare(["alone", f"alone-{ID}"], stack="dev"), "name each run once"),
        (lambda folder: command.compare(["alone", "pair"], stack="dev", html=folder / "no" / "a.html"), "cannot write"),
    ],
)
def test_a_persons_mistake_ends_in_one_message(
    two: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    call: Callable[[Path], None],
    message: str,
) -> None:
    """No table precedes it."""
    with pytest.raises(typer.Exit):
        call(tmp_path)
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
