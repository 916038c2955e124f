"""Mutants of functions: one that finds nothing, and for each condition one that negates it."""

import ast
import copy
import inspect
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, ModuleType

from trainstack.preflight.rule import Check

_LONGEST_SECONDS = 3.0
"""The CPU time of one judge: a loop whose condition is negated may not end."""

Judge = Callable[[], None]
"""A check that passes with the original functions."""


@dataclass(frozen=True)
class Mutant:
    """A function and the code that replaces its body."""

    function: FunctionType
    change: str
    """A description of the change for the report."""
    code: CodeType

    def __str__(self) -> str:
        return f"{self.function.__module__}.{self.function.__name__}: {self.change}"


class _TooLong(BaseException):
    """The judge ran out of time, which counts as noticing the mutant."""


def functions(module: ModuleType) -> list[FunctionType]:
    """Return the functions that a module defines, in order, including those of rules."""
    values = [value.find if isinstance(value, Check) else value for value in vars(module).values()]
    all_functions = [value for value in values if isinstance(value, FunctionType)]
    return [function for function in all_functions if function.__module__ == module.__name__]


def mutants(function: FunctionType) -> Iterator[Mutant]:
    """Yield the mutants of a function."""
    tree = _parsed(function)
    if inspect.isgeneratorfunction(function):
        yield Mutant(function, "finds nothing", _compiled(function, _with_body(tree, "return\nyield")))
    for parent, field, place in list(_conditions(tree)):
        condition = _get(parent, field, place)
        _set(parent, field, place, ast.copy_location(ast.UnaryOp(ast.Not(), condition), condition))
        code = _compiled(function, tree)
        _set(parent, field, place, condition)
        yield Mutant(function, f"line {condition.lineno}: not ({ast.unparse(condition)})", code)


def noticed_by(mutant: Mutant, judges: Iterable[Judge]) -> Judge | None:
    """Return the first judge that notices the mutant. A judge notices it by raising any exception."""
    with _broken(mutant):
        for judge in judges:
            try:
                with limited():
                    judge()
            except (Exception, _TooLong):  # noqa: BLE001 (any way of failing will do)
                return judge
    return None


def _parsed(function: FunctionType) -> ast.FunctionDef:
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(inspect.cleandoc("".join(lines)) if lines[0].startswith(" ") else "".join(lines))
    ast.increment_lineno(tree, first - 1)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    return definition


def _with_body(tree: ast.FunctionDef, body: str) -> ast.FunctionDef:
    copied = copy.deepcopy(tree)
    copied.body = ast.parse(f"def f():\n {body.replace(chr(10), chr(10) + ' ')}").body[0].body  # type: ignore[attr-defined]
    return copied


def _compiled(function: FunctionType, tree: ast.FunctionDef) -> CodeType:
    module = ast.fix_missing_locations(ast.Module([tree], type_ignores=[]))
    names = dict(function.__globals__)
    exec(compile(module, function.__code__.co_filename, "exec"), names)
    code: CodeType = names[function.__name__].__code__
    return code


def _conditions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Yield the places of conditions in branches, loops and comprehensions, and of operands of their `and` and `or`.

    An `or` that sets a default (`name or "none"`) is not a condition.
    """
    for node in ast.walk(tree):
        conditions: list[tuple[ast.AST, str, int | None]] = []
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            conditions = [(node, "test", None)]
        elif isinstance(node, ast.comprehension):
            conditions = [(node, "ifs", place) for place in range(len(node.ifs))]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("any", "all"):
            conditions = [(argument, "elt", None) for argument in node.args if isinstance(argument, ast.GeneratorExp)]
        elif isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name) and node.returns.id == "bool":
            conditions = [(inner, "value", None) for inner in ast.walk(node) if isinstance(inner, ast.Return)]
        for condition in conditions:
            yield condition
            yield from _parts(_get(*condition))


def _parts(condition: ast.expr) -> Iterator[tuple[ast.AST, str, int | None]]:
    if isinstance(condition, ast.BoolOp):
        for place, part in enumerate(condition.values):
            yield condition, "values", place
            yield from _parts(part)


def _get(parent: ast.AST, field: str, place: int | None) -> ast.expr:
    expression: ast.expr = getattr(parent, field) if place is None else getattr(parent, field)[place]
    return expression


def _set(parent: ast.AST, field: str, place: int | None, value: ast.expr) -> None:
    if place is None:
        setattr(parent, field, value)
    else:
        getattr(parent, field)[place] = value


@contextmanager
def _broken(mutant: Mutant) -> Iterator[None]:
    original = mutant.function.__code__
    mutant.function.__code__ = mutant.code
    try:
        yield
    finally:
        mutant.function.__code__ = original


@contextmanager
def limited() -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _TooLong

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
