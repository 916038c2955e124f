"""Constraints between parameters: comparisons such as `batch_size * lr <= 1`, in Python's spelling.

What is taken: numbers, text, `True`, `False`, parameters by name, `+ - * / // %`, comparisons, `in` a list, `and`,
`or`, `not` and brackets.
"""

import ast
from collections.abc import Mapping
from functools import cache
from types import CodeType

Value = bool | int | float | str
"""What a parameter may be."""

_TAKEN = (
    *(ast.Expression, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Name, ast.List, ast.Tuple, ast.Load),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.USub, ast.And, ast.Or, ast.Not),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn),
)


class ConstraintError(ValueError):
    """A constraint that cannot be read, or that has no answer for a set."""


@cache
def names(text: str) -> frozenset[str]:
    """The parameters that a constraint names. Raises ConstraintError."""
    return frozenset(node.id for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name))


def holds(text: str, parameters: Mapping[str, Value]) -> bool:
    """Whether a set is as the constraint wants it; one that lacks a parameter which the constraint names is.

    Raises ConstraintError where there is no answer: a division by zero, or text compared with a number.
    """
    if not names(text) <= parameters.keys():
        return True
    try:
        # `_parsed` takes no call and no attribute, so there is nothing that could be done here but to compare.
        return bool(eval(_compiled(text), {"__builtins__": {}}, dict(parameters)))  # noqa: S307
    except (ArithmeticError, MemoryError, TypeError, ValueError) as error:
        raise ConstraintError(f"{text!r} has no answer for {dict(parameters)}: {error}") from None


@cache
def _compiled(text: str) -> CodeType:
    return compile(_parsed(text), "constraint", "eval")


def _parsed(text: str) -> ast.Expression:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConstraintError(f"{text!r} is no comparison") from None
    for node in ast.walk(tree):
        constant = isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str)
        if not constant and not isinstance(node, _TAKEN):
            raise ConstraintError(f"{text!r} holds {ast.unparse(node)!r}, which is not taken")
    if not isinstance(tree.body, ast.Compare | ast.BoolOp | ast.UnaryOp):
        raise ConstraintError(f"{text!r} is no comparison")
    return tree
