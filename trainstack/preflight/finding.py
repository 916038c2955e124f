"""What a check finds."""

from dataclasses import asdict, dataclass
from typing import Any

from trainstack.kueue.verdict import Verdict
from trainstack.preflight.rule import SEVERITIES, Rule, Severity, Violation
from trainstack.settings.errors import Place, printable


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or may be, and the rule that explains it."""

    rule: Rule
    severity: Severity
    path: str
    """The value, as `settings.values.paths` writes it."""
    message: str
    remedy: str
    where: Place | None = None
    """Where a file sets the value, or what encloses it; None when the settings came from no file."""
    silenced: str = ""
    """Why it may stay, where the environment says so; else empty."""

    @classmethod
    def of(cls, rule: Rule, violation: Violation, where: Place | None = None) -> "Finding":
        """A violation of a rule."""
        severity = violation.severity or rule.severity
        return cls(rule, severity, violation.path, violation.message, violation.remedy, where)

    @property
    def id(self) -> str:
        """The rule's id; docs/checks.md has a section for it."""
        return self.rule.id

    @property
    def stops(self) -> bool:
        """Whether the change must not go on."""
        return self.severity == "error" and not self.silenced

    @property
    def order(self) -> tuple[bool, int, Place, str, str, str]:
        """Sorts by severity, then by file and line; what is silenced comes last."""
        severity = SEVERITIES.index(self.severity)
        return bool(self.silenced), severity, self.where or Place(""), self.path, self.id, self.message

    def as_data(self) -> dict[str, Any]:
        """The finding for `trainstack check --json`: the rule by its id."""
        found = {"id": self.id, **{name: getattr(self, name) for name in ("severity", "path", "message", "remedy")}}
        return {**found, "where": self.where and asdict(self.where), "silenced": self.silenced}

    def __str__(self) -> str:
        # A fault of a whole file has no path; one of settings that no file set has no place.
        subject = "".join(f"{each}: " for each in (self.where, self.path) if each)
        told = f"{self.severity} [{self.id}] {subject}{'; '.join(filter(None, [self.message, self.remedy]))}"
        return printable(told)


@dataclass(frozen=True)
class Checked:
    """What was found out about an environment."""

    findings: list[Finding]
    """The worst first, then by file and line; what is silenced comes last."""
    verdicts: list[Verdict]
    """Of each run that Kueue holds, in their order."""
