"""What became of a sweep's trials: their records on the volume or logs, joined with what the cluster has of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

import typer

from trainstack.cli.console import fail, step
from trainstack.cli.session import Session
from trainstack.cli.sweep_logs import Outcome, TrialLogs
from trainstack.cli.transfers import data_loader
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import InputsError
from trainstack.live.client import ClusterError
from trainstack.live.sweeps import read_sweep
from trainstack.reports.errors import ReportError
from trainstack.reports.runs import METRICS, metrics_of
from trainstack.runs.errors import WorkloadError
from trainstack.runs.logs.metrics_collector import collect
from trainstack.runs.manifests.trial_names import PlannedTrial
from trainstack.settings.search_space.space import Objective
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.search.results import State, TrialResult
from trainstack.sweeps.status import LiveTrial, live_trials
from trainstack.transfer.trial_records import LAST_LINES, Record, read_records

SweepArgument = Annotated[str, typer.Argument(metavar="NAME", help="The sweep.")]
_LOG_GONE = "its pod is gone, or its log may not be read, and nothing of it was kept"


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What a record tells of its trial's end."""

    state: State
    reason: str
    last_lines: tuple[str, ...] = ()


def sweep_of(session: Session, name: str) -> Sweep:
    """The sweep of this name; ends the command where the environment has none, or it has no trials yet."""
    sweeps = {each.name: each for each in session.settings.sweeps.sweeps}
    if name not in sweeps:
        known = ", ".join(sorted(sweeps)) or "none"
        fail(f"{session.stack} has no sweep {name!r} (there are: {known}); they stand in trainstack:sweeps")
    if sweeps[name].expansion is None:
        fail(f"sweep {name} has no sets yet; make them: trainstack sweep expand {name}")
    return sweeps[name]


def planned_trials(session: Session, sweep: Sweep) -> tuple[PlannedTrial, ...]:
    """The sweep's trials with their run ids, by number. Ends the command where files are missing."""
    # Which trials there are does not depend on the operators, whose releases are long.
    settings = session.settings.model_copy(update={"operators": Operators()})
    try:
        return Declared.from_files(settings, session.root).trials[sweep.name]
    except (InputsError, WorkloadError) as error:
        return fail(str(error))


def read_results(session: Session, sweep: Sweep) -> tuple[TrialResult, ...]:
    """Every trial of the sweep, by number: what it was, what it did, and how it stands now.

    All records are read in one stream, through one data loader. Ends the command when cluster or volume cannot be read.
    """
    planned = planned_trials(session, sweep)
    try:
        with step(f"looking at the trials of {sweep.name}", "2 s"):
            objects = read_sweep(session.settings, sweep.name)
            live = live_trials(objects)
            outcomes = TrialLogs(session, sweep).outcomes(objects, live, running=True)
    except ClusterError as error:
        return fail(str(error))
    records = _records(session, sweep, [each.run_id for each in planned])
    return tuple(
        joined(
            each,
            live.get(each.run_id),
            records.get(each.run_id),
            sweep,
            looked=True,
            outcome=outcomes.get(each.run_id),
        )
        for each in planned
    )


@dataclass
class Known:
    """What was read of trials that change no more, for who looks again and again."""

    logs: TrialLogs
    records: dict[str, Record | None] = field(default_factory=dict)


def read_states(
    session: Session, sweep: Sweep, planned: Sequence[PlannedTrial], known: Known
) -> tuple[TrialResult, ...]:
    """Every trial of the sweep as the cluster has it; metrics of unmanaged ones alone.

    A loader waits in the queue like any Job, so records are read only of trials that have ended, and whose objects do
    not tell how. Raises ClusterError.
    """
    objects = read_sweep(session.settings, sweep.name)
    live = live_trials(objects)
    outcomes = known.logs.outcomes(objects, live, running=False)
    asked = [each.run_id for each in planned if each.run_id in live and live[each.run_id].state == "gone"]
    if missing := [run_id for run_id in asked if run_id not in known.records]:
        records = _records(session, sweep, missing)
        known.records.update({run_id: records.get(run_id) for run_id in missing})
    return tuple(
        joined(
            each,
            live.get(each.run_id),
            known.records.get(each.run_id),
            sweep,
            looked=each.run_id in known.records,
            outcome=outcomes.get(each.run_id),
        )
        for each in planned
    )


def joined(
    planned: PlannedTrial,
    live: LiveTrial | None,
    record: Record | None,
    sweep: Sweep,
    *,
    looked: bool,
    outcome: Outcome | None = None,
) -> TrialResult:
    """One trial from both sides. A finished record has the last word; else what the cluster has of it.

    Args:
        planned: the trial.
        live: its objects; None where it was never launched.
        record: of a managed trial.
        sweep: the sweep.
        looked: the record was looked for, so None means that there is none.
        outcome: of an unmanaged trial, from its log.

    """
    trial, objective = planned.trial, sweep.space.objective
    if outcome is not None and not (live is not None and live.state == "queued"):
        return TrialResult(
            number=trial.number,
            set_id=trial.set_id,
            run_id=planned.run_id,
            parameters=dict(trial.parameters),
            **outcome.model_dump(exclude={"launch", "metric", "metrics_format"}),
        )
    metrics, fault = _metrics(record, f"{planned.run_id}/{METRICS}", objective) if record else ((), "")
    told = _told(live, record, sweep, looked=looked)
    facts = record.facts if record else {}
    return TrialResult(
        number=trial.number,
        set_id=trial.set_id,
        run_id=planned.run_id,
        parameters=dict(trial.parameters),
        state=told.state,
        metrics=metrics,
        reason=told.reason or fault,
        last_lines=told.last_lines,
        started=_time(facts.get("started")) or (live.started if live else None),
        finished=_end(live, record, told.state),
        attempts=record.attempts if record else live.attempts if live else 0,
    )


def _end(live: LiveTrial | None, record: Record | None, state: State) -> datetime | None:
    """When it ended: a record tells of a success and of the last failure, the cluster of what is left there."""
    if record is not None and record.finished:
        return _time(record.facts.get("finished"))
    if live is not None and live.finished is not None:
        return live.finished
    return _time(record.failure.get("finished")) if record is not None and state == "failed" else None


def _told(live: LiveTrial | None, record: Record | None, sweep: Sweep, *, looked: bool) -> _Told:
    if record is not None and record.finished:
        return _Told(state="succeeded", reason="")
    if live is None:
        left = "its record was begun, but the cluster knows nothing of it" if record else ""
        return _Told(state="waiting", reason=left)
    if live.state == "failed":
        return _failed(record, live.reason, live.controller)
    if live.state == "gone":
        return _gone(record, sweep)
    if live.state == "succeeded" and looked:
        return _unrecorded(record, sweep)
    return _Told(state=live.state, reason=live.reason)


def _unrecorded(record: Record | None, sweep: Sweep) -> _Told:
    """What there is to say of a trial whose pod ended well, and whose record is not finished."""
    if not sweep.run.managed:
        return _Told(state="succeeded", reason=_LOG_GONE)
    if record is None:
        return _Told(state="succeeded", reason="its record is not on the volume any more")
    return _Told(state="stopped", reason="its set was taken out before it began")


def _gone(record: Record | None, sweep: Sweep) -> _Told:
    """What there is to say of a trial whose object is gone, and whose record is not finished."""
    if not sweep.run.managed:
        return _Told(state="stopped", reason="its object is gone, and nothing was kept of it: how it ended is unknown")
    if record is None:
        return _Told(state="stopped", reason="its object is gone, and it left no record: it did not begin")
    if record.failure.get("withdrawn"):
        return _Told(state="stopped", reason="its set was taken out, and `stop` named it")
    if record.failure:
        return _failed(record)
    return _failed(record, "its object is gone before it ended")


def _failed(record: Record | None, live: str = "", controller: str = "") -> _Told:
    """What ended a trial: its pod as the cluster has it, else its record, else the controller's words."""
    failure: Mapping[str, Any] = record.failure if record else {}
    recorded = f"crashed (exit {failure['exit_code']})" if "exit_code" in failure else ""
    if failure.get("stopped_by_sigterm"):
        recorded = "stopped by SIGTERM: evicted, deleted, or past its deadline"
    reason = live or recorded or controller or "nothing tells why"
    lines = failure.get("last_lines") or (record.last_lines if record else ())
    return _Told(state="failed", reason=reason, last_lines=tuple(map(str, lines))[-LAST_LINES:])


def _records(session: Session, sweep: Sweep, run_ids: Sequence[str]) -> dict[str, Record]:
    place = sweep.run.record
    if place is None or not sweep.run.managed:
        return {}
    with data_loader(session.settings, sweep.run.namespace, place.volume) as loader:
        with_logs = sweep.space.objective.metrics_format is not None
        return read_records(loader, place.path, run_ids, with_logs=with_logs)


def _metrics(record: Record, file: str, objective: Objective) -> tuple[tuple[Mapping[str, Any], ...], str]:
    """The lines of its metrics, of the file or of the log, and what is wrong with them."""
    text = record.metrics
    if objective.metrics_format is not None or not text:
        return collect(record.log, objective), ""
    if not record.finished and not text.endswith("\n"):
        # The last line is being written.
        text = text[: text.rfind("\n") + 1]
    try:
        return tuple(metrics_of(text, file)), ""
    except ReportError as error:
        return (), str(error)


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
