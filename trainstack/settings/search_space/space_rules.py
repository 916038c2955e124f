"""The rules across several keys of a space."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import prod

from trainstack.settings.errors import nearest
from trainstack.settings.loading import templates
from trainstack.settings.loading.templates import format_value
from trainstack.settings.search_space.constraints import ConstraintError, Value, holds, names
from trainstack.settings.search_space.space import Parameter, Space, of_test_data
from trainstack.settings.search_space.space_values import active, contains, count
from trainstack.settings.values import metrics_format

MOST_SETS = 10_000
"""Sets of one sweep. A ConfigMap's limit of 1 MiB may allow even fewer."""
MOST_PARAMETERS = 200
MOST_CONSTRAINTS = 100
_MAX_PRINTED_POINTS = 10**15
"""The largest number of points that a message prints: Python does not format integers of thousands of digits."""
_MAX_LISTED_VALUES = 20

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
_RESERVED_PREFIXES = ("TRAINSTACK_", "PET_")
"""Prefixes of the variables that the wrapper, Trainer and torchrun set."""
_RESERVED = (
    *("JOB_ID", "JOB_COMPLETION_INDEX"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
_KUBERNETES = re.compile(r"\$[$(]")
"""Kubernetes expands `$(NAME)` to a variable, and `$$` to `$`, in arguments and variables."""
_WRAPPER = re.compile(r"\$\{?TRAINSTACK_")
"""The wrapper expands its variables in arguments, also as `${NAME}`."""


@dataclass(frozen=True)
class Fault:
    """A fault of a space. `steps` are the keys and indices of the value with the fault."""

    steps: tuple[str | int, ...]
    message: str
    remedy: str


def faults(space: Space) -> Iterator[Fault]:
    """Yield the faults of a space that the model has accepted."""
    if sizes := list(_sizes(space)):
        yield from sizes
        return
    for rule in (_parameters, _conditions, _method, _constraints, _sets, _objective, _templates, _variables):
        yield from rule(space)


def _sizes(space: Space) -> Iterator[Fault]:
    """Yield a fault for each list or map with too many entries.

    The limits bound the work of the other rules, which follow conditions recursively and evaluate all constraints on
    all sets.
    """
    for key, most in (("parameters", MOST_PARAMETERS), ("constraints", MOST_CONSTRAINTS), ("sets", MOST_SETS)):
        count = len(getattr(space, key))
        if count > most:
            yield Fault((key,), f"has {count} entries, but a sweep has at most {most}", "remove some")


def _parameters(space: Space) -> Iterator[Fault]:
    if not space.parameters:
        yield Fault(("parameters",), "is empty", "add a parameter")
    for name in space.parameters:
        if not _NAME.fullmatch(name):
            remedy = "use letters, digits and '_', without a digit at the beginning"
            yield Fault(("parameters", name), "is not a valid parameter name", remedy)


def _conditions(space: Space) -> Iterator[Fault]:
    known = space.parameters
    for name, parameter in known.items():
        for other, required in parameter.when.items():
            steps = ("parameters", name, "when", other)
            if other not in known:
                yield Fault(steps, f"there is no parameter {other}", nearest(other, known))
            elif not known[other].choices:
                yield Fault(steps, f"{other} has no listed values", "set its values or categorical")
            elif unknown := [value for value in required if not contains(known[other], value)]:
                listed = ", ".join(map(format_value, known[other].choices))
                message = f"{format_value(unknown[0])} is not a value of {other}"
                yield Fault(steps, message, f"write some of {listed}")
    try:
        TopologicalSorter({name: parameter.when.keys() for name, parameter in known.items()}).prepare()
    except CycleError as error:
        cycle = error.args[1]
        message = f"the conditions form a cycle: {' needs '.join(cycle[::-1])}"
        yield Fault(("parameters", cycle[0], "when"), message, "remove one condition")


def _method(space: Space) -> Iterator[Fault]:
    if space.method != "grid":
        if space.trials is None:
            yield Fault(("method",), f"method {space.method} requires trials", "add `trials:`")
        elif space.trials > MOST_SETS:
            yield Fault(("trials",), f"must be at most {MOST_SETS}, the limit of sets of a sweep", "lower it")
        return
    if space.trials is not None:
        yield Fault(("trials",), "a grid has one trial for each point", "leave it out")
    counts = {name: _grid_values(parameter) for name, parameter in space.parameters.items()}
    continuous = [name for name, values in counts.items() if values is None]
    for name in continuous:
        remedy = "set values, or a range with step and without log"
        yield Fault(("parameters", name), "a grid requires discrete values", remedy)
    # The size is checked before the grid is expanded, which may not fit into memory.
    size = prod(values or 0 for values in counts.values())
    if not continuous and size > MOST_SETS:
        remedy = "remove values, raise a step, or use method random or sobol"
        points = size if size < _MAX_PRINTED_POINTS else f"more than {_MAX_PRINTED_POINTS:.0e}"
        yield Fault(
            ("parameters",), f"form a grid of {points} points, but a sweep has at most {MOST_SETS} sets", remedy
        )


def _grid_values(parameter: Parameter) -> int | None:
    """Return the number of a parameter's values in a grid; None if it is continuous or a logarithmic range."""
    return None if parameter.int_range is not None and parameter.int_range.log else count(parameter)


def _constraints(space: Space) -> Iterator[Fault]:
    for index, text in enumerate(space.constraints):
        steps = ("constraints", index)
        try:
            unknown = sorted(names(text) - space.parameters.keys())
        except ConstraintError as error:
            yield Fault(steps, str(error), "write a comparison, such as `batch_size * lr <= 1`")
            continue
        for name in unknown:
            yield Fault(steps, f"there is no parameter {name}", nearest(name, space.parameters))


def _sets(space: Space) -> Iterator[Fault]:
    # Sets are checked against conditions and constraints, which must be valid for that.
    if any(_conditions(space)) or any(_constraints(space)):
        return
    for index, parameters in enumerate(space.sets):
        yield from _set(space, ("sets", index), parameters)


def _set(space: Space, steps: tuple[str | int, ...], given: Mapping[str, Value]) -> Iterator[Fault]:
    known = space.parameters
    required = [name for name, parameter in known.items() if active(parameter, given, known)]
    for name in given:
        if name not in known:
            yield Fault((*steps, name), f"there is no parameter {name}", nearest(name, known))
        elif name not in required:
            yield Fault((*steps, name), f"{name} is set although its condition does not hold", "remove it")
    if missing := [name for name in required if name not in given]:
        yield Fault(steps, f"lacks {', '.join(missing)}", "add a value for each")
    for name, value in given.items():
        if name in required and not contains(known[name], value):
            message = f"{format_value(value)} is not a value of {name}"
            yield Fault((*steps, name), message, _valid_values(known[name]))
    for text in space.constraints if not missing else ():
        try:
            fits = holds(text, given)
        except ConstraintError as error:
            yield Fault(steps, str(error), "correct the constraint, or the set")
            continue
        if not fits:
            yield Fault(steps, f"violates the constraint {text!r}", "remove the set, or the constraint")


def _valid_values(parameter: Parameter) -> str:
    if parameter.choices:
        listed = [format_value(value) for value in parameter.choices[:_MAX_LISTED_VALUES]]
        return f"write one of {', '.join([*listed, *(['…'] if len(parameter.choices) > _MAX_LISTED_VALUES else [])])}"
    return "write a value in its range and step"


def _objective(space: Space) -> Iterator[Fault]:
    if of_test_data(space.objective.metric):
        message = f"{space.objective.metric} is a metric of the test data, which must not be used to select a set"
        yield Fault(("objective", "metric"), message, "use a metric of the validation data, such as val_accuracy")
    if space.objective.metrics_format is None:
        return
    steps = ("objective", "metricsFormat")
    if found := metrics_format.fault(space.objective.metrics_format):
        yield Fault(steps, found, r"write one such as 'accuracy=(?P<value>[0-9.]+)'")
    if space.objective.target is not None:
        message = "the pod compares the target with metrics.jsonl, not with the log"
        yield Fault(steps, message, "leave out objective.target, or have the program write metrics.jsonl")


def _templates(space: Space) -> Iterator[Fault]:
    texts: list[tuple[tuple[str | int, ...], str]] = [(("args", index), text) for index, text in enumerate(space.args)]
    texts += [(("env", name), text) for name, text in space.env.items()]
    used: set[str] = set()
    for steps, text in texts:
        names = templates.named(text)
        used.update(names)
        for name in names:
            if name.startswith("$"):
                yield Fault(steps, f"{name} is not a parameter", "write ${parameters.<name>}")
            elif name not in space.parameters:
                yield Fault(steps, f"there is no parameter {name}", nearest(name, space.parameters))
            elif steps[0] == "args" and space.parameters[name].when and text == f"${{parameters.{name}}}":
                message = f"is left out of sets without {name}, but the argument before it is not"
                yield Fault(steps, message, f"write both as one argument, such as --{name}={text}")
        # A malformed reference is reported above; it cannot be filled in.
        if not any(name.startswith("$") for name in names):
            yield from _expanded(space, steps, text)
    for name in space.parameters:
        if name not in used and space.file is None:
            remedy = f"use ${{parameters.{name}}} in args or env, or set file to the program's path of hyperparams.yml"
            yield Fault(("parameters", name), "is not used in args or env, so it has no effect", remedy)


def _variables(space: Space) -> Iterator[Fault]:
    for name in space.env:
        if not _VARIABLE.fullmatch(name):
            remedy = "use letters, digits, '_', '-' and '.', without a digit at the beginning"
            yield Fault(("env", name), "is not a valid name of an environment variable", remedy)
        elif name.startswith(_RESERVED_PREFIXES) or name in _RESERVED:
            yield Fault(("env", name), f"{name} is reserved, and set for every trial", "choose another name")


def _expanded(space: Space, steps: tuple[str | int, ...], text: str) -> Iterator[Fault]:
    """Yield a fault for text that Kubernetes or the wrapper would expand, in the template or in its values."""
    names = set(templates.named(text))
    plain = dict.fromkeys(names, 0)
    if _KUBERNETES.search(templates.filled(text, plain) or ""):
        yield Fault(steps, "$(…) and $$ are not supported, since Kubernetes expands them", "write the value out")
        return
    # The wrapper expands its variables in arguments only.
    where, expanded, in_args = f"env.{steps[1]}", "$(…) and $$", steps[0] == "args"
    if in_args:
        where, expanded = f"args[{steps[1]}]", "$(…), $$ and $TRAINSTACK_…"
    in_template = len(_WRAPPER.findall(templates.filled(text, dict.fromkeys(names, "(")) or ""))
    for name in sorted(names & space.parameters.keys()):
        key = "values" if space.parameters[name].values else "categorical"
        for index, value in space.parameters[name].texts.items():
            # The bracket represents another parameter's value, which must not follow `$`.
            filled = templates.filled(text, {**dict.fromkeys(names, "("), name: value}) or ""
            if _KUBERNETES.search(filled) or (in_args and len(_WRAPPER.findall(filled)) > in_template):
                message = f"{value} would be changed in {where}, where {expanded} are expanded"
                remedy = "write it without them, or set file to the program's path of hyperparams.yml"
                yield Fault(("parameters", name, key, index), message, remedy)
