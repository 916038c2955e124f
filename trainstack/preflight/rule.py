"""A rule: its id, severity and explanation, written once beside the function that applies it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Severity = Literal["error", "warning", "unknown"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "unknown")
"""From what stops a change to what these files or credentials cannot answer."""

Context = TypeVar("Context")
"""What a rule looks at: the declared settings, or the settings and a cluster."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a rule is violated, or may be."""

    path: str
    """The value, as `settings.values.paths` writes it."""
    message: str
    remedy: str
    severity: Severity | None = None
    """None for the rule's own severity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What docs/checks.md and `trainstack explain` show of a rule. Texts are Markdown.

    As a decorator it makes a Check of the function that applies the rule.
    """

    id: str
    severity: Severity
    """Of a violation that names no other."""
    may_be: tuple[Severity, ...] = ()
    """The other severities that its violations have."""
    summary: str
    """One sentence: what is wrong."""
    details: str = ""
    """Further sentences: the consequence, exceptions, sources."""
    example: str = ""
    change: str = ""
    """An example in YAML: a change of the environment `dev` that violates this rule, and no other."""
    remedy: str
    formerly: tuple[str, ...] = ()
    """Other ids that its findings have had: `silenced` still takes them, with a warning that names this one."""
    silenceable: bool = True
    """False where Kueue, the API server or a build refuses the object anyway: a silence would delay the failure."""

    @property
    def severities(self) -> tuple[Severity, ...]:
        """All that its violations have, the usual one first."""
        return (self.severity, *self.may_be)

    def __call__(self, find: "Callable[[Context], Iterable[Violation]]") -> "Check[Context]":
        """Bind the rule to the function that applies it."""
        return Check(self, find)


@dataclass(frozen=True, slots=True)
class Check(Generic[Context]):
    """A rule and the function that applies it to one kind of context."""

    rule: Rule
    find: Callable[[Context], Iterable[Violation]]
