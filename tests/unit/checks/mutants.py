"""Broken versions of functions: one that finds nothing, and for each condition one in which it is turned around."""

import ast
import copy
import inspect
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, ModuleType

from trainstack.preflight.rule import Check

_LONGEST_SECONDS = 0.25
"""Of the processor's time, for one judge: a loop whose condition is turned around may not end."""

Judge = Callable[[], None]
"""Passes while all is whole."""


@dataclass(frozen=True)
class Mutant:
    """A function and another body for it."""

    function: FunctionType
    change: str
    """What is different, for people."""
    code: CodeType

    def __str__(self) -> str:
        return f"{self.function.__module__}.{self.function.__name__}: {self.change}"


class _TooLong(BaseException):
    """A mutant that does not end is noticed."""


def functions(module: ModuleType) -> list[FunctionType]:
    """The functions that a module defines, in their order, those of rules among them."""
    defined = [each.find if isinstance(each, Check) else each for each in vars(module).values()]
    found = [each for each in defined if isinstance(each, FunctionType)]
    return [each for each in found if each.__module__ == module.__name__]


def mutants(function: FunctionType) -> Iterator[Mutant]:
    """Each way in which a function is broken."""
    tree = _parsed(function)
    if inspect.isgeneratorfunction(function):
        yield Mutant(function, "finds nothing", _compiled(function, _with_body(tree, "return\nyield")))
    for parent, field, place in list(_conditions(tree)):
        said = _get(parent, field, place)
        _set(parent, field, place, ast.copy_location(ast.UnaryOp(ast.Not(), said), said))
        code = _compiled(function, tree)
        _set(parent, field, place, said)
        yield Mutant(function, f"line {said.lineno}: not ({ast.unparse(said)})", code)


def noticed_by(mutant: Mutant, judges: Iterable[Judge]) -> Judge | None:
    """The first judge that notices. What is raised while a function is broken, whatever it is, is noticing."""
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
    (found,) = tree.body
    assert isinstance(found, ast.FunctionDef)
    found.decorator_list = []
    return found


def _with_body(tree: ast.FunctionDef, body: str) -> ast.FunctionDef:
    other = copy.deepcopy(tree)
    other.body = ast.parse(f"def f():\n {body.replace(chr(10), chr(10) + ' ')}").body[0].body  # type: ignore[attr-defined]
    return other


def _compiled(function: FunctionType, tree: ast.FunctionDef) -> CodeType:
    module = ast.fix_missing_locations(ast.Module([tree], type_ignores=[]))
    names = dict(function.__globals__)
    exec(compile(module, function.__code__.co_filename, "exec"), names)
    code: CodeType = names[function.__name__].__code__
    return code


def _conditions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Where conditions stand: of branches, loops and comprehensions, and each part of an `and` or `or` among them.

    An `or` that gives a default (`name or "none"`) is no condition.
    """
    for node in ast.walk(tree):
        whole: list[tuple[ast.AST, str, int | None]] = []
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            whole = [(node, "test", None)]
        elif isinstance(node, ast.comprehension):
            whole = [(node, "ifs", place) for place in range(len(node.ifs))]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("any", "all"):
            whole = [(each, "elt", None) for each in node.args if isinstance(each, ast.GeneratorExp)]
        elif isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name) and node.returns.id == "bool":
            whole = [(each, "value", None) for each in ast.walk(node) if isinstance(each, ast.Return)]
        for each in whole:
            yield each
            yield from _parts(_get(*each))


def _parts(condition: ast.expr) -> Iterator[tuple[ast.AST, str, int | None]]:
    if isinstance(condition, ast.BoolOp):
        for place, part in enumerate(condition.values):
            yield condition, "values", place
            yield from _parts(part)


def _get(parent: ast.AST, field: str, place: int | None) -> ast.expr:
    found: ast.expr = getattr(parent, field) if place is None else getattr(parent, field)[place]
    return found


def _set(parent: ast.AST, field: str, place: int | None, value: ast.expr) -> None:
    if place is None:
        setattr(parent, field, value)
    else:
        getattr(parent, field)[place] = value


@contextmanager
def _broken(mutant: Mutant) -> Iterator[None]:
    whole = mutant.function.__code__
    mutant.function.__code__ = mutant.code
    try:
        yield
    finally:
        mutant.function.__code__ = whole


@contextmanager
def limited() -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
