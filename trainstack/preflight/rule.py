"""Rules, checks and violations. A rule is declared once, as the decorator of the function that applies it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar

Severity = Literal["error", "warning", "unknown"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "unknown")

C = TypeVar("C")
"""Type of the context that a rule examines: the declared settings, or the settings and a cluster."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One place that violates a rule, or may violate it."""

    path: str
    """Path of the value, in the notation of `settings.values.paths`."""
    message: str
    remedy: str | None = None
    """None: the remedy of the rule."""
    severity: Severity | None = None
    """None: the severity of the rule."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A rule, with the Markdown texts that docs/checks.md and `trainstack explain` show.

    As a decorator, it turns the function that applies the rule into a Check.
    """

    id: str
    severity: Severity = "error"
    """Severity of a violation that sets none."""
    may_be: tuple[Severity, ...] = ()
    """Other severities that its violations may set."""
    summary: str
    """One sentence: what is wrong."""
    details: str = ""
    """Further sentences: the consequence, exceptions, sources."""
    example: str = ""
    change: str = ""
    """An example in YAML: a change of a new owner's project that violates this rule and no other."""
    remedy: str
    silenceable: bool = True
    """False if Kueue, the API server or a build refuses the object anyway: a silence would only delay the failure."""

    @property
    def severities(self) -> tuple[Severity, ...]:
        return (self.severity, *self.may_be)

    @property
    def hint(self) -> str:
        """The remedy as the last clause of a finding: first letter in lower case, no period."""
        return f"{self.remedy[0].lower()}{self.remedy[1:]}".removesuffix(".")

    def __call__(self, find: "Callable[[C], Iterable[Violation]]") -> "Check[C]":
        return Check(self, find)


@dataclass(frozen=True, slots=True)
class Check(Generic[C]):
    """A rule and the function that applies it to one kind of context."""

    rule: Rule
    find: Callable[[C], Iterable[Violation]]


def collect_checks(*modules: ModuleType) -> dict[str, Check[Any]]:
    """Return the checks that these modules define, by rule id, in the order of their definition."""
    return {
        check.rule.id: check
        for module in modules
        for check in vars(module).values()
        if isinstance(check, Check) and check.find.__module__ == module.__name__
    }
