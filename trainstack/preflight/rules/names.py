"""Names: each its own, and none too long for what is named after it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from trainstack.objects.labels import LIMIT, PRIORITY
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene, each
from trainstack.runs import names
from trainstack.runs.errors import ReservedVariableError, WorkloadError
from trainstack.runs.identity import UNKNOWN_FACTS
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.build import check_names, manifest
from trainstack.runs.manifests.trial_pod import NUMBER
from trainstack.runs.status.kinds import launched_as
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload

_ANY_DIGEST = "0" * 64
"""Stands for digests that only a build knows: names of all digests are of one length."""
"""What the names of variables do not depend on."""


@Rule(
    id="name-derived",
    severity="error",
    summary="A name that is derived from the run's name is not valid.",
    details=(
        "Launches, pods and Services get such names. They have at most 63 characters, and some must begin with a "
        "letter."
    ),
    change="""
        trainstack:workloads:
          runs:
            - {name: 3d, from: digits, namespace: research, queue: research}
    """,
    remedy="Shorten the name, or begin it with a letter.",
    silenceable=False,
)
def name_derived(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        launch = names.launch_name(names.run_id(run.name, _ANY_DIGEST), _ANY_DIGEST)
        try:
            check_names(run, launch)
        except WorkloadError as error:
            message, _, remedy = str(error).rpartition("; ")
            yield Violation(f"{path}.name", message, remedy)


@Rule(
    id="label-invalid",
    severity="error",
    summary="The name of a run's priority class has more than 63 characters.",
    details=(
        "Kueue reads the class from a label. The value of a label has at most 63 characters, and the API server "
        "refuses a longer one."
    ),
    change="""
        trainstack:queues:
          priorityClasses:
            - {name: a-priority-class-whose-name-is-longer-than-the-value-of-any-label, value: 1}
        trainstack:workloads:
          runs:
            - {name: digits, priority: a-priority-class-whose-name-is-longer-than-the-value-of-any-label}
    """,
    remedy="Use a class with a shorter name.",
    silenceable=False,
)
def label_invalid(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        if run.priority is not None and len(run.priority) > LIMIT:
            message = f"{run.priority} has {len(run.priority)} characters, but the label {PRIORITY} has at most {LIMIT}"
            yield Violation(f"{path}.priority", message, "use a class with a shorter name")


@Rule(
    id="env-reserved",
    severity="error",
    summary="A run or a sweep sets an environment variable that Trainstack sets in its pods.",
    details="The object cannot be built.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, env: {TRAINSTACK_OUTPUT: /mnt/out}}
    """,
    remedy="Remove the variable, or choose another name.",
    silenceable=False,
)
def env_reserved(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        try:
            manifest(run, scene.settings.stack, Launch(run_id=run.name, name=run.name, facts=UNKNOWN_FACTS))
        except ReservedVariableError as error:
            message, _, remedy = str(error).rpartition("; ")
            yield Violation(f"{path}.env", message, remedy)
        except WorkloadError:
            continue  # Other rules report it.
    for path, sweep in each("sweeps.sweeps", scene.settings.sweeps.sweeps):
        if sweep.form == "jobs" and NUMBER in {*sweep.run.env, *sweep.run.secret_env}:
            message = f"sweep {sweep.name}: env sets {NUMBER}, which is reserved for its trials"
            yield Violation(f"{path}.run.env", message, "drop it or choose another name")


@Rule(
    id="name-duplicate",
    severity="error",
    summary="A list has two elements of the same name.",
    details="Names of volumes and local queues are unique in their namespace.",
    example="A sweep whose trials have fixed names, and a run named `search-1` like its first trial.",
    remedy="Rename or remove all but one. Two runs of one workload have their own names and `from: <workload>`.",
    silenceable=False,
)
def name_duplicate(scene: Scene) -> Iterator[Violation]:
    for path, listed in _lists(scene):
        for name, count in Counter(listed).items():
            if count > 1:
                message = f"{name} is there {count} times"
                yield Violation(path, message, "rename or drop all but one")


def _lists(scene: Scene) -> Iterator[tuple[str, Iterable[str]]]:
    settings = scene.settings
    storage, queues = settings.storage, settings.queues
    yield "environment.namespaces", (one.name for one in settings.environment.namespaces)
    yield "storage.classes", (one.name for one in storage.classes)
    yield "storage.persistentVolumes", (one.name for one in storage.persistent_volumes)
    yield "storage.volumes", (f"{one.namespace}/{one.name}" for one in storage.volumes)
    yield "queues.flavors", (one.name for one in queues.flavors)
    yield "queues.cohorts", (one.name for one in queues.cohorts)
    yield "queues.clusterQueues", (one.name for one in queues.cluster_queues)
    yield "queues.localQueues", (f"{one.namespace}/{one.name}" for one in queues.local_queues)
    yield "queues.priorityClasses", (one.name for one in queues.priority_classes)
    yield "secrets.secrets", (f"{one.namespace}/{one.name}" for one in settings.secrets.secrets)
    yield "tenants.teams", (one.name for one in settings.tenants.teams)
    yield "workloads.runs", (one.name for one in settings.workloads.runs)
    yield "sweeps.sweeps", (one.name for one in settings.sweeps.sweeps)
    yield "sweeps.sweeps", _fixed_names(settings)
    yield "plan.prices", (one.name for one in settings.plan.prices)


def _fixed_names(settings: Settings) -> Iterator[str]:
    """The objects of trials with fixed names, and of the runs whose names could be theirs."""
    trials = [
        _object(sweep.run, f"{sweep.name}-{one.number}")
        for sweep in settings.sweeps.sweeps
        for one in (sweep.expansion.sets if sweep.expansion and sweep.run.naming == "fixed" else ())
    ]
    yield from trials
    for run in settings.workloads.runs:
        if run.naming == "fixed" and (named := _object(run, run.name)) in trials:
            yield named


def _object(run: Workload, name: str) -> str:
    return f"{launched_as(run)} {run.namespace}/{name}"


RULES: tuple[Check[Scene], ...] = (name_derived, label_invalid, env_reserved, name_duplicate)
