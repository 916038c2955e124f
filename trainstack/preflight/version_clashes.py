"""Operator versions that do not work with each other, or lack a feature that runs require."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from semver import Version

from trainstack.preflight.rule import Severity
from trainstack.settings.sections.workloads import Workload

MIN_KUEUE_VERSION = Version(0, 15, 0)
"""First Kueue version that serves kueue.x-k8s.io/v1beta2. Source: its CHANGELOG-0.15."""
_PLACEMENT_FIELDS: Mapping[str, Sequence[tuple[Version, str]]] = {
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
_MIN_KUEUE_COUNTING_NODES = Version(0, 15, 1)
"""First Kueue version that counts the nodes of a TrainJob. Source: https://github.com/kubernetes-sigs/kueue/pull/8145"""
_MIN_JOBSET_WITH_DEPENDS_ON = Version(0, 8, 0)
"""First JobSet version with `dependsOn`. Source: https://github.com/kubernetes-sigs/jobset/issues/774"""


@dataclass(frozen=True)
class VersionClash:
    operators: tuple[str, ...]
    """Keys of `preflight.operator_facts.OPERATORS`. Another version of any of these operators resolves the clash."""
    severity: Severity
    message: str
    remedy: str


def find_clashes(versions: Mapping[str, Version], runs: Sequence[Workload]) -> Iterator[VersionClash]:
    """Yield the known clashes of operator versions with each other and with these runs.

    `versions`: without pre-releases, by key of `preflight.operator_facts.OPERATORS`; an operator of unknown version is
    left out.
    """
    trainjobs = [run for run in runs if run.kind == "TrainJob" and run.queue is not None]
    kueue, trainer, jobset = (versions.get(name) for name in ("kueue", "trainer", "jobset"))
    if kueue and kueue < MIN_KUEUE_VERSION:
        message = f"Kueue v{kueue} does not serve kueue.x-k8s.io/v1beta2"
        yield VersionClash(("kueue",), "error", message, f"use Kueue v{MIN_KUEUE_VERSION} or later")
    # A Kueue that does not serve our API version is reported above, whatever Trainer reads.
    elif kueue and trainer and trainjobs:
        kueue_field, trainer_field = _placement_field("kueue", kueue), _placement_field("trainer", trainer)
        if kueue_field != trainer_field:
            message = (
                f"Kueue v{kueue} places TrainJobs with {kueue_field}, but Trainer v{trainer} reads {trainer_field}: "
                "a queued TrainJob would never start"
            )
            remedy = "use Trainer v2.1 with Kueue v0.15 or v0.16, or Trainer v2.2 or later with Kueue v0.17 or later"
            yield VersionClash(("trainer", "kueue"), "error", message, remedy)
    if (
        kueue
        and MIN_KUEUE_VERSION <= kueue < _MIN_KUEUE_COUNTING_NODES
        and any(_pod_count(run) > 1 for run in trainjobs)
    ):
        message = f"Kueue v{kueue} miscounts the nodes of a TrainJob: its quota is not enforced"
        yield VersionClash(("kueue",), "warning", message, f"use Kueue v{_MIN_KUEUE_COUNTING_NODES} or later")
    if (
        jobset
        and jobset < _MIN_JOBSET_WITH_DEPENDS_ON
        and any(job.depends_on for run in runs for job in run.replicated_jobs)
    ):
        message = f"JobSet v{jobset} does not support dependsOn: all Jobs of a JobSet would start at once"
        yield VersionClash(("jobset",), "error", message, f"use JobSet v{_MIN_JOBSET_WITH_DEPENDS_ON} or later")


def _placement_field(operator: str, version: Version) -> str:
    return max(
        ((first_version, name) for first_version, name in _PLACEMENT_FIELDS[operator] if first_version <= version),
        default=(Version(0), "no field"),
    )[1]


def _pod_count(run: Workload) -> int:
    return sum(role.replicas for role in run.roles.values())
