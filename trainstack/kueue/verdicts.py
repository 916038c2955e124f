"""The verdicts on an environment's runs, with remedies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.from_objects import admission_objects, stack_model
from trainstack.kueue.model import Model, Workload
from trainstack.kueue.releases import release_from_settings, verdicts_for_release
from trainstack.kueue.remedies import remedies
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.what_if import WhatIf
from trainstack.kueue.workloads import run_workloads
from trainstack.settings.model import Settings
from trainstack.stack_objects.stack_objects import StackObjects


def stack_verdicts(stack_objects: StackObjects) -> list[Verdict]:
    """Return the verdicts on an environment's queued runs, on an idle cluster."""
    model = stack_model(stack_objects)
    return idle_verdicts(stack_objects, model, run_workloads(stack_objects, model))


def idle_verdicts(stack_objects: StackObjects, model: Model, workloads: Sequence[Workload]) -> list[Verdict]:
    """Return the verdicts on an environment's workloads on an idle cluster.

    Those that never fit wait together, and may hold up others.
    """
    simulator = AdmissionSimulator(model)
    verdicts = [simulator.idle_verdict(workload) for workload in workloads]
    in_order = [replace(workload, created=float(number)) for number, workload in enumerate(workloads)]
    stuck_workloads = [
        workload
        for workload, verdict in zip(in_order, verdicts, strict=True)
        if verdict.outcome == "never fits" and verdict.cluster_queue
    ]
    if stuck_workloads:
        verdicts = list(map(AdmissionSimulator(model, pending=stuck_workloads).verdict, in_order))
    verdicts = verdicts_for_release(verdicts, release_from_settings(stack_objects.settings))
    return list(add_remedies(verdicts, workloads, stack_objects.settings, model, admission_objects(stack_objects)))


def add_remedies(
    verdicts: Iterable[Verdict],
    workloads: Sequence[Workload],
    settings: Settings,
    model: Model,
    objects: Iterable[Mapping[str, Any]],
) -> Iterator[Verdict]:
    """Yield the verdicts on runs of the settings, with remedies for those that never fit.

    `objects`: what `model` was read from.
    """
    queues = {body["metadata"]["name"]: body for body in objects if body["kind"] == "ClusterQueue"}
    what_if = WhatIf(settings, model, queues)
    for verdict, workload in zip(verdicts, workloads, strict=True):
        # Kueue's own code gives no reasons from which to search.
        needs_remedies = verdict.outcome == "never fits" and not verdict.judged_by
        yield replace(verdict, remedies=remedies(what_if, workload, verdict)) if needs_remedies else verdict
