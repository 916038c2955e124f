"""What a check finds."""

from dataclasses import dataclass
from typing import Literal

from checks.admission.verdict import Verdict
from settings.errors import Place, printable

Severity = Literal["error", "warning", "unknown"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "unknown")
"""From what stops a deployment to what cannot be told from here: another stack or another person declares it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or may be. docs/checks.md has a section for each `id`."""

    id: str
    severity: Severity
    path: str
    """The value, as `settings.paths` writes it."""
    message: str
    remedy: str
    where: Place | None = None
    """Where a file sets the value, or what encloses it; None when the settings came from no file."""
    silenced: str = ""
    """Why it may stay, where the environment says so; else empty."""

    @property
    def stops(self) -> bool:
        """Whether the change must not go on."""
        return self.severity == "error" and not self.silenced

    @property
    def order(self) -> tuple[bool, int, Place, str, str, str]:
        """Sorts by severity, then by file and line; what is silenced comes last."""
        severity = SEVERITIES.index(self.severity)
        return bool(self.silenced), severity, self.where or Place(""), self.path, self.id, self.message

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
