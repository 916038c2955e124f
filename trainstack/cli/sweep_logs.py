"""The outcomes of unmanaged trials: read from their pods' logs, and kept in their ledgers, since pods do not last."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trainstack.cli.console import err
from trainstack.cli.session import Session
from trainstack.live.sweeps import read_trial_logs
from trainstack.objects.labels import OUTCOME
from trainstack.runs.logs.metrics_collector import collect
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.search.ranking import thinned
from trainstack.sweeps.status import LiveTrial, SweepObjects, trial_pods
from trainstack.transfer.kubectl import kubectl
from trainstack.transfer.trial_records import last_lines

_MOST_METRICS, _MOST_FIGURES, _MOST_CHARACTERS = 100, 16, 48
"""Lines of a trial's metrics that are kept, figures of a line, and characters of a figure's name: each command that
reads runs reads all ledgers, and the annotations of an object have at most 256 KiB."""
_MOST_OF_LAST_LINES = 8_192
"""Characters at the end of a log in which a failed trial's last lines are."""
_FIELD_MANAGER = "trainstack-outcome"
"""Not the engine's: it leaves alone what another manager adds."""


class Outcome(BaseModel):
    """How a trial goes, or went, by its object and its log."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    launch: str
    """The trial's launch; of an earlier one nothing counts any more."""
    metric: str
    metrics_format: str | None
    """The objective's, by which the log was read."""
    state: Literal["running", "succeeded", "failed"]
    reason: str = ""
    started: datetime | None = None
    finished: datetime | None = None
    attempts: int = 0
    metrics: tuple[Mapping[str, Any], ...] = ()
    last_lines: tuple[str, ...] = ()
    """Of a trial that failed."""


class TrialLogs:
    """The logs of a sweep's unmanaged trials; remembers those that it has read, for who looks again and again."""

    def __init__(self, session: Session, sweep: Sweep) -> None:
        """Nothing is read yet."""
        self.session, self.sweep = session, sweep
        self._read: dict[str, Outcome] = {}
        self._refused = False
        self._warned: set[str] = set()

    def outcomes(self, objects: SweepObjects, live: Mapping[str, LiveTrial], *, running: bool) -> Mapping[str, Outcome]:
        """The outcomes by run id, as far as logs tell or ledgers have kept them; none of a managed sweep.

        Logs are read of trials that have ended since, and kept. `running`: also of those that run; they are not kept.

        Raises ClusterError.
        """
        if self.sweep.run.managed:
            return {}
        launches = {ledger.run_id: ledger.launch_name for ledger in objects.ledgers}
        kept = {run_id: found for run_id in launches if (found := _kept(objects, run_id)) is not None}
        known = {**kept, **self._read}
        known = {run_id: found for run_id, found in known.items() if found.launch == launches.get(run_id)}
        states = {"succeeded", "failed", *(("running",) if running else ())}
        pods = {
            run_id: pod
            for run_id, pod in trial_pods(objects).items()
            if run_id in launches and live[run_id].state in states and not self._is_settled(run_id, known.get(run_id))
        }
        read, problem = read_trial_logs(
            pods,
            self.session.settings.cluster.context,
            lambda run_id, log: self._outcome(live[run_id], launches[run_id], log),
        )
        if problem and problem not in self._warned:
            self._warned.add(problem)
            err.print(f"logs of {self.sweep.name} are not read: {problem}", style="yellow", markup=False)
        new = {run_id: each for run_id, each in read.items() if each.state != "running"}
        self._read |= new
        self._keep(objects, {run_id: each for run_id, each in new.items() if each != kept.get(run_id)})
        return {run_id: self._as_read_now(found) for run_id, found in {**known, **read}.items()}

    def _is_settled(self, run_id: str, found: Outcome | None) -> bool:
        """Whether its log was read by this command, or by an earlier one for the present objective and with metrics."""
        if found is None or run_id in self._read:
            return found is not None
        return bool(found.metrics) and self._is_current(found) and found.metric == self._metric

    def _is_current(self, found: Outcome) -> bool:
        return found.metrics_format == self.sweep.space.objective.metrics_format

    @property
    def _metric(self) -> str:
        return self.sweep.space.objective.metric

    def _as_read_now(self, found: Outcome) -> Outcome:
        """Without the metrics of another format: the pod is gone, and they are not what is asked for."""
        if self._is_current(found):
            return found
        reason = "its log was read by another metricsFormat, and is gone"
        return found.model_copy(update={"metrics": (), "reason": found.reason or reason})

    def _outcome(self, live: LiveTrial, launch: str, log: str) -> Outcome:
        objective = self.sweep.space.objective
        if live.state not in ("running", "succeeded", "failed"):
            raise AssertionError(live.state)
        return Outcome(
            launch=launch,
            metric=objective.metric,
            metrics_format=objective.metrics_format,
            state=live.state,
            reason=live.reason or (live.controller if live.state == "failed" else ""),
            started=live.started,
            finished=live.finished,
            attempts=live.attempts,
            metrics=tuple(map(self._shortened, thinned(collect(log, objective), objective, _MOST_METRICS))),
            last_lines=last_lines(log[-_MOST_OF_LAST_LINES:]) if live.state == "failed" else (),
        )

    def _shortened(self, line: Mapping[str, float]) -> dict[str, float]:
        """The line with the objective and as many other figures as an annotation has room for."""
        first = [key for key in ("epoch", self._metric) if key in line]
        others = [key for key in line if key not in first and len(key) <= _MOST_CHARACTERS]
        return {key: line[key] for key in (*first, *others[: _MOST_FIGURES - len(first)])}

    def _keep(self, objects: SweepObjects, outcomes: Mapping[str, Outcome]) -> None:
        """Annotate the ledgers. Whoever may not still sees the outcomes, as long as the pods are there."""
        if not outcomes or self._refused:
            return
        patches = [_patch(objects.ledger_metadata[run_id], outcome) for run_id, outcome in outcomes.items()]
        words = ("apply", "--server-side", "--force-conflicts", f"--field-manager={_FIELD_MANAGER}", "-f", "-")
        body = {"apiVersion": "v1", "kind": "List", "items": patches}
        done = kubectl(*words, context=self.session.settings.cluster.context, stdin=json.dumps(body).encode())
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().partition("\n")[0]
            self._refused = "forbidden" in reason.lower()
            remedy = "run the command again before the pods are removed"
            if self._refused:
                remedy = (
                    f"somebody who may patch ConfigMaps in {self.sweep.run.namespace} keeps them by this command, "
                    "before the pods are removed"
                )
            err.print(
                f"results of up to {len(outcomes)} trials, read from their pods' logs, could not be kept: {reason}; "
                f"{remedy}",
                style="yellow",
                markup=False,
            )


def _kept(objects: SweepObjects, run_id: str) -> Outcome | None:
    """What the ledger has of the trial; None also where somebody has edited it."""
    text = (objects.ledger_metadata.get(run_id, {}).get("annotations") or {}).get(OUTCOME)
    try:
        return None if text is None else Outcome.model_validate_json(text)
    except ValidationError:
        return None


def _patch(ledger: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    # With the uid nothing is created where the ledger has gone meanwhile.
    named = {key: ledger[key] for key in ("name", "namespace", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**named, "annotations": {OUTCOME: outcome.model_dump_json()}},
    }
