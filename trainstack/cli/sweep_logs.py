"""Results of unmanaged trials, read from their pods' logs and saved in their ledgers, which outlive the pods."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trainstack.cli.output.console import err
from trainstack.cli.session import Session
from trainstack.live.sweeps import read_trial_logs
from trainstack.objects.labels import OUTCOME
from trainstack.runs.logs.metrics_collector import collect_metrics
from trainstack.runs.logs.printed_numbers import Figure
from trainstack.settings.sections.sweeps import Sweep
from trainstack.sweeps.search.ranking import thin_metrics
from trainstack.sweeps.status import LiveTrial, SweepObjects, trial_clusters, trial_pods
from trainstack.transfer.kubectl import run_kubectl
from trainstack.transfer.trial_records import last_lines

_MAX_METRICS, _MAX_FIGURES, _MAX_CHARACTERS = 100, 16, 48
"""Saved lines of metrics per trial, metrics per line, and characters of a metric's name: every command that reads runs
reads all ledgers, and the annotations of an object are limited to 256 KiB."""
_MAX_LAST_LINES_CHARACTERS = 8_192
"""Characters at the end of a log that are searched for a failed trial's last lines."""
_FIELD_MANAGER = "trainstack-outcome"
"""Not the engine's, which ignores fields of other managers."""


class Outcome(BaseModel):
    """A trial's state and metrics, from its object and its log."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    launch: str
    """The trial's launch; results of earlier launches are ignored."""
    metric: str
    metrics_format: str | None
    """The objective's format when the log was read."""
    state: Literal["running", "succeeded", "failed"]
    reason: str = ""
    started: datetime | None = None
    finished: datetime | None = None
    attempts: int = 0
    metrics: tuple[Mapping[str, Any], ...] = ()
    last_lines: tuple[str, ...] = ()
    """Of a failed trial."""


class TrialLogs:
    """Reads the logs of a sweep's unmanaged trials, once per ended trial."""

    def __init__(self, session: Session, sweep: Sweep) -> None:
        self.session, self.sweep = session, sweep
        self._read_outcomes: dict[str, Outcome] = {}
        self._may_not_save = False
        self._reported_problems: set[str] = set()

    def outcomes(
        self, objects: SweepObjects, live_by_run_id: Mapping[str, LiveTrial], *, include_running: bool
    ) -> Mapping[str, Outcome]:
        """Return the outcomes in logs and ledgers by run id; {} for a managed sweep. Raises ClusterError.

        Saves the outcomes of newly ended trials in their ledgers. `include_running`: also those of running trials.
        """
        if self.sweep.run.managed:
            return {}
        launches = {ledger.run_id: ledger.launch_name for ledger in objects.ledgers}
        saved_outcomes = {
            run_id: outcome for run_id in launches if (outcome := _saved_outcome(objects, run_id)) is not None
        }
        earlier_outcomes = {**saved_outcomes, **self._read_outcomes}
        # A trial that was launched again has another log.
        earlier_outcomes = {
            run_id: outcome for run_id, outcome in earlier_outcomes.items() if outcome.launch == launches.get(run_id)
        }
        states = {"succeeded", "failed", *(("running",) if include_running else ())}
        # Only logs that may have changed are read.
        pods = {
            run_id: pod
            for run_id, pod in trial_pods(objects).items()
            if run_id in launches
            and live_by_run_id[run_id].state in states
            and not self._is_settled(run_id, earlier_outcomes.get(run_id))
        }
        new_outcomes, problem = read_trial_logs(
            pods,
            trial_clusters(objects),
            self.session.settings,
            lambda run_id, log: self._make_outcome(live_by_run_id[run_id], launches[run_id], log),
        )
        if problem and problem not in self._reported_problems:
            self._reported_problems.add(problem)
            err.print(f"some logs of {self.sweep.name} cannot be read: {problem}", style="yellow")
        ended_outcomes = {run_id: outcome for run_id, outcome in new_outcomes.items() if outcome.state != "running"}
        self._read_outcomes |= ended_outcomes
        self._save(
            objects,
            {run_id: outcome for run_id, outcome in ended_outcomes.items() if outcome != saved_outcomes.get(run_id)},
        )
        return {
            run_id: self._without_other_format(outcome)
            for run_id, outcome in {**earlier_outcomes, **new_outcomes}.items()
        }

    def _is_settled(self, run_id: str, outcome: Outcome | None) -> bool:
        """Return whether this command has read the log, or the ledger has metrics for the current objective."""
        if outcome is None or run_id in self._read_outcomes:
            return outcome is not None
        return bool(outcome.metrics) and self._is_current(outcome) and outcome.metric == self._metric

    def _is_current(self, outcome: Outcome) -> bool:
        return outcome.metrics_format == self.sweep.space.objective.metrics_format

    @property
    def _metric(self) -> str:
        return self.sweep.space.objective.metric

    def _without_other_format(self, outcome: Outcome) -> Outcome:
        """Drop metrics that were read in another format."""
        if self._is_current(outcome):
            return outcome
        reason = "its log was read with another metricsFormat and is no longer available"
        return outcome.model_copy(update={"metrics": (), "reason": outcome.reason or reason})

    def _make_outcome(self, live_trial: LiveTrial, launch: str, log: str) -> Outcome:
        objective = self.sweep.space.objective
        if live_trial.state not in ("running", "succeeded", "failed"):
            raise AssertionError(live_trial.state)
        return Outcome(
            launch=launch,
            metric=objective.metric,
            metrics_format=objective.metrics_format,
            state=live_trial.state,
            reason=live_trial.reason or (live_trial.controller if live_trial.state == "failed" else ""),
            started=live_trial.started,
            finished=live_trial.finished,
            attempts=live_trial.attempts,
            metrics=tuple(map(self._shorten, thin_metrics(collect_metrics(log, objective), objective, _MAX_METRICS))),
            last_lines=last_lines(log[-_MAX_LAST_LINES_CHARACTERS:]) if live_trial.state == "failed" else (),
        )

    def _shorten(self, line: Mapping[str, Figure]) -> dict[str, Figure]:
        """Keep the objective and as many other metrics as fit into an annotation."""
        first_keys = [key for key in ("epoch", self._metric) if key in line]
        other_keys = [key for key in line if key not in first_keys and len(key) <= _MAX_CHARACTERS]
        return {key: line[key] for key in (*first_keys, *other_keys[: _MAX_FIGURES - len(first_keys)])}

    def _save(self, objects: SweepObjects, outcomes: Mapping[str, Outcome]) -> None:
        """Annotate the ledgers; without the right to do so, print a warning, since the outcomes are still shown."""
        if not outcomes or self._may_not_save:
            return
        patches = [_patch(objects.ledger_metadata[run_id], outcome) for run_id, outcome in outcomes.items()]
        arguments = ("apply", "--server-side", "--force-conflicts", f"--field-manager={_FIELD_MANAGER}", "-f", "-")
        body = {"apiVersion": "v1", "kind": "List", "items": patches}
        result = run_kubectl(*arguments, context=self.session.settings.cluster.context, stdin=json.dumps(body).encode())
        if result.returncode:
            reason = result.stderr.decode(errors="replace").strip().partition("\n")[0]
            self._may_not_save = "forbidden" in reason.lower()
            right = f" as a user who may patch ConfigMaps in {self.sweep.run.namespace}" if self._may_not_save else ""
            err.print(
                f"the results of up to {len(outcomes)} trials could not be saved in their ledgers: {reason}; before "
                f"the pods are deleted, run the command again{right}",
                style="yellow",
            )


def _saved_outcome(objects: SweepObjects, run_id: str) -> Outcome | None:
    """Return the outcome in the trial's ledger; None if it is missing or was edited."""
    text = (objects.ledger_metadata.get(run_id, {}).get("annotations") or {}).get(OUTCOME)
    try:
        return None if text is None else Outcome.model_validate_json(text)
    except ValidationError:
        return None


def _patch(ledger: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    # The uid prevents the creation of a ledger that was deleted meanwhile.
    identity = {key: ledger[key] for key in ("name", "namespace", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**identity, "annotations": {OUTCOME: outcome.model_dump_json()}},
    }
