"""The rule about TrainJobs and the limits of Trainer's releases. The rule builds all TrainJobs."""

from collections.abc import Iterator
from typing import Any

from semver import Version

from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import EnvironmentContext, RuleContext
from trainstack.runs.errors import WorkloadError
from trainstack.versions import parse_release

_FIRST_RELEASE_WITH_LIMITS = Version(2, 2, 0)
_FIRST_RELEASE_WITH_LONG_ARGUMENTS = Version(2, 3, 0)
"""First release that accepts arguments as long as Linux does."""
_MAX_ENTRIES = 128
"""The number of entries of `command`, of `args` and of `env`."""
_MAX_ARGUMENT_CHARACTERS = 65_536
"""The length of an argument before _FIRST_RELEASE_WITH_LONG_ARGUMENTS."""


@Rule(
    id="trainjob-limit",
    summary="A TrainJob has more arguments or variables, or longer arguments, than its release of Trainer accepts.",
    details=(
        "From v2.2 on, `command`, `args` and `env` have at most 128 entries each, also those that Trainstack adds: the "
        "command of a managed run contains its arguments. In v2.2, an argument has at most 65,536 characters. Source: "
        "the CustomResourceDefinition of TrainJobs."
    ),
    example="A managed TrainJob with 130 arguments, and Trainer v2.3.",
    remedy="Move arguments or variables into a file in the image or on a volume, or use `kind: PyTorchJob`.",
    silenceable=False,
)
def trainjob_limit(context: RuleContext) -> Iterator[Violation]:
    if trainer := context.settings.operators.trainer:
        yield from find_exceeded_limits(context, trainer.manifest.version)


def find_exceeded_limits(context: EnvironmentContext, release: str) -> Iterator[Violation]:
    """Yield the TrainJobs that a release of Trainer refuses. `release`: such as `v2.3.0`; other texts have no limit."""
    version = parse_release(release)
    if version is None or version < _FIRST_RELEASE_WITH_LIMITS:
        return
    for path, run in context.runs():
        if run.kind == "TrainJob":
            try:
                trainjob, _ = context.stack_objects.queued_objects(run)
            except WorkloadError:
                continue  # Another rule reports it.
            for message in _exceeded_limits(trainjob["spec"]["trainer"], version):
                yield Violation(path, f"Trainer {release} refuses its {message}")


def _exceeded_limits(trainer: dict[str, Any], version: Version) -> Iterator[str]:
    for field in ("command", "args", "env"):
        if (count := len(trainer.get(field) or ())) > _MAX_ENTRIES:
            yield f"{field} of {count:,} entries; the limit is {_MAX_ENTRIES}"
    if version < _FIRST_RELEASE_WITH_LONG_ARGUMENTS:
        for text in (*(trainer.get("command") or ()), *(trainer.get("args") or ())):
            if len(text) > _MAX_ARGUMENT_CHARACTERS:
                yield f"argument of {len(text):,} characters; the limit is {_MAX_ARGUMENT_CHARACTERS:,}"
