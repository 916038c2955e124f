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

MAX_CHARACTERS = 1_000
"""Characters of one constraint."""
MAX_NUMBER = 10**308
"""The limit of the absolute value of a computed number: nearly the greatest float."""
_MAX_LEVELS = 50
"""Levels of nested operations, which are compiled by recursion."""
_NESTED = re.compile(rf"(?:(?:[-+~(\[]|\bnot\b)\s*){{{_MAX_LEVELS + 1}}}")
"""So many signs, brackets or `not` in a row that Python's parser would recurse too deep."""

_Parameters = Mapping[str, Value]
_CompiledExpression = Callable[[_Parameters], Any]
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
def parameter_names(constraint: str) -> frozenset[str]:
    """Return the names of the parameters in a constraint. Raises ConstraintError if it is invalid."""
    return _compile(constraint)[1]


def is_satisfied(constraint: str, parameters: Mapping[str, Value]) -> bool:
    """Return whether a set meets the constraint, or lacks one of its parameters.

    Raises ConstraintError if the constraint cannot be evaluated, such as for 1 / 0.
    """
    compiled, used_names = _compile(constraint)
    if not used_names <= parameters.keys():
        return True
    try:
        return bool(compiled(parameters))
    except (ArithmeticError, TypeError, ValueError) as error:
        values = {name: parameters[name] for name in sorted(used_names)}
        raise ConstraintError(f"{constraint!r} cannot be evaluated for {values}: {error}") from None


@cache
def _compile(text: str) -> tuple[_CompiledExpression, frozenset[str]]:
    if len(text) > MAX_CHARACTERS:
        raise ConstraintError(
            f"{text[:50]!r}… has {len(text)} characters, but a constraint has at most {MAX_CHARACTERS}"
        )
    if _NESTED.search(text):
        raise ConstraintError(f"{text[:50]!r}… is nested more than {_MAX_LEVELS} deep")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = None
    if not isinstance(body, ast.Compare | ast.BoolOp | ast.UnaryOp):
        raise ConstraintError(f"{text!r} is not a comparison")
    return _compile_expression(text, body), frozenset(node.id for node in ast.walk(body) if isinstance(node, ast.Name))


def _compile_expression(text: str, node: ast.expr, level: int = 0) -> _CompiledExpression:
    """Compile an expression of the constraint `text` to a function of a set's values."""
    if level > _MAX_LEVELS:
        raise ConstraintError(f"{text!r} nests more than {_MAX_LEVELS} operations")
    # Everything that no case matches is refused: calls, attributes and subscripts are never compiled.
    compile_operand = partial(_compile_expression, text, level=level + 1)
    match node:
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return lambda _: value
        case ast.BoolOp(op=op, values=values):
            return _compile_junction(list(map(compile_operand, values)), is_and=isinstance(op, ast.And))
        case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=operand):
            evaluate_operand = compile_operand(operand)
            is_minus = isinstance(op, ast.USub)
            return lambda parameters: (
                -_require_number(evaluate_operand(parameters)) if is_minus else not evaluate_operand(parameters)
            )
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _compile_arithmetic(_ARITHMETIC[type(op)], compile_operand(left), compile_operand(right))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
            compile_list = partial(_compile_list, text, level=level + 1)
            pairs = zip(ops, others, strict=True)
            operands = [
                compile_list(value) if isinstance(op, ast.In | ast.NotIn) else compile_operand(value)
                for op, value in pairs
            ]
            return _compile_comparison(compile_operand(left), [_COMPARISONS[type(op)] for op in ops], operands)
    raise _unsupported_syntax(text, node)


def _compile_list(text: str, node: ast.expr, level: int) -> _CompiledExpression:
    if not isinstance(node, ast.List | ast.Tuple):
        raise _unsupported_syntax(text, node)
    elements = [_compile_expression(text, element, level + 1) for element in node.elts]
    return lambda parameters: [element(parameters) for element in elements]


def _unsupported_syntax(text: str, node: ast.expr) -> ConstraintError:
    segment = ast.get_source_segment(text.strip(), node) or type(node).__name__
    return ConstraintError(f"{text!r} contains {segment!r}, which is not supported")


def _compile_comparison(
    first_operand: _CompiledExpression, comparisons: list[_Operator], other_operands: list[_CompiledExpression]
) -> _CompiledExpression:
    def evaluate(parameters: _Parameters) -> bool:
        # As in Python: `1 < a < 3` ends at the first pair that does not hold.
        left = first_operand(parameters)
        for compare, operand in zip(comparisons, other_operands, strict=True):
            right = operand(parameters)
            if not compare(left, right):
                return False
            left = right
        return True

    return evaluate


def _compile_junction(operands: list[_CompiledExpression], *, is_and: bool) -> _CompiledExpression:
    """Compile `and` (`is_and`) or `or`, which return the deciding value, as in Python."""

    def evaluate(parameters: _Parameters) -> object:
        value: object = None
        for operand in operands:
            value = operand(parameters)
            if bool(value) is not is_and:
                return value
        return value

    return evaluate


def _compile_arithmetic(
    compute: _Operator, left: _CompiledExpression, right: _CompiledExpression
) -> _CompiledExpression:
    def evaluate(parameters: _Parameters) -> float:
        value: float = compute(_require_number(left(parameters)), _require_number(right(parameters)))
        if not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise OverflowError("a number exceeds 10^308")
        return value

    return evaluate


def _require_number(value: Value) -> float:
    """Return a number; raise TypeError for a string, whose repetition could need much memory."""
    if isinstance(value, str):
        raise TypeError(f"{value[:50]!r} is a string; arithmetic requires numbers")
    return value
