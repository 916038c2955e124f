"""Sweeps: their committed sets are those of their space, and cost no more than they may."""

from collections.abc import Iterator
from fractions import Fraction

from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene, each
from trainstack.runs.parameter_file import TooManySetsError, check_size
from trainstack.runs.status.run_pods import pod_sets
from trainstack.settings.search_space.hyperparams import SETS_FILE, SPACE_FILE, folder, numbered, space_digest
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.values.quantities import amount

_HOUR = 3600


@Rule(
    id="sweep-stale",
    severity="error",
    summary="The `hyperparams.yml` of a sweep is missing, was edited by hand, or does not match its `space.yaml`.",
    details=(
        "The file is what is launched and what a reviewer reads. `trainstack sweep expand --check` also draws all "
        "sets again and compares them."
    ),
    example="A value was added to `sweeps/digits-search/space.yaml`, but `hyperparams.yml` was not written again.",
    remedy="Run `trainstack sweep expand digits-search`, and commit the file.",
)
def sweep_stale(scene: Scene) -> Iterator[Violation]:
    for path, sweep in each("sweeps.sweeps", scene.settings.sweeps.sweeps):
        file = f"{folder(sweep.name)}/{SETS_FILE}"
        if problem := _stale(sweep, file):
            yield Violation(path, problem, f"run `trainstack sweep expand {sweep.name}`")


def _stale(sweep: Sweep, file: str) -> str:
    """What is wrong with the sets; empty where nothing is. What only another draw would show, that command tells."""
    if sweep.expansion is None:
        return f"there is no {file}"
    if sweep.expansion.space != space_digest(sweep.space):
        return f"{file} is not of the {SPACE_FILE} beside it, which was edited since"
    sets = sweep.expansion.sets
    if sets != numbered([one.parameters for one in sets]) or len({one.id for one in sets}) < len(sets):
        return f"{file} was edited by hand"
    return ""


@Rule(
    id="sweep-name-taken",
    severity="error",
    summary="A sweep has the name of a run.",
    details="Commands find both by that name.",
    change="""
        trainstack:sweeps:
          sweeps:
            - {name: digits-search, run: {from: digits, namespace: research, queue: research}}
        trainstack:workloads:
          runs:
            - {name: digits-search, from: digits, namespace: research, queue: research}
    """,
    remedy="Rename the run (`from:` names its workload), or the sweep's folder.",
)
def sweep_name_taken(scene: Scene) -> Iterator[Violation]:
    runs = {run.name for run in scene.settings.workloads.runs}
    for path, sweep in each("sweeps.sweeps", scene.settings.sweeps.sweeps):
        if sweep.name in runs:
            message = f"a run is called {sweep.name} too"
            yield Violation(f"{path}.name", message, "rename the run, or the sweep's folder")


@Rule(
    id="sweep-too-large",
    severity="error",
    summary="The sets of a sweep do not fit into a ConfigMap.",
    details="The pods read the sets of a launch from a ConfigMap, which holds 1 MiB.",
    example="A sweep of 5,000 sets of ten parameters.",
    remedy="Move the sets that do not fit to a second sweep. The message gives the number that fits.",
)
def sweep_too_large(scene: Scene) -> Iterator[Violation]:
    for path, sweep in each("sweeps.sweeps", scene.settings.sweeps.sweeps):
        try:
            check_size(sweep)
        except TooManySetsError as error:
            yield Violation(path, error.message, error.remedy)


@Rule(
    id="sweep-cost",
    severity="error",
    summary="The trials of a sweep may cost more than its `maxGpuHours`.",
    details=(
        "The cost is the number of sets, times the GPUs of a trial, times its `activeDeadlineSeconds`; with `form: "
        "indexed` also times its attempts (`backoffLimit` + 1). Trials that have already run count too."
    ),
    example="40 sets of one GPU with `activeDeadlineSeconds: 3600` and `maxGpuHours: 24`.",
    remedy="Shorten the deadline, remove sets, or raise the limit.",
)
def sweep_cost(scene: Scene) -> Iterator[Violation]:
    for path, sweep in each("sweeps.sweeps", scene.settings.sweeps.sweeps):
        most, hours = sweep.max_gpu_hours, gpu_hours(sweep)
        if most is not None and hours > Fraction(most):
            sets = len(sweep.expansion.sets) if sweep.expansion else 0
            message = (
                f"{sets} sets of {float(gpus(sweep)):g} GPUs for at most {sweep.run.active_deadline_seconds} s each"
                f"{_tries(sweep)} cost up to {float(hours):.1f} GPU hours, and {most:g} are allowed"
            )
            remedy = "lower run.activeDeadlineSeconds, take sets out, or raise the limit"
            yield Violation(f"{path}.maxGpuHours", message, remedy)


def gpu_hours(sweep: Sweep) -> Fraction:
    """What all sets of a sweep cost at most, in GPU hours, done or not; 0 without a deadline, which says nothing."""
    sets = len(sweep.expansion.sets) if sweep.expansion else 0
    return sets * gpus(sweep) * attempts(sweep) * Fraction(sweep.run.active_deadline_seconds or 0, _HOUR)


def gpus(sweep: Sweep) -> Fraction:
    """The GPUs of one trial, of whichever make: pieces of resources called `…/gpu`, and slices of such."""
    return sum(
        (
            pods.count * amount(quantity)
            for pods in pod_sets("", sweep.run)
            for name, quantity in {**pods.resources.requests, **pods.resources.limits}.items()
            if name.endswith("/gpu") or name.startswith("nvidia.com/mig-")
        ),
        Fraction(0),
    )


def attempts(sweep: Sweep) -> int:
    """How often the deadline may begin anew for a trial: it is of each pod in form `indexed`, else of all together."""
    return sweep.run.backoff_limit + 1 if sweep.form == "indexed" else 1


def _tries(sweep: Sweep) -> str:
    tries = attempts(sweep)
    return f", {tries} times where it fails," if tries > 1 else ""


RULES: tuple[Check[Scene], ...] = (sweep_stale, sweep_name_taken, sweep_too_large, sweep_cost)
