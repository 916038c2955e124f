"""Trials that MultiKueue dispatches: allowed changes while they run, and the clusters of their pods and records."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.live_objects import Body
from tests.unit.make import make_expansion, make_queues
from tests.unit.preflight.environment_cases import check_of, dispatching
from tests.unit.sweeps.planned_sweeps import make_indexed, make_planned
from tests.unit.sweeps.sweep_cases import Cluster, ids, name_of_file
from tests.unit.sweeps.test_status import alive, make_pod
from trainstack.cli import sweep_read
from trainstack.live import run_views, sweeps
from trainstack.live.client import Answer, ClusterError
from trainstack.runs.manifests.build import is_dispatched
from trainstack.settings.sections.queues import MultiKueueConfig
from trainstack.sweeps.status import LiveTrial, SweepObjects
from trainstack.transfer.trial_records import TrialRecord

FEWER = make_expansion({"batch_size": 32}, {"batch_size": 64}, {"batch_size": 128})
RECORD = TrialRecord(finished=False, attempts=1, facts={}, metrics="", failure={}, last_lines=())


def test_a_set_of_a_dispatched_active_job_cannot_be_removed() -> None:
    """The Job carries its list of trials. A trial that has succeeded can be removed; `stop` ends the whole Job."""
    cluster, planned = Cluster(), make_indexed(dispatches=True)
    (batch,) = cluster.up(planned).launches
    assert is_dispatched(batch.launch)
    fewer = make_indexed(dispatches=True, expansion=FEWER)
    cluster.set("running")
    (refusal,) = cluster.up(fewer).refusals
    assert "would withdraw 1 of its trials, which is not possible in the cluster that MultiKueue" in refusal
    assert f"trainstack:workloads: stop: [{batch.run_id}]" in refusal
    cluster.set("running", succeeded=(3,))
    decision = cluster.up(fewer)
    assert (decision.refusals, [launch.launch_name for launch in decision.launches]) == ((), [batch.launch_name])


def test_an_interrupted_launch_is_found_with_the_annotations_of_its_pods() -> None:
    """The declared object equals the live one, for a batch and for a single trial."""
    for planned in (make_indexed(dispatches=True), make_planned(dispatches=True)):
        cluster = Cluster()
        first = cluster.up(planned)
        cluster.set("running")
        cluster.forget()
        again = cluster.up(planned)
        assert (again.refusals, again.launches, again.ledgers) == ((), first.launches, first.ledgers)


def read_pods(launches: list[Body], workloads: list[list[Body] | None], pods: dict[str, list[Body]]) -> Any:
    """Read the pods of launches from clusters with these pods; other clusters do not answer."""
    clusters: list[str] = []

    async def api(cluster: str) -> str:
        if cluster not in pods:
            raise ClusterError(f"{cluster} does not answer")
        return cluster

    async def get_all(cluster: str, paths: Iterable[str]) -> dict[str, Answer]:
        clusters.append(cluster)
        return {path: Answer(200, {"items": pods[cluster]}) for path in paths}

    async def labelled(*_: object) -> list[list[Body] | None]:
        return workloads

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "get_all", get_all)
        patch.setattr(sweeps, "read_by_label", labelled)
        found = asyncio.run(sweeps._read_pods(SimpleNamespace(api=api), launches, "search"))  # type: ignore[arg-type]
    assert len(clusters) == len({*clusters})
    return found


def test_pods_are_read_in_the_cluster_of_their_launch() -> None:
    """Each cluster is read once, and an unreachable one is reported. An undispatched launch has no pods."""
    planned = make_planned(dispatches=True)
    first, second, third, undispatched = (planned.job_ledger(run_id) for run_id in ids(planned))
    own = replace(undispatched, launch=make_planned().job_ledger(undispatched.run_id).launch)
    launches = [alive(ledger, str(index)) for index, ledger in enumerate((first, second, third, own))]
    workloads = [{"metadata": {}, "status": {"clusterName": name}} for name in ("west", "east")]
    pods = {"west": [make_pod(first)], "": [make_pod(own)]}
    found = read_pods(launches, [[workloads[0]], [workloads[1]], [{"metadata": {}, "status": {}}]], pods)
    assert found.clusters == {first.launch_name: "west", second.launch_name: "east"}
    assert found.unreached == {"east": "east does not answer"}
    assert sorted(found.pods, key=str) == sorted([make_pod(first), make_pod(own)], key=str)


@dataclass
class Workers:
    """Worker clusters `west` and `east` with records of dispatched trials, and the environment's own cluster."""

    unreachable: str = ""
    requests: dict[str, list[str]] = field(default_factory=dict)
    """The run ids that were requested, by cluster."""
    warnings: list[str] = field(default_factory=list)

    def read(self, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], dict[str, TrialRecord | None]]:
        """Return the run ids of four trials and their records.

        The first two are in west. The third was not dispatched. The object of the fourth was deleted.
        """
        planned = make_indexed(dispatches=True)
        run_ids = ids(planned)
        batch = planned.batch_ledger(run_ids[:2], name_of_file(planned, run_ids[:2]))
        undispatched = make_planned().job_ledger(run_ids[2])
        read = SweepObjects(
            launches=[alive(batch)], ledgers=[batch, undispatched], clusters={batch.launch_name: "west"}
        )
        queues = dispatching(check_of("check"), queue={}).queues
        configs = (MultiKueueConfig(name="workers", clusters=("west", "east")),)
        settings = SimpleNamespace(queues=queues.model_copy(update={"multi_kueue_configs": configs}))
        monkeypatch.setattr(sweep_read, "settings_of_worker", lambda _, cluster: cluster)
        monkeypatch.setattr(sweep_read, "data_loader", self._loader)
        monkeypatch.setattr(sweep_read, "read_records", self._records)
        session: Any = SimpleNamespace(settings=settings)
        return run_ids, sweep_read._read_records(session, planned.sweep, run_ids, read, self.warnings.append)

    @contextmanager
    def _loader(self, cluster: object, *_: str) -> Iterator[str]:
        if cluster == self.unreachable:
            raise ClusterError(f"{cluster} does not answer")
        yield cluster if isinstance(cluster, str) else ""

    def _records(self, cluster: str, _: str, trials: list[str], **__: object) -> dict[str, TrialRecord]:
        self.requests[cluster] = trials
        return {run_id: replace(RECORD, finished=cluster == "west") for run_id in trials}


def test_records_are_read_where_the_trials_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the object is deleted, any cluster of the queue may have the record. An undispatched trial's is local."""
    workers = Workers()
    run_ids, found = workers.read(monkeypatch)
    assert workers.requests == {"west": [*run_ids[:2], run_ids[3]], "": [run_ids[2]], "east": [run_ids[3]]}
    assert {run_id: record and record.finished for run_id, record in found.items()} == {
        run_id: run_id != run_ids[2] for run_id in run_ids
    }
    assert workers.warnings == []


@pytest.mark.parametrize(("unreachable", "left_out"), [("west", (0, 1, 3)), ("east", ())])
def test_trials_are_shown_without_the_records_of_an_unreachable_worker(
    monkeypatch: pytest.MonkeyPatch, unreachable: str, left_out: tuple[int, ...]
) -> None:
    """The fourth trial's record may be in either cluster: a finished one in west suffices."""
    workers = Workers(unreachable)
    run_ids, found = workers.read(monkeypatch)
    assert [run_id for run_id in run_ids if run_id not in found] == [run_ids[number] for number in left_out]
    assert workers.warnings == [
        f"the records in worker cluster {unreachable} were not read: {unreachable} does not answer"
    ]


def test_the_environments_own_cluster_must_be_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without any record would show wrong results."""
    session: Any = SimpleNamespace(settings=SimpleNamespace(queues=make_queues()))

    def loader(*_: object) -> None:
        raise ClusterError("the cluster does not answer")

    monkeypatch.setattr(sweep_read, "data_loader", loader)
    planned = make_planned()
    with pytest.raises(ClusterError, match="the cluster does not answer"):
        sweep_read._read_records(session, planned.sweep, ids(planned), SweepObjects(), print)


def test_a_trial_with_an_unread_record_has_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the record nor the trial's start is reported as missing."""
    planned = make_planned()
    succeeded, deleted, running, *_ = ids(planned)
    live = {
        succeeded: LiveTrial(state="succeeded"),
        deleted: LiveTrial(state="gone"),
        running: LiveTrial(state="running"),
    }
    monkeypatch.setattr(sweep_read, "planned_trials", lambda *_: planned.trials)
    monkeypatch.setattr(sweep_read, "read_sweep", lambda *_: SweepObjects())
    monkeypatch.setattr(sweep_read, "live_trials", lambda _: live)
    monkeypatch.setattr(sweep_read, "TrialLogs", lambda *_: SimpleNamespace(outcomes=lambda *_, **__: {}))
    monkeypatch.setattr(sweep_read, "_read_records", lambda *_: {})
    session: Any = SimpleNamespace(settings=None)
    found = {trial.run_id: (trial.state, trial.reason) for trial in sweep_read.read_results(session, planned.sweep)}
    assert found[succeeded] == ("succeeded", sweep_read._UNREAD)
    assert found[deleted] == ("stopped", sweep_read._UNREAD)
    assert found[running] == ("running", "")


def test_copies_of_a_waiting_workload_are_read_from_its_clusters() -> None:
    """A missing copy, an unreadable one and an unreachable cluster have different results."""

    async def api(cluster: str) -> str:
        if cluster == "south":
            raise ClusterError("south does not answer")
        return cluster

    async def get_all(cluster: str, paths: Iterable[str]) -> dict[str, Answer]:
        status, body = {"east": (200, {"kind": "Workload"}), "north": (404, {}), "west": (403, {})}[cluster]
        return {path: Answer(status, body) for path in paths}

    workload = {
        "metadata": {"namespace": "research", "name": "job-train"},
        "status": {"nominatedClusterNames": ["east", "north", "south", "west"]},
    }
    workers: Any = SimpleNamespace(api=api)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_views, "get_all", get_all)
        found = asyncio.run(run_views._read_workload_copies(workers, workload))
        dispatched = asyncio.run(run_views._read_workload_copies(workers, {"status": {"clusterName": "west"}}))
    assert found == {
        "east": {"kind": "Workload"},
        "north": {},
        "south": "south does not answer",
        "west": "these credentials may not read its Workload",
    }
    assert dispatched == {}
