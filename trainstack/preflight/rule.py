"""Rules: the id, severity and texts of a rule, declared once on the function that applies it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar

Severity = Literal["error", "warning", "unknown"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "unknown")

C = TypeVar("C")
"""The context that a rule examines: the declared settings, or the settings and a cluster."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a rule is violated, or may be."""

    path: str
    """The value, as `settings.values.paths` writes it."""
    message: str
    remedy: str | None = None
    """None for the rule's own remedy."""
    severity: Severity | None = None
    """None for the rule's own severity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What docs/checks.md and `trainstack explain` show of a rule. Texts are Markdown.

    As a decorator it makes a Check of the function that applies the rule.
    """

    id: str
    severity: Severity = "error"
    """Of a violation that sets no severity."""
    may_be: tuple[Severity, ...] = ()
    """The other severities of its violations."""
    summary: str
    """One sentence: what is wrong."""
    details: str = ""
    """Further sentences: the consequence, exceptions, sources."""
    example: str = ""
    change: str = ""
    """An example in YAML: a change of the environment `dev` that violates this rule, and no other."""
    remedy: str
    silenceable: bool = True
    """False where Kueue, the API server or a build refuses the object anyway: a silence would delay the failure."""

    @property
    def severities(self) -> tuple[Severity, ...]:
        return (self.severity, *self.may_be)

    @property
    def hint(self) -> str:
        """The remedy as the end of a finding's line."""
        return f"{self.remedy[0].lower()}{self.remedy[1:]}".removesuffix(".")

    def __call__(self, find: "Callable[[C], Iterable[Violation]]") -> "Check[C]":
        return Check(self, find)


@dataclass(frozen=True, slots=True)
class Check(Generic[C]):
    """A rule and the function that applies it to one kind of context."""

    rule: Rule
    find: Callable[[C], Iterable[Violation]]


def checks(*modules: ModuleType) -> dict[str, Check[Any]]:
    """Return the checks that these modules define, by rule id, in the order of their definition."""
    return {
        check.rule.id: check
        for module in modules
        for check in vars(module).values()
        if isinstance(check, Check) and check.find.__module__ == module.__name__
    }
