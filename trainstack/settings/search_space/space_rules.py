"""The rules across several keys of a space."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import prod

from trainstack.settings.errors import suggest_name
from trainstack.settings.search_space import templates
from trainstack.settings.search_space.constraints import ConstraintError, Value, is_satisfied, parameter_names
from trainstack.settings.search_space.space import Parameter, Space, is_test_metric
from trainstack.settings.search_space.space_values import contains, count_values, is_parameter_active
from trainstack.settings.search_space.templates import format_value
from trainstack.settings.values import metrics_format

MAX_SETS = 10_000
"""Sets of one sweep. A ConfigMap's limit of 1 MiB may allow even fewer."""
MAX_PARAMETERS = 200
MAX_CONSTRAINTS = 100
_MAX_PRINTED_POINTS = 10**15
"""The largest number of points that a message prints: Python does not format integers of thousands of digits."""
_MAX_LISTED_VALUES = 20

_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE_NAME = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
_RESERVED_PREFIXES = ("TRAINSTACK_", "PET_")
"""Prefixes of the variables that the wrapper, Trainer and torchrun set."""
_RESERVED_NAMES = (
    *("JOB_ID", "JOB_COMPLETION_INDEX"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
_KUBERNETES_EXPANSION = re.compile(r"\$[$(]")
"""Kubernetes expands `$(NAME)` to a variable, and `$$` to `$`, in arguments and variables."""
_WRAPPER_EXPANSION = re.compile(r"\$\{?TRAINSTACK_")
"""The wrapper expands its variables in arguments, also as `${NAME}`."""


@dataclass(frozen=True)
class SpaceFault:
    """A fault of a space. `steps` are the keys and indices of the value with the fault."""

    steps: tuple[str | int, ...]
    message: str
    remedy: str


def faults_of_space(space: Space) -> Iterator[SpaceFault]:
    """Yield the faults of a space that the model has accepted."""
    if size_faults := list(_faults_of_sizes(space)):
        yield from size_faults
        return
    for rule in (
        _faults_of_parameters,
        _faults_of_conditions,
        _faults_of_method,
        _faults_of_constraints,
        _faults_of_sets,
        _faults_of_objective,
        _faults_of_templates,
        _faults_of_variables,
    ):
        yield from rule(space)


def _faults_of_sizes(space: Space) -> Iterator[SpaceFault]:
    """Yield a fault for each list or map with too many entries.

    The limits bound the work of the other rules, which follow conditions recursively and evaluate all constraints on
    all sets.
    """
    for key, limit in (("parameters", MAX_PARAMETERS), ("constraints", MAX_CONSTRAINTS), ("sets", MAX_SETS)):
        entry_count = len(getattr(space, key))
        if entry_count > limit:
            yield SpaceFault((key,), f"has {entry_count} entries, but a sweep has at most {limit}", "remove some")


def _faults_of_parameters(space: Space) -> Iterator[SpaceFault]:
    if not space.parameters:
        yield SpaceFault(("parameters",), "is empty", "add a parameter")
    for name in space.parameters:
        if not _PARAMETER_NAME.fullmatch(name):
            remedy = "use letters, digits and '_', without a digit at the beginning"
            yield SpaceFault(("parameters", name), "is not a valid parameter name", remedy)


def _faults_of_conditions(space: Space) -> Iterator[SpaceFault]:
    parameters = space.parameters
    for name, parameter in parameters.items():
        for condition_name, required_values in parameter.when.items():
            steps = ("parameters", name, "when", condition_name)
            if condition_name not in parameters:
                yield SpaceFault(
                    steps, f"there is no parameter {condition_name}", suggest_name(condition_name, parameters)
                )
            elif not parameters[condition_name].choices:
                yield SpaceFault(steps, f"{condition_name} has no listed values", "set its values or categorical")
            elif unknown := [value for value in required_values if not contains(parameters[condition_name], value)]:
                valid_values = ", ".join(map(format_value, parameters[condition_name].choices))
                message = f"{format_value(unknown[0])} is not a value of {condition_name}"
                yield SpaceFault(steps, message, f"write some of {valid_values}")
    try:
        TopologicalSorter({name: parameter.when.keys() for name, parameter in parameters.items()}).prepare()
    except CycleError as error:
        cycle = error.args[1]
        message = f"the conditions form a cycle: {' needs '.join(cycle[::-1])}"
        yield SpaceFault(("parameters", cycle[0], "when"), message, "remove one condition")


def _faults_of_method(space: Space) -> Iterator[SpaceFault]:
    if space.method == "list":
        if not space.sets:
            yield SpaceFault(("method",), "method list has no sets", "list them under `sets:`, or use another method")
        if space.trials is not None:
            yield SpaceFault(("trials",), "a list has one trial for each set", "leave it out")
        return
    if space.method != "grid":
        if space.trials is None:
            yield SpaceFault(("method",), f"method {space.method} requires trials", "add `trials:`")
        elif space.trials > MAX_SETS:
            yield SpaceFault(("trials",), f"must be at most {MAX_SETS}, the limit of sets of a sweep", "lower it")
        return
    if space.trials is not None:
        yield SpaceFault(("trials",), "a grid has one trial for each point", "leave it out")
    counts = {name: _count_grid_values(parameter) for name, parameter in space.parameters.items()}
    continuous = [name for name, value_count in counts.items() if value_count is None]
    for name in continuous:
        remedy = "set values, or a range with step and without log"
        yield SpaceFault(("parameters", name), "a grid requires discrete values", remedy)
    # The size is checked before the grid is expanded, which may not fit into memory.
    size = prod(value_count or 0 for value_count in counts.values())
    if not continuous and size > MAX_SETS:
        remedy = "remove values, raise a step, or use method random or sobol"
        points = size if size < _MAX_PRINTED_POINTS else f"more than {_MAX_PRINTED_POINTS:.0e}"
        yield SpaceFault(
            ("parameters",), f"form a grid of {points} points, but a sweep has at most {MAX_SETS} sets", remedy
        )


def _count_grid_values(parameter: Parameter) -> int | None:
    """Return the number of a parameter's values in a grid; None if it is continuous or a logarithmic range."""
    return None if parameter.int_range is not None and parameter.int_range.log else count_values(parameter)


def _faults_of_constraints(space: Space) -> Iterator[SpaceFault]:
    for index, text in enumerate(space.constraints):
        steps = ("constraints", index)
        try:
            unknown = sorted(parameter_names(text) - space.parameters.keys())
        except ConstraintError as error:
            yield SpaceFault(steps, str(error), "write a comparison, such as `batch_size * lr <= 1`")
            continue
        for name in unknown:
            yield SpaceFault(steps, f"there is no parameter {name}", suggest_name(name, space.parameters))


def _faults_of_sets(space: Space) -> Iterator[SpaceFault]:
    # Sets are checked against conditions and constraints, which must be valid for that.
    if any(_faults_of_conditions(space)) or any(_faults_of_constraints(space)):
        return
    for index, parameters in enumerate(space.sets):
        yield from _faults_of_set(space, ("sets", index), parameters)


def _faults_of_set(space: Space, steps: tuple[str | int, ...], values: Mapping[str, Value]) -> Iterator[SpaceFault]:
    parameters = space.parameters
    required = [name for name, parameter in parameters.items() if is_parameter_active(parameter, values, parameters)]
    for name in values:
        if name not in parameters:
            yield SpaceFault((*steps, name), f"there is no parameter {name}", suggest_name(name, parameters))
        elif name not in required:
            yield SpaceFault((*steps, name), f"{name} is set although its condition does not hold", "remove it")
    if missing := [name for name in required if name not in values]:
        yield SpaceFault(steps, f"lacks {', '.join(missing)}", "add a value for each")
    for name, value in values.items():
        if name in required and not contains(parameters[name], value):
            message = f"{format_value(value)} is not a value of {name}"
            yield SpaceFault((*steps, name), message, _value_remedy(parameters[name]))
    for text in space.constraints if not missing else ():
        try:
            is_met = is_satisfied(text, values)
        except ConstraintError as error:
            yield SpaceFault(steps, str(error), "correct the constraint, or the set")
            continue
        if not is_met:
            yield SpaceFault(steps, f"violates the constraint {text!r}", "remove the set, or the constraint")


def _value_remedy(parameter: Parameter) -> str:
    if parameter.choices:
        printed_choices = [format_value(value) for value in parameter.choices[:_MAX_LISTED_VALUES]]
        if len(parameter.choices) > _MAX_LISTED_VALUES:
            printed_choices.append("…")
        return f"write one of {', '.join(printed_choices)}"
    return "write a value in its range and step"


def _faults_of_objective(space: Space) -> Iterator[SpaceFault]:
    if is_test_metric(space.objective.metric):
        message = f"{space.objective.metric} is a metric of the test data, which must not be used to select a set"
        yield SpaceFault(("objective", "metric"), message, "use a metric of the validation data, such as val_accuracy")
    if space.objective.metrics_format is None:
        return
    steps = ("objective", "metricsFormat")
    if problem := metrics_format.expression_fault(space.objective.metrics_format):
        yield SpaceFault(steps, problem, r"write one such as 'accuracy=(?P<value>[0-9.]+)'")
    if space.objective.target is not None:
        message = "the pod compares the target with metrics.jsonl, not with the log"
        yield SpaceFault(steps, message, "leave out objective.target, or have the program write metrics.jsonl")


def _faults_of_templates(space: Space) -> Iterator[SpaceFault]:
    texts: list[tuple[tuple[str | int, ...], str]] = [(("args", index), text) for index, text in enumerate(space.args)]
    texts += [(("env", name), text) for name, text in space.env.items()]
    texts += [(("fields", path), text) for path, text in space.fields.items()]
    used_parameters: set[str] = set()
    for steps, text in texts:
        names = templates.referenced_parameters(text)
        used_parameters.update(names)
        for name in names:
            if name.startswith("$"):
                yield SpaceFault(steps, f"{name} is not a parameter", "write ${parameters.<name>}")
            elif name not in space.parameters:
                yield SpaceFault(steps, f"there is no parameter {name}", suggest_name(name, space.parameters))
            elif steps[0] == "args" and space.parameters[name].when and text == f"${{parameters.{name}}}":
                message = f"is left out of sets without {name}, but the argument before it is not"
                yield SpaceFault(steps, message, f"write both as one argument, such as --{name}={text}")
        # A malformed reference is reported above; it cannot be filled in. A manifest is expanded as its author knows.
        if steps[0] != "fields" and not any(name.startswith("$") for name in names):
            yield from _faults_of_expansion(space, steps, text)
    for name in space.parameters:
        if name not in used_parameters and space.file is None:
            remedy = f"use ${{parameters.{name}}} in args or env, or set file to the program's path of hyperparams.yml"
            yield SpaceFault(("parameters", name), "is not used in args, env or fields, so it has no effect", remedy)


def _faults_of_variables(space: Space) -> Iterator[SpaceFault]:
    for name in space.env:
        if not _VARIABLE_NAME.fullmatch(name):
            remedy = "use letters, digits, '_', '-' and '.', without a digit at the beginning"
            yield SpaceFault(("env", name), "is not a valid name of an environment variable", remedy)
        elif name.startswith(_RESERVED_PREFIXES) or name in _RESERVED_NAMES:
            yield SpaceFault(("env", name), f"{name} is reserved, and set for every trial", "choose another name")


def _faults_of_expansion(space: Space, steps: tuple[str | int, ...], text: str) -> Iterator[SpaceFault]:
    """Yield a fault for text that Kubernetes or the wrapper would expand, in the template or in its values."""
    names = set(templates.referenced_parameters(text))
    neutral_values = dict.fromkeys(names, 0)
    if _KUBERNETES_EXPANSION.search(templates.fill_template(text, neutral_values) or ""):
        yield SpaceFault(steps, "$(…) and $$ are not supported, since Kubernetes expands them", "write the value out")
        return
    # The wrapper expands its variables in arguments only.
    field_path, expansions, in_args = f"env.{steps[1]}", "$(…) and $$", steps[0] == "args"
    if in_args:
        field_path, expansions = f"args[{steps[1]}]", "$(…), $$ and $TRAINSTACK_…"
    in_template = len(_WRAPPER_EXPANSION.findall(templates.fill_template(text, dict.fromkeys(names, "(")) or ""))
    for name in sorted(names & space.parameters.keys()):
        key = "values" if space.parameters[name].values else "categorical"
        for index, value in space.parameters[name].string_choices.items():
            # The bracket represents another parameter's value, which must not follow `$`.
            filled = templates.fill_template(text, {**dict.fromkeys(names, "("), name: value}) or ""
            if _KUBERNETES_EXPANSION.search(filled) or (
                in_args and len(_WRAPPER_EXPANSION.findall(filled)) > in_template
            ):
                message = f"{value} would be changed in {field_path}, where {expansions} are expanded"
                remedy = "write it without them, or set file to the program's path of hyperparams.yml"
                yield SpaceFault(("parameters", name, key, index), message, remedy)
