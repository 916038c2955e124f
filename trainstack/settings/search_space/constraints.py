"""Constraints between parameters: comparisons such as `batch_size * lr <= 1`, in Python's spelling.

What is taken: numbers, text, `True`, `False`, parameters by name, `+ - * / // %` of numbers, comparisons, `in` a list,
`and`, `or`, `not` and brackets. A constraint has at most `MOST_CHARACTERS`, and its numbers end at `GREATEST_NUMBER`:
no constraint takes much time or memory. It is interpreted, never run as Python.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

Value = bool | int | float | str
"""What a parameter may be."""

MOST_CHARACTERS = 1_000
"""Of one constraint."""
GREATEST_NUMBER = 10**308
"""Of whatever a constraint computes, above or below 0: nearly the greatest float."""
_MOST_LEVELS = 50
"""Operations within operations, which are read by recursion."""
_NESTED = re.compile(rf"(?:(?:[-+~(\[]|\bnot\b)\s*){{{_MOST_LEVELS + 1}}}")
"""Too many signs, brackets or `not` in a row: the parser would recurse as deep before they are counted."""

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
    ast.In: lambda one, others: one in others,
    ast.NotIn: lambda one, others: one not in others,
}


class ConstraintError(ValueError):
    """A constraint that cannot be read, or that has no answer for a set."""


@cache
def names(text: str) -> frozenset[str]:
    """The parameters that a constraint names. Raises ConstraintError."""
    return _read(text)[1]


def holds(text: str, parameters: Mapping[str, Value]) -> bool:
    """Whether a set is as the constraint wants it; one that lacks a parameter which the constraint names is.

    Raises ConstraintError where there is no answer: a division by zero, or text compared with a number.
    """
    compiled, named = _read(text)
    if not named <= parameters.keys():
        return True
    try:
        return bool(compiled(parameters))
    except (ArithmeticError, TypeError, ValueError) as error:
        shown = {name: parameters[name] for name in sorted(named)}
        raise ConstraintError(f"{text!r} has no answer for {shown}: {error}") from None


@cache
def _read(text: str) -> tuple[_Compiled, frozenset[str]]:
    if len(text) > MOST_CHARACTERS:
        raise ConstraintError(
            f"{text[:50]!r}… has {len(text)} characters, but a constraint has at most {MOST_CHARACTERS}"
        )
    if _NESTED.search(text):
        raise ConstraintError(f"{text[:50]!r}… is nested more than {_MOST_LEVELS} deep")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConstraintError(f"{text!r} is no comparison") from None
    if not isinstance(body, ast.Compare | ast.BoolOp | ast.UnaryOp):
        raise ConstraintError(f"{text!r} is no comparison")
    compiled = _Compiler(text).of(body)
    return compiled, frozenset(node.id for node in ast.walk(body) if isinstance(node, ast.Name))


class _Compiler:
    """Compiles an expression to a function of a set's values."""

    def __init__(self, text: str) -> None:
        self.text = text

    def of(self, node: ast.expr, level: int = 0) -> _Compiled:
        """The function of one operation, with those of its parts."""
        if level > _MOST_LEVELS:
            raise ConstraintError(f"{self.text!r} nests more than {_MOST_LEVELS} operations")
        below = level + 1
        match node:
            case ast.Constant() | ast.Name():
                return self._leaf(node)
            case ast.BoolOp(op=ast.And() | ast.Or() as op, values=values):
                return _either([self.of(each, below) for each in values], every=isinstance(op, ast.And))
            case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=operand):
                inner = self.of(operand, below)
                negated = isinstance(op, ast.USub)
                return lambda given: -_number(inner(given)) if negated else not inner(given)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _computed(_ARITHMETIC[type(op)], self.of(left, below), self.of(right, below))
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
                return self._compared([left, *others], ops, below)
        raise self._strange(node)

    def _leaf(self, node: ast.Constant | ast.Name) -> _Compiled:
        if isinstance(node, ast.Name):
            name = node.id
            return lambda given: given[name]
        value = node.value
        if not isinstance(value, bool | int | float | str):
            raise self._strange(node)
        return lambda _: value

    def _compared(self, values: list[ast.expr], ops: list[ast.cmpop], level: int) -> _Compiled:
        parts = [self.of(values[0], level)]
        for value, op in zip(values[1:], ops, strict=True):
            listed = isinstance(op, ast.In | ast.NotIn)
            parts.append(self._listed(value, level) if listed else self.of(value, level))
        steps = [_COMPARISONS[type(op)] for op in ops]

        def compared(given: _Given) -> bool:
            # As in Python: `1 < a < 3` ends at the first pair that does not hold.
            left = parts[0](given)
            for step, part in zip(steps, parts[1:], strict=True):
                right = part(given)
                if not step(left, right):
                    return False
                left = right
            return True

        return compared

    def _listed(self, node: ast.expr, level: int) -> _Compiled:
        """The operand after `in`."""
        if not isinstance(node, ast.List | ast.Tuple):
            raise self._strange(node)
        elements = [self.of(each, level + 1) for each in node.elts]
        return lambda given: [each(given) for each in elements]

    def _strange(self, node: ast.expr) -> ConstraintError:
        part = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        return ConstraintError(f"{self.text!r} holds {part!r}, which is not taken")


def _either(parts: list[_Compiled], *, every: bool) -> _Compiled:
    """The first value that decides `and` (`every`) or `or`, as in Python."""

    def decided(given: _Given) -> object:
        value: object = None
        for part in parts:
            value = part(given)
            if bool(value) is not every:
                return value
        return value

    return decided


def _computed(compute: _Operator, left: _Compiled, right: _Compiled) -> _Compiled:
    def computed(given: _Given) -> float:
        value: float = compute(_number(left(given)), _number(right(given)))
        if not -GREATEST_NUMBER <= value <= GREATEST_NUMBER:
            raise OverflowError("a number exceeds 10^308")
        return value

    return computed


def _number(value: Value) -> float:
    """The value as an operand of arithmetic. Text is refused, so that no text grows."""
    if isinstance(value, str):
        raise TypeError(f"{value[:50]!r} is text, and arithmetic is on numbers only")
    return value
