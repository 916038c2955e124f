"""Results of a sweep's trials, from their records or logs and their objects in the cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from trainstack.cli.follow import ChangeReporter
from trainstack.cli.output.console import fail, step
from trainstack.cli.session import Session
from trainstack.cli.sweep_logs import Outcome, TrialLogs
from trainstack.cli.transfers import TerminalProgress, data_loader
from trainstack.live.client import ClusterError
from trainstack.live.sweeps import read_sweep
from trainstack.live.worker_clusters import settings_of_worker
from trainstack.reports.errors import ReportError
from trainstack.reports.run_figures import METRICS_FILE, parse_metrics
from trainstack.runs.logs.metrics_collector import collect_metrics
from trainstack.runs.manifests.build import is_dispatched
from trainstack.runs.manifests.trials import Trial
from trainstack.settings.model import Settings
from trainstack.settings.search_space.space import Objective
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.sweeps import Sweep
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.sweeps.search.results import State, TrialResult
from trainstack.sweeps.status import LiveTrial, SweepObjects, live_trials, trial_clusters
from trainstack.transfer.errors import BrokenConnectionError, TransferError
from trainstack.transfer.trial_records import LAST_LINES, TrialRecord, read_records

SweepArgument = Annotated[str, typer.Argument(metavar="NAME", help="The sweep's name.")]
_NO_LOG = "its pod was deleted or its log is not readable, and its ledger has no metrics"
_UNREAD = "its record was not read, because its worker cluster could not be reached"


@dataclass(frozen=True, kw_only=True)
class _TrialEnd:
    state: State
    reason: str = ""
    last_lines: tuple[str, ...] = ()


def sweep_of(session: Session, name: str) -> Sweep:
    """Return a sweep; exits if the environment does not have it or it has no sets."""
    sweeps = {sweep.name: sweep for sweep in session.settings.sweeps.sweeps}
    if name not in sweeps:
        sweep_names = ", ".join(sorted(sweeps)) or "none"
        fail(f"{session.stack} has no sweep {name!r} in trainstack:sweeps (its sweeps: {sweep_names})")
    if sweeps[name].expansion is None:
        fail(f"sweep {name} has no sets yet; write them with: trainstack sweep expand {name}")
    return sweeps[name]


def planned_trials(session: Session, sweep: Sweep) -> Mapping[str, Trial]:
    """Return the sweep's trials by run id, in the order of their numbers. Raises InputsError or WorkloadError."""
    # Trials do not depend on the operators, whose releases are slow to parse.
    settings = session.settings.model_copy(update={"operators": Operators()})
    return StackObjects.from_files(settings, session.root).trials[sweep.name]


def read_results(session: Session, sweep: Sweep) -> tuple[TrialResult, ...]:
    """Read every trial of the sweep, by number, with its parameters, metrics and state.

    Reads all records in one stream, through one data loader.
    """
    trials = planned_trials(session, sweep)
    with step(f"reading the trials of {sweep.name}", "2 s"):
        objects = read_sweep(session.settings, sweep.name)
        for problem in objects.unreached.values():
            TerminalProgress.warn(problem)
        live_by_run_id = live_trials(objects)
        outcomes = TrialLogs(session, sweep).outcomes(objects, live_by_run_id, include_running=True)
    records = _read_records(session, sweep, list(trials), objects, TerminalProgress.warn)
    return tuple(
        trial.model_copy(update={"reason": _UNREAD})
        if trial.state == "succeeded" and trial.run_id not in records
        else trial
        for trial in _join_trials(sweep, trials, live_by_run_id, outcomes, records)
    )


@dataclass
class TrialCache:
    """Logs and records of ended trials, read once for repeated calls of `read_states`."""

    logs: TrialLogs
    records: dict[str, TrialRecord | None] = field(default_factory=dict)
    unread_clusters: ChangeReporter = field(default_factory=ChangeReporter)
    """Reports each reason why a worker cluster was not read, only once."""


def read_states(
    session: Session, sweep: Sweep, trials: Mapping[str, Trial], cache: TrialCache
) -> tuple[TrialResult, ...]:
    """Read every trial's state from the cluster, and the metrics of unmanaged trials. Raises ClusterError.

    Reads records only of ended trials whose objects were deleted, since a data loader waits in the queue like any Job.
    """
    objects = read_sweep(session.settings, sweep.name)
    for problem in objects.unreached.values():
        cache.unread_clusters.report(problem, problem)
    live_by_run_id = live_trials(objects)
    outcomes = cache.logs.outcomes(objects, live_by_run_id, include_running=False)
    deleted_run_ids = [
        run_id for run_id in trials if run_id in live_by_run_id and live_by_run_id[run_id].state == "gone"
    ]
    if unread_run_ids := [run_id for run_id in deleted_run_ids if run_id not in cache.records]:
        cache.records |= _read_records(
            session, sweep, unread_run_ids, objects, lambda line: cache.unread_clusters.report(line, line)
        )
    return _join_trials(sweep, trials, live_by_run_id, outcomes, cache.records)


def _join_trials(
    sweep: Sweep,
    trials: Mapping[str, Trial],
    live_by_run_id: Mapping[str, LiveTrial],
    outcomes: Mapping[str, Outcome],
    records: Mapping[str, TrialRecord | None],
) -> tuple[TrialResult, ...]:
    return tuple(
        join_trial(
            run_id,
            trial,
            live_by_run_id.get(run_id),
            records.get(run_id),
            sweep,
            record_was_read=run_id in records,
            outcome=outcomes.get(run_id),
        )
        for run_id, trial in trials.items()
    )


def join_trial(
    run_id: str,
    trial: Trial,
    live_trial: LiveTrial | None,
    record: TrialRecord | None,
    sweep: Sweep,
    *,
    record_was_read: bool,
    outcome: Outcome | None = None,
) -> TrialResult:
    """Combine a trial's objects with its record or log; a finished record takes precedence.

    `record_was_read`: so that None means that the record does not exist. `outcome`: of an unmanaged trial.
    """
    objective = sweep.space.objective
    identity: dict[str, Any] = {
        "number": trial.number,
        "set_id": trial.set_id,
        "run_id": run_id,
        "parameters": dict(trial.parameters),
    }
    if outcome is not None and not (live_trial is not None and live_trial.state == "queued"):
        return TrialResult(**identity, **outcome.model_dump(exclude={"launch", "metric", "metrics_format"}))
    metrics, fault = _parse_metrics(record, f"{run_id}/{METRICS_FILE}", objective) if record else ((), "")
    end = _trial_end(live_trial, record, sweep, record_was_read=record_was_read)
    facts = record.facts if record else {}
    return TrialResult(
        **identity,
        state=end.state,
        metrics=metrics,
        reason=end.reason or fault,
        last_lines=end.last_lines,
        started=_parse_time(facts.get("started")) or (live_trial.started if live_trial else None),
        finished=_finish_time(live_trial, record, end.state),
        attempts=record.attempts if record else live_trial.attempts if live_trial else 0,
    )


def _finish_time(live_trial: LiveTrial | None, record: TrialRecord | None, state: State) -> datetime | None:
    if record is not None and record.finished:
        return _parse_time(record.facts.get("finished"))
    if live_trial is not None and live_trial.finished is not None:
        return live_trial.finished
    return _parse_time(record.failure.get("finished")) if record is not None and state == "failed" else None


def _trial_end(
    live_trial: LiveTrial | None, record: TrialRecord | None, sweep: Sweep, *, record_was_read: bool
) -> _TrialEnd:
    if record is not None and record.finished:
        return _TrialEnd(state="succeeded")
    if live_trial is None:
        return _TrialEnd(
            state="waiting", reason="it has an unfinished record and no object in the cluster" if record else ""
        )
    if live_trial.state == "failed":
        return _end_of_failed(record, live_trial.reason, live_trial.controller)
    if live_trial.state == "gone":
        return _end_of_deleted(record, sweep) if record_was_read else _TrialEnd(state="stopped", reason=_UNREAD)
    return (
        _end_without_record(record, sweep)
        if live_trial.state == "succeeded" and record_was_read
        else _TrialEnd(state=live_trial.state, reason=live_trial.reason)
    )


def _end_without_record(record: TrialRecord | None, sweep: Sweep) -> _TrialEnd:
    if not sweep.run.managed:
        return _TrialEnd(state="succeeded", reason=_NO_LOG)
    if record is None:
        return _TrialEnd(state="succeeded", reason="its record was deleted from the volume")
    return _TrialEnd(state="stopped", reason="its set was removed before it started")


def _end_of_deleted(record: TrialRecord | None, sweep: Sweep) -> _TrialEnd:
    """Return the end of a trial whose object was deleted and whose record is not finished."""
    if not sweep.run.managed:
        return _TrialEnd(state="stopped", reason="its object was deleted and its ledger has no result")
    if record is None:
        return _TrialEnd(state="stopped", reason="its object was deleted and it has no record: it did not start")
    if record.failure.get("withdrawn"):
        return _TrialEnd(state="stopped", reason="its set was removed, and `stop` named it")
    return (
        _end_of_failed(record) if record.failure else _end_of_failed(record, "its object was deleted before it ended")
    )


def _end_of_failed(record: TrialRecord | None, live_reason: str = "", controller_reason: str = "") -> _TrialEnd:
    """Return the cause of a failure: from the pod, else the record, else the controller."""
    failure: Mapping[str, Any] = record.failure if record else {}
    recorded_reason = f"crashed (exit {failure['exit_code']})" if isinstance(failure.get("exit_code"), int) else ""
    if failure.get("stopped_by_sigterm"):
        recorded_reason = "stopped by SIGTERM: evicted, deleted, or past its deadline"
    reason = live_reason or recorded_reason or controller_reason or "the reason is unknown"
    lines = failure.get("last_lines")
    if not (lines and isinstance(lines, list)):
        lines = record.last_lines if record else ()
    return _TrialEnd(state="failed", reason=reason, last_lines=tuple(map(str, lines[-LAST_LINES:])))


def _read_records(
    session: Session, sweep: Sweep, run_ids: Sequence[str], objects: SweepObjects, warn: Callable[[str], None]
) -> dict[str, TrialRecord | None]:
    """Read records from the volume; of dispatched trials, from the volumes of their worker clusters.

    A trial without a record has None. A trial is left out if its record may be in a worker cluster that could not be
    read; `warn` is called with the reason. Raises the errors of `data_loader` for the environment's own cluster.
    """
    place, settings = sweep.run.record, session.settings
    records: dict[str, TrialRecord | None] = dict.fromkeys(run_ids)
    if place is None or not sweep.run.managed:
        return records
    unread_run_ids: set[str] = set()
    with_logs = sweep.space.objective.metrics_format is not None
    for cluster, cluster_run_ids in _run_ids_by_cluster(settings, sweep, run_ids, objects).items():
        try:
            cluster_settings = settings_of_worker(settings, cluster) if cluster else settings
            with data_loader(cluster_settings, sweep.run.namespace, place.volume) as loader:
                cluster_records = read_records(loader, place.path, cluster_run_ids, with_logs=with_logs)
        except (ClusterError, TransferError, BrokenConnectionError) as error:
            if not cluster:
                raise
            warn(f"the records in worker cluster {cluster} were not read: {error}")
            unread_run_ids.update(cluster_run_ids)
            continue
        records |= {
            run_id: record for run_id, record in cluster_records.items() if records[run_id] is None or record.finished
        }
    return {
        run_id: record
        for run_id, record in records.items()
        if run_id not in unread_run_ids or (record is not None and record.finished)
    }


def _run_ids_by_cluster(
    settings: Settings, sweep: Sweep, run_ids: Sequence[str], objects: SweepObjects
) -> dict[str, list[str]]:
    """Return the run ids whose records each worker cluster may have; "" is the environment's own cluster.

    A dispatched trial without an object that names its cluster may have a record in any cluster of its queue.
    """
    local_ledgers = (ledger for ledger in objects.ledgers if not is_dispatched(ledger.launch))
    cluster_by_run_id = {
        run_id: "" for ledger in local_ledgers for run_id in (ledger.run_id, *ledger.trials)
    } | trial_clusters(objects)
    possible_clusters = settings.queues.worker_clusters(sweep.run.namespace, sweep.run.queue) or ("",)
    run_ids_by_cluster: dict[str, list[str]] = {}
    for run_id in run_ids:
        for cluster in (cluster_by_run_id[run_id],) if run_id in cluster_by_run_id else possible_clusters:
            run_ids_by_cluster.setdefault(cluster, []).append(run_id)
    return run_ids_by_cluster


def _parse_metrics(record: TrialRecord, file: str, objective: Objective) -> tuple[tuple[Mapping[str, Any], ...], str]:
    text = record.metrics
    if objective.metrics_format is not None or not text:
        return collect_metrics(record.log, objective), ""
    if not record.finished and not text.endswith("\n"):
        # The last line is incomplete.
        text = text[: text.rfind("\n") + 1]
    try:
        return tuple(parse_metrics(text, file)), ""
    except ReportError as error:
        return (), str(error)


def _parse_time(text: object) -> datetime | None:
    """Return the time in UTC; None for anything else, also for a time without a zone, which cannot be compared."""
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
        return time.astimezone(UTC) if time is not None and time.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
