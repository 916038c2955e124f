"""Rules about sweeps: the committed parameter sets match the space, and cost at most the limit."""

from collections.abc import Iterator
from fractions import Fraction

from trainstack.kueue.pod_requests import requests_and_faults
from trainstack.kueue.quantities import WHOLE
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import PLACEHOLDER_FACTS
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.build import companions, manifest
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.parameter_file import TooManySetsError, check_size
from trainstack.settings.search_space.hyperparams import SETS_FILE, SPACE_FILE, number_sets, space_digest, sweep_folder
from trainstack.settings.sections.sweeps import Sweep

_SECONDS_PER_HOUR = 3600


@Rule(
    id="sweep-stale",
    summary="The `hyperparams.yml` of a sweep is missing, was edited, or does not match `space.yaml`.",
    details="`trainstack sweep expand --check` also draws all sets again.",
    example="A value was added to `space.yaml` alone.",
    remedy="Run `trainstack sweep expand digits-search`, and commit the file.",
)
def sweep_stale(context: RuleContext) -> Iterator[Violation]:
    for path, sweep in context.sweeps():
        file = f"{sweep_folder(sweep.name)}/{SETS_FILE}"
        if problem := _staleness_problem(sweep, file):
            yield Violation(path, problem, f"run `trainstack sweep expand {sweep.name}`")


def _staleness_problem(sweep: Sweep, file: str) -> str:
    if sweep.expansion is None:
        return f"file {file} does not exist"
    if sweep.expansion.space != space_digest(sweep.space):
        return f"{file} does not match {SPACE_FILE}, which was edited since"
    sets = sweep.expansion.sets
    if sets != number_sets([parameter_set.parameters for parameter_set in sets]) or len(
        {parameter_set.id for parameter_set in sets}
    ) < len(sets):
        return f"{file} was edited by hand"
    return ""


@Rule(
    id="sweep-name-taken",
    summary="A sweep and a run have the same name.",
    example="A run `digits-search`, and a folder `sweeps/digits-search`.",
    remedy="Rename the run (`from:` names its workload), or the sweep's folder.",
)
def sweep_name_taken(context: RuleContext) -> Iterator[Violation]:
    runs = {run.name for run in context.settings.workloads.runs}
    for path, sweep in context.sweeps():
        if sweep.name in runs:
            message = f"a run also has the name {sweep.name}"
            yield Violation(f"{path}.name", message, "rename the run, or the sweep's folder")


@Rule(
    id="sweep-too-large",
    summary="The sets of a sweep do not fit into a ConfigMap (1 MiB).",
    example="5,000 sets of ten parameters.",
    remedy="Move sets to a second sweep; the message gives the number that fits.",
)
def sweep_too_large(context: RuleContext) -> Iterator[Violation]:
    for path, sweep in context.sweeps():
        try:
            check_size(sweep)
        except TooManySetsError as error:
            yield Violation(path, error.message, error.remedy)


@Rule(
    id="sweep-cost",
    summary="The trials of a sweep may cost more than its `maxGpuHours`.",
    details=(
        "The cost is all sets, times GPUs, times `activeDeadlineSeconds`, and with `form: indexed` times "
        "`backoffLimit` + 1."
    ),
    example="40 sets of one GPU with `activeDeadlineSeconds: 3600` and `maxGpuHours: 24`.",
    remedy="Lower `run.activeDeadlineSeconds`, remove sets, or raise the limit.",
)
def sweep_cost(context: RuleContext) -> Iterator[Violation]:
    for path, sweep in context.sweeps():
        max_hours, hours = sweep.max_gpu_hours, gpu_hours(sweep)
        if max_hours is not None and hours > Fraction(max_hours):
            sets = len(sweep.expansion.sets) if sweep.expansion else 0
            attempts_text = f" and {attempts(sweep)} attempts" if attempts(sweep) > 1 else ""
            message = (
                f"{sets} sets of {float(gpus_per_trial(sweep)):g} GPUs with up to {sweep.run.deadline_seconds} "
                f"s{attempts_text} each cost up to {float(hours):.1f} GPU hours; the limit is {max_hours:g}"
            )
            yield Violation(f"{path}.maxGpuHours", message)


def gpu_hours(sweep: Sweep) -> Fraction:
    """Return the maximum cost of all sets in GPU hours, including finished ones; 0 without a deadline."""
    sets = len(sweep.expansion.sets) if sweep.expansion else 0
    return sets * gpus_per_trial(sweep) * attempts(sweep) * Fraction(sweep.run.deadline_seconds or 0, _SECONDS_PER_HOUR)


def gpus_per_trial(sweep: Sweep) -> Fraction:
    """Return the GPUs of one trial: all resources named `…/gpu`, and MIG slices, which count as whole GPUs."""
    launch = Launch(run_id=sweep.name, name=sweep.name, facts=PLACEHOLDER_FACTS)
    try:
        body, companion_objects = manifest(sweep.run, "", launch), companions(sweep.run, "", launch)
    except WorkloadError:
        return Fraction(0)  # Other rules report it.
    return sum(
        (
            Fraction(pods.count * billionths, WHOLE)
            for pods in launched_pods(body, companion_objects)
            for name, billionths in requests_and_faults(pods.spec, (), {})[0].items()
            if name.endswith("/gpu") or name.startswith("nvidia.com/mig-")
        ),
        Fraction(0),
    )


def attempts(sweep: Sweep) -> int:
    """Return how often a trial's deadline may start: once per pod in form `indexed`, otherwise once."""
    return sweep.run.backoff_limit + 1 if sweep.form == "indexed" else 1
