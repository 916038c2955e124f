"""Rules about names that are duplicate or reserved, or too long for the names and labels derived from them."""

from collections import Counter
from collections.abc import Iterable, Iterator

from trainstack.objects.labels import MAX_LABEL_CHARACTERS, PRIORITY
from trainstack.preflight.examples import hello, yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.preflight.rules.tenant import cluster_scoped_names
from trainstack.runs import names
from trainstack.runs.errors import ReservedVariableError, WorkloadError
from trainstack.runs.identity import PLACEHOLDER_FACTS
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.build import check_names, manifest
from trainstack.runs.manifests.sweep_pod import NUMBER_VARIABLE
from trainstack.runs.status.launch_kinds import launch_kind
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload

_ANY_DIGEST = "0" * 64
"""Placeholder. Derived names have the same length for all digests."""


@Rule(
    id="name-derived",
    summary="A launch, pod or Service would get an invalid name from the run's name.",
    details="Such names have at most 63 characters, and some must begin with a letter.",
    change=yaml_at(
        "workloads.runs",
        "- {name: 3d, from: hello, namespace: training, queue: training, kind: PyTorchJob, roles: {Master: {}}}",
    ),
    remedy="Shorten the name, or begin it with a letter.",
    silenceable=False,
)
def name_derived(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        prefix = run.name if path.startswith("sweeps.") else names.run_prefix(run)
        launch = names.launch_name(names.run_id(prefix, _ANY_DIGEST), _ANY_DIGEST)
        try:
            launch_manifest, _ = context.stack_objects.queued_objects(run)
        except WorkloadError:
            continue  # Other rules report it.
        try:
            check_names(run, launch, launch_manifest=launch_manifest)
        except WorkloadError as error:
            yield Violation(f"{path}.name", error.message, error.remedy)


@Rule(
    id="label-invalid",
    summary="The name of a run's priority class exceeds the 63 characters of a label value.",
    example="`priority: a-priority-class-with-a-name-of-more-than-sixty-three-characters`.",
    remedy="Use a class with a shorter name.",
    silenceable=False,
)
def label_invalid(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        if run.priority is not None and len(run.priority) > MAX_LABEL_CHARACTERS:
            message = (
                f"{run.priority} has {len(run.priority)} characters, but the label {PRIORITY} has at most "
                f"{MAX_LABEL_CHARACTERS}"
            )
            yield Violation(f"{path}.priority", message)


@Rule(
    id="env-reserved",
    summary="A run or a sweep sets an environment variable that Trainstack sets.",
    change=hello("env: {TRAINSTACK_OUTPUT: /mnt/out}"),
    remedy="Remove the variable, or rename it.",
    silenceable=False,
)
def env_reserved(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        try:
            manifest(run, context.settings.stack, Launch(run_id=run.name, name=run.name, facts=PLACEHOLDER_FACTS))
        except ReservedVariableError as error:
            yield Violation(f"{path}.env", error.message, error.remedy)
        except WorkloadError:
            continue  # Other rules report it.
    for path, sweep in context.sweeps():
        if sweep.form == "jobs" and NUMBER_VARIABLE in {*sweep.run.env, *sweep.run.referenced_variables}:
            message = f"sweep {sweep.name}: env sets {NUMBER_VARIABLE}, which is reserved for its trials"
            yield Violation(f"{path}.run.env", message)


@Rule(
    id="name-duplicate",
    summary="A list has two elements of the same name.",
    details="Volumes, local queues and Secrets are unique in their namespace.",
    example="A run named `search-1` like the first trial of a sweep with fixed names.",
    remedy="Rename or remove all but one. Two runs of one workload have their own names and `from:`.",
    silenceable=False,
)
def name_duplicate(context: RuleContext) -> Iterator[Violation]:
    for path, listed_names in _name_lists(context.settings):
        for name, count in Counter(listed_names).items():
            if count > 1:
                yield Violation(path, f"{name} is listed {count} times", "rename or remove all but one")


def _name_lists(settings: Settings) -> Iterator[tuple[str, Iterable[str]]]:
    yield from cluster_scoped_names(settings).items()
    yield "storage.volumes", (f"{volume.namespace}/{volume.name}" for volume in settings.mountable_volumes)
    yield "queues.localQueues", (f"{queue.namespace}/{queue.name}" for queue in settings.queues.local_queues)
    yield "secrets.secrets", (f"{secret.namespace}/{secret.name}" for secret in settings.secrets.secrets)
    yield "workloads.runs", (run.name for run in settings.workloads.runs)
    yield "sweeps.sweeps", (sweep.name for sweep in settings.sweeps.sweeps)
    yield "sweeps.sweeps", _fixed_names(settings)
    yield "plan.prices", (price.name for price in settings.plan.prices)


def _fixed_names(settings: Settings) -> Iterator[str]:
    """Yield the objects of trials with fixed names, and those of runs that have the same name as one of them."""
    trial_objects = [
        _qualified_name(sweep.run, f"{sweep.name}-{trial.number}")
        for sweep in settings.sweeps.sweeps
        for trial in (sweep.expansion.sets if sweep.expansion and sweep.run.naming == "fixed" else ())
    ]
    yield from trial_objects
    for run in settings.workloads.runs:
        if run.naming == "fixed" and (run_object := _qualified_name(run, names.own_name(run))) in trial_objects:
            yield run_object


def _qualified_name(run: Workload, name: str) -> str:
    return f"{launch_kind(run)} {run.namespace}/{name}"
