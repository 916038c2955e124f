"""What has to hold between the parts of a space."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import prod

from trainstack.settings.errors import nearest
from trainstack.settings.loading import templates
from trainstack.settings.search_space.constraints import ConstraintError, Value, holds, names
from trainstack.settings.search_space.space import WAYS, Parameter, Space, of_test_data
from trainstack.settings.search_space.space_values import active, contains, count
from trainstack.settings.values import metrics_format

MOST_SETS = 10_000
"""Sets of one sweep. What 1 MiB, a ConfigMap's limit, holds of them is less still, and depends on their size."""

MOST_PARAMETERS = 200
MOST_CONSTRAINTS = 100
_COUNTED = 10**15
"""Points of a grid that are told to the last one: Python writes no number of thousands of digits."""
_LISTED = 20
"""Values that a remedy names."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
_GIVEN = ("TRAINSTACK_", "PET_")
"""Begin the names of variables that the wrapper, Trainer and torchrun give."""
_GIVEN_WHOLE = (
    *("JOB_ID", "JOB_COMPLETION_INDEX"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
_KUBERNETES = re.compile(r"\$[$(]")
"""What it replaces in a container's words: `$(NAME)` by the variable, `$$` by `$`."""


@dataclass(frozen=True)
class Fault:
    """One fault of a space."""

    steps: tuple[str | int, ...]
    """The keys and indices that lead to it in the file."""
    message: str
    remedy: str


def faults(space: Space) -> Iterator[Fault]:
    """Everything that is wrong between the parts of a space whose parts are right."""
    if sizes := list(_sizes(space)):
        yield from sizes
        return
    for rule in (_parameters, _conditions, _method, _constraints, _sets, _objective, _templates, _variables):
        yield from rule(space)


def _sizes(space: Space) -> Iterator[Fault]:
    """What would take long to look at: conditions are followed by recursion, and each set meets each constraint."""
    for key, most in (("parameters", MOST_PARAMETERS), ("constraints", MOST_CONSTRAINTS), ("sets", MOST_SETS)):
        count = len(getattr(space, key))
        if count > most:
            yield Fault((key,), f"has {count} entries, but a sweep has at most {most}", "remove some")


def _parameters(space: Space) -> Iterator[Fault]:
    if not space.parameters:
        yield Fault(("parameters",), "holds no parameter", "add one")
    for name in space.parameters:
        if not _NAME.fullmatch(name):
            remedy = "use letters, digits and '_', with no digit at its beginning"
            yield Fault(("parameters", name), "is not a good name for a parameter", remedy)


def _conditions(space: Space) -> Iterator[Fault]:
    known = space.parameters
    for name, parameter in known.items():
        for other, wanted in parameter.when.items():
            steps = ("parameters", name, "when", other)
            if other not in known:
                yield Fault(steps, f"there is no parameter {other}", nearest(other, known))
            elif not known[other].choices:
                yield Fault(
                    steps, f"{other} has no listed values", f"give it {WAYS['values']} or {WAYS['categorical']}"
                )
            elif strange := [each for each in wanted if not contains(known[other], each)]:
                listed = ", ".join(map(templates.worded, known[other].choices))
                yield Fault(steps, f"{other} is never {templates.worded(strange[0])}", f"write some of {listed}")
    try:
        TopologicalSorter({name: each.when.keys() for name, each in known.items()}).prepare()
    except CycleError as error:
        circle = error.args[1]
        message = f"is there only if it is there: {' needs '.join(circle[::-1])}"
        yield Fault(("parameters", circle[0], "when"), message, "take one condition out")


def _method(space: Space) -> Iterator[Fault]:
    if space.method != "grid":
        if space.trials is None:
            yield Fault(("method",), f"a {space.method} search has no end by itself", "add `trials:`")
        elif space.trials > MOST_SETS:
            yield Fault(("trials",), f"is above {MOST_SETS}, the most sets of one sweep", "lower it")
        return
    if space.trials is not None:
        yield Fault(("trials",), "a grid has as many trials as it has points", "leave it out")
    counts = {name: _points(each) for name, each in space.parameters.items()}
    endless = [name for name, each in counts.items() if each is None]
    for name in endless:
        yield Fault(("parameters", name), "a grid needs points", "give it values, or a range with step and without log")
    size = prod(each or 0 for each in counts.values())
    if not endless and size > MOST_SETS:
        remedy = "leave values out, raise a step, or take the method random or sobol"
        points = size if size < _COUNTED else f"more than {_COUNTED:.0e}"
        yield Fault(
            ("parameters",), f"make a grid of {points} points, and a sweep has at most {MOST_SETS} sets", remedy
        )


def _points(parameter: Parameter) -> int | None:
    """How many points a grid takes of a parameter; of a logarithmic range none are meant."""
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
    if any(_conditions(space)) or any(_constraints(space)):
        return  # whether a set is right cannot be told then
    for index, each in enumerate(space.sets):
        yield from _set(space, ("sets", index), each)


def _set(space: Space, steps: tuple[str | int, ...], given: Mapping[str, Value]) -> Iterator[Fault]:
    known = space.parameters
    wanted = {name for name, each in known.items() if active(each, given, known)}
    for name in [each for each in given if each not in known]:
        yield Fault((*steps, name), f"there is no parameter {name}", nearest(name, known))
    for name in [each for each in given if each in known and each not in wanted]:
        yield Fault((*steps, name), f"{name} is not there when its condition does not hold", "take it out")
    if missing := [each for each in known if each in wanted and each not in given]:
        yield Fault(steps, f"lacks {', '.join(missing)}", "add a value for each")
    for name, value in given.items():
        if name in wanted and not contains(known[name], value):
            yield Fault(
                (*steps, name), f"{templates.worded(value)} is nothing that {name} may be", _may_be(known[name])
            )
    for text in space.constraints if not missing else ():
        try:
            fits = holds(text, given)
        except ConstraintError as error:
            yield Fault(steps, str(error), "correct the constraint, or the set")
            continue
        if not fits:
            yield Fault(steps, f"does not keep the constraint {text!r}", "take the set out, or the constraint")


def _may_be(parameter: Parameter) -> str:
    if parameter.choices:
        listed = [templates.worded(each) for each in parameter.choices[:_LISTED]]
        return f"write one of {', '.join([*listed, *(['…'] if len(parameter.choices) > _LISTED else [])])}"
    return "write a value in its range and step"


def _objective(space: Space) -> Iterator[Fault]:
    if of_test_data(space.objective.metric):
        message = f"{space.objective.metric} is told of the test data, by which no set may be chosen"
        yield Fault(("objective", "metric"), message, "name a metric of the validation data, such as val_accuracy")
    if space.objective.metrics_format is None:
        return
    steps = ("objective", "metricsFormat")
    if found := metrics_format.fault(space.objective.metrics_format):
        yield Fault(steps, found, r"write one such as 'accuracy=(?P<value>[0-9.]+)'")
    if space.objective.target is not None:
        message = "the target is compared in the pod, with metrics.jsonl and not with the log"
        yield Fault(steps, message, "leave out objective.target, or have the program write metrics.jsonl")


def _templates(space: Space) -> Iterator[Fault]:
    places: list[tuple[tuple[str | int, ...], str]] = [(("args", index), text) for index, text in enumerate(space.args)]
    places += [(("env", name), text) for name, text in space.env.items()]
    used: set[str] = set()
    for steps, text in places:
        for name in templates.named(text):
            used.add(name)
            if name.startswith("$"):
                yield Fault(steps, f"{name} names no parameter", "write ${parameters.<name>}")
            elif name not in space.parameters:
                yield Fault(steps, f"there is no parameter {name}", nearest(name, space.parameters))
            elif steps[0] == "args" and space.parameters[name].when and text == f"${{parameters.{name}}}":
                message = f"is left out where {name} is not there, and the word before it would stay"
                yield Fault(steps, message, f"write both as one argument, such as --{name}={text}")
        if not any(name.startswith("$") for name in templates.named(text)):
            yield from _replaced(space, steps, text)
    for name in [each for each in space.parameters if each not in used and space.file is None]:
        remedy = f"use ${{parameters.{name}}} in args or env, or say under file where the program reads hyperparams.yml"
        yield Fault(("parameters", name), "is used by no argument and no variable, so it would change nothing", remedy)


def _variables(space: Space) -> Iterator[Fault]:
    for name in space.env:
        if not _VARIABLE.fullmatch(name):
            remedy = "use letters, digits, '_', '-' and '.', with no digit at its beginning"
            yield Fault(("env", name), "is not a good name for a variable", remedy)
        elif name.startswith(_GIVEN) or name in _GIVEN_WHOLE:
            yield Fault(("env", name), f"{name} is given to every trial", "choose another name")


def _replaced(space: Space, steps: tuple[str | int, ...], text: str) -> Iterator[Fault]:
    """What would not reach the program as it is written: in the template itself, or in the values that fill it."""
    names = set(templates.named(text))
    plain = dict.fromkeys(names, 0)
    if _KUBERNETES.search(templates.filled(text, plain) or ""):
        yield Fault(steps, "$(…) and $$ are Kubernetes' own, and not filled in here", "write the value out")
        return
    # The wrapper fills in its own in arguments alone.
    where, replaced, in_args = f"env.{steps[1]}", "$(…) and $$", steps[0] == "args"
    if in_args:
        where, replaced = f"args[{steps[1]}]", "$(…), $$ and $TRAINSTACK_…"
    for name in sorted(names & space.parameters.keys()):
        key = "values" if space.parameters[name].values else "categorical"
        for index, value in enumerate(space.parameters[name].choices):
            # The bracket stands for another parameter's value: `$` before it would be too much.
            filled = templates.filled(text, {**dict.fromkeys(names, "("), name: value}) or ""
            if isinstance(value, str) and (_KUBERNETES.search(filled) or (in_args and "$TRAINSTACK_" in value)):
                message = f"{value} would not come into {where} as it is: {replaced} are replaced there"
                remedy = "write it without, or say under file where the program reads hyperparams.yml"
                yield Fault(("parameters", name, key, index), message, remedy)
