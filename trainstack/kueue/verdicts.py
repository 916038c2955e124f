"""The verdicts on an environment's runs, with remedies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainstack.declared.declared import Declared
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.from_objects import declared_model, declared_objects
from trainstack.kueue.model import Model, Workload
from trainstack.kueue.releases import declared_release, for_release
from trainstack.kueue.remedies import remedies
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.what_if import WhatIf
from trainstack.kueue.workloads import declared_workloads
from trainstack.settings.model import Settings


def declared_verdicts(declared: Declared) -> list[Verdict]:
    """Return the verdicts on an environment's queued runs, on an idle cluster."""
    model = declared_model(declared)
    return idle_verdicts(declared, model, declared_workloads(declared, model))


def idle_verdicts(declared: Declared, model: Model, workloads: Sequence[Workload]) -> list[Verdict]:
    """Return the verdicts on an environment's workloads, which wait together, on an idle cluster."""
    simulator = AdmissionSimulator(model, pending=workloads)
    verdicts = for_release(map(simulator.verdict, workloads), declared_release(declared.settings))
    return list(with_remedies(verdicts, workloads, declared.settings, model, declared_objects(declared)))


def with_remedies(
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
