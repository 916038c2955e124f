"""Constraints between parameters: comparisons such as `batch_size * lr <= 1`, in Python's syntax.

A constraint may use numbers, strings, `True`, `False`, names of parameters, `+ - * / // %` of numbers, comparisons,
`in` a list, `and`, `or`, `not` and parentheses. It is interpreted, never executed as Python; limits on its length,
nesting and numbers bound time and memory.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from trainstack.errors import TrainstackError

Value = bool | int | float | str
"""The value of a parameter."""

MOST_CHARACTERS = 1_000
"""Characters of one constraint."""
GREATEST_NUMBER = 10**308
"""The limit of the absolute value of a computed number: nearly the greatest float."""
_MAX_LEVELS = 50
"""Levels of nested operations, which are compiled by recursion."""
_NESTED = re.compile(rf"(?:(?:[-+~(\[]|\bnot\b)\s*){{{_MAX_LEVELS + 1}}}")
"""So many signs, brackets or `not` in a row that Python's parser would recurse too deep."""

_Given = Mapping[str, Value]
_Compiled = Callable[[_Given], Any]
_Operator = Callable[[Any, Any], Any]
_ARITHMETIC: Mapping[type[ast.operator], _Operator] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Mapping[type[ast.cmpop], _Operator] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, values: value in values,
    ast.NotIn: lambda value, values: value not in values,
}


class ConstraintError(TrainstackError, ValueError):
    """The error of a constraint that cannot be parsed, or cannot be evaluated for a set."""


@cache
def names(text: str) -> frozenset[str]:
    """Return the names of the parameters in a constraint. Raises ConstraintError if it is invalid."""
    return _compile(text)[1]


def holds(text: str, parameters: Mapping[str, Value]) -> bool:
    """Return whether a set meets the constraint, or lacks one of its parameters.

    Raises ConstraintError if the constraint cannot be evaluated, such as for 1 / 0.
    """
    compiled, named = _compile(text)
    if not named <= parameters.keys():
        return True
    try:
        return bool(compiled(parameters))
    except (ArithmeticError, TypeError, ValueError) as error:
        values = {name: parameters[name] for name in sorted(named)}
        raise ConstraintError(f"{text!r} cannot be evaluated for {values}: {error}") from None


@cache
def _compile(text: str) -> tuple[_Compiled, frozenset[str]]:
    if len(text) > MOST_CHARACTERS:
        raise ConstraintError(
            f"{text[:50]!r}… has {len(text)} characters, but a constraint has at most {MOST_CHARACTERS}"
        )
    if _NESTED.search(text):
        raise ConstraintError(f"{text[:50]!r}… is nested more than {_MAX_LEVELS} deep")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = None
    if not isinstance(body, ast.Compare | ast.BoolOp | ast.UnaryOp):
        raise ConstraintError(f"{text!r} is not a comparison")
    return _function(text, body), frozenset(node.id for node in ast.walk(body) if isinstance(node, ast.Name))


def _function(text: str, node: ast.expr, level: int = 0) -> _Compiled:
    """Compile an expression of the constraint `text` to a function of a set's values."""
    if level > _MAX_LEVELS:
        raise ConstraintError(f"{text!r} nests more than {_MAX_LEVELS} operations")
    # Everything that no case matches is refused: calls, attributes and subscripts are never compiled.
    of = partial(_function, text, level=level + 1)
    match node:
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return lambda _: value
        case ast.BoolOp(op=op, values=values):
            return _junction(list(map(of, values)), every=isinstance(op, ast.And))
        case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=operand):
            inner = of(operand)
            negated = isinstance(op, ast.USub)
            return lambda given: -_number(inner(given)) if negated else not inner(given)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _computed(_ARITHMETIC[type(op)], of(left), of(right))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
            list_of = partial(_list, text, level=level + 1)
            pairs = zip(ops, others, strict=True)
            rest = [list_of(value) if isinstance(op, ast.In | ast.NotIn) else of(value) for op, value in pairs]
            return _compared(of(left), [_COMPARISONS[type(op)] for op in ops], rest)
    raise _unsupported(text, node)


def _list(text: str, node: ast.expr, level: int) -> _Compiled:
    if not isinstance(node, ast.List | ast.Tuple):
        raise _unsupported(text, node)
    elements = [_function(text, element, level + 1) for element in node.elts]
    return lambda given: [element(given) for element in elements]


def _unsupported(text: str, node: ast.expr) -> ConstraintError:
    part = ast.get_source_segment(text.strip(), node) or type(node).__name__
    return ConstraintError(f"{text!r} contains {part!r}, which is not supported")


def _compared(first: _Compiled, steps: list[_Operator], rest: list[_Compiled]) -> _Compiled:
    def compared(given: _Given) -> bool:
        # As in Python: `1 < a < 3` ends at the first pair that does not hold.
        left = first(given)
        for step, part in zip(steps, rest, strict=True):
            right = part(given)
            if not step(left, right):
                return False
            left = right
        return True

    return compared


def _junction(parts: list[_Compiled], *, every: bool) -> _Compiled:
    """Compile `and` (`is_and`) or `or`, which return the deciding value, as in Python."""

    def evaluate(given: _Given) -> object:
        value: object = None
        for part in parts:
            value = part(given)
            if bool(value) is not every:
                return value
        return value

    return evaluate


def _computed(compute: _Operator, left: _Compiled, right: _Compiled) -> _Compiled:
    def computed(given: _Given) -> float:
        value: float = compute(_number(left(given)), _number(right(given)))
        if not -GREATEST_NUMBER <= value <= GREATEST_NUMBER:
            raise OverflowError("a number exceeds 10^308")
        return value

    return computed


def _number(value: Value) -> float:
    """Return a number; raise TypeError for a string, whose repetition could need much memory."""
    if isinstance(value, str):
        raise TypeError(f"{value[:50]!r} is a string; arithmetic requires numbers")
    return value
