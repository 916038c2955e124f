"""Operator versions that do not work with each other, or lack a feature that runs require."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from semver import Version

from trainstack.preflight.rule import Severity
from trainstack.settings.sections.workloads import Workload

KUEUE_FIRST = Version(0, 15, 0)
"""First Kueue version that serves kueue.x-k8s.io/v1beta2. Source: its CHANGELOG-0.15."""
_PLACING: Mapping[str, Sequence[tuple[Version, str]]] = {
    "kueue": ((Version(0, 15, 0), "podTemplateOverrides"), (Version(0, 17, 0), "runtimePatches")),
    "trainer": (
        (Version(2, 0, 0), "podSpecOverrides"),
        (Version(2, 1, 0), "podTemplateOverrides"),
        (Version(2, 2, 0), "runtimePatches"),
    ),
}
"""TrainJob fields with the placement of pods, by operator, with the first version that uses the field. Trainer drops
an unknown field without an error, and the TrainJob stays suspended.
Source: https://github.com/kubernetes-sigs/kueue/issues/14722 and 11931."""
_COUNTS_NODES = Version(0, 15, 1)
"""First Kueue version that counts the nodes of a TrainJob. Source: https://github.com/kubernetes-sigs/kueue/pull/8145"""
_DEPENDS_ON = Version(0, 8, 0)
"""First JobSet version with `dependsOn`. Source: https://github.com/kubernetes-sigs/jobset/issues/774"""


@dataclass(frozen=True)
class Clash:
    operators: tuple[str, ...]
    """Keys of `preflight.operator_facts.OPERATORS`. Another version of any of these operators resolves the clash."""
    severity: Severity
    message: str
    remedy: str


def clashes(versions: Mapping[str, Version], runs: Sequence[Workload]) -> Iterator[Clash]:
    """Yield the known clashes of operator versions with each other and with these runs.

    `versions`: without pre-releases, by key of `preflight.operator_facts.OPERATORS`; an operator of unknown version is
    left out.
    """
    trainjobs = [run for run in runs if run.kind == "TrainJob" and run.queue is not None]
    kueue, trainer, jobset = (versions.get(name) for name in ("kueue", "trainer", "jobset"))
    if kueue and kueue < KUEUE_FIRST:
        message = f"Kueue v{kueue} does not serve kueue.x-k8s.io/v1beta2"
        yield Clash(("kueue",), "error", message, f"use Kueue v{KUEUE_FIRST} or later")
    # A Kueue that does not serve our API version is reported above, whatever Trainer reads.
    elif kueue and trainer and trainjobs:
        written, read = _field("kueue", kueue), _field("trainer", trainer)
        if written != read:
            message = (
                f"Kueue v{kueue} places TrainJobs with {written}, but Trainer v{trainer} reads {read}: "
                "a queued TrainJob would never start"
            )
            remedy = "use Trainer v2.1 with Kueue v0.15 or v0.16, or Trainer v2.2 or later with Kueue v0.17 or later"
            yield Clash(("trainer", "kueue"), "error", message, remedy)
    if kueue and KUEUE_FIRST <= kueue < _COUNTS_NODES and any(_pods(run) > 1 for run in trainjobs):
        message = f"Kueue v{kueue} miscounts the nodes of a TrainJob: its quota is not enforced"
        yield Clash(("kueue",), "warning", message, f"use Kueue v{_COUNTS_NODES} or later")
    if jobset and jobset < _DEPENDS_ON and any(job.depends_on for run in runs for job in run.replicated_jobs):
        message = f"JobSet v{jobset} does not support dependsOn: all Jobs of a JobSet would start at once"
        yield Clash(("jobset",), "error", message, f"use JobSet v{_DEPENDS_ON} or later")


def _field(operator: str, version: Version) -> str:
    return max(
        ((since, name) for since, name in _PLACING[operator] if since <= version), default=(Version(0), "no field")
    )[1]


def _pods(run: Workload) -> int:
    return sum(role.replicas for role in run.roles.values())
