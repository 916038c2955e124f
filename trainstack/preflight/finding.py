"""Findings of the rules."""

from dataclasses import asdict, dataclass
from typing import Any

from trainstack.kueue.verdict import Verdict
from trainstack.preflight.rule import SEVERITIES, Rule, Severity, Violation
from trainstack.printable import printable
from trainstack.settings.errors import Place


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of a rule, with its place in the files and the reason of a silence."""

    rule: Rule
    severity: Severity
    path: str
    """Path of the value, in the notation of `settings.values.paths`; empty for a whole file."""
    message: str
    remedy: str
    where: Place | None = None
    """File and line of the value, or of its nearest enclosing value; None if the settings are not from a file."""
    silence_reason: str = ""
    """Reason from `checks.silenced`; empty if no silence matches."""

    @classmethod
    def from_violation(cls, rule: Rule, violation: Violation, where: Place | None = None) -> "Finding":
        remedy = rule.hint if violation.remedy is None else violation.remedy
        return cls(rule, violation.severity or rule.severity, violation.path, violation.message, remedy, where)

    @property
    def id(self) -> str:
        return self.rule.id

    @property
    def is_blocking(self) -> bool:
        """Whether the change must be refused: an error that is not silenced."""
        return self.severity == "error" and not self.silence_reason

    @property
    def sort_key(self) -> tuple[bool, int, Place, str, str, str]:
        """Key that sorts silenced findings last, and the others by severity, file and line."""
        severity = SEVERITIES.index(self.severity)
        return bool(self.silence_reason), severity, self.where or Place(""), self.path, self.id, self.message

    def as_data(self) -> dict[str, Any]:
        """Return the object that `trainstack check --json` prints."""
        data = {"id": self.id, **{name: getattr(self, name) for name in ("severity", "path", "message", "remedy")}}
        return {**data, "where": self.where and asdict(self.where), "silenced": self.silence_reason}

    def __str__(self) -> str:
        subject = "".join(f"{part}: " for part in (self.where, self.path) if part)
        return printable(f"{self.severity} [{self.id}] {subject}{'; '.join(filter(None, [self.message, self.remedy]))}")


@dataclass(frozen=True)
class CheckResult:
    """Findings and verdicts of one check of an environment."""

    findings: list[Finding]
    """Sorted by their sort key."""
    verdicts: list[Verdict]
    """One per queued run."""
