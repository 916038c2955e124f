"""Faults in an environment's files, each with its place and remedy, all reported at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from trainstack.errors import TrainstackError
from trainstack.printable import printable

_MAX_COMPARED_CHARACTERS = 200
_MAX_LISTED_NAMES = 50
ENGINE = "the engine's configuration"
"""Replaces the file name for a value that the engine passes and the stack's file does not contain."""


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """A position in a file of the project; lines and columns count from 1, line 0 is the whole file."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, order=True, slots=True)
class Finding:
    """One fault. `path` has the form of `settings.values.paths`; it is empty for a fault of the file itself."""

    where: Place
    path: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return printable(str(TrainstackError(self.message, self.remedy, path=self.path, where=str(self.where))))


class SettingsError(TrainstackError):
    """The faults of an environment or a sweep, sorted by file and line, without duplicates.

    `subject`: the noun before `name` in the message, `environment` or `sweep`.
    """

    def __init__(self, name: str, findings: Iterable[Finding], what: str = "environment") -> None:
        # A value that several runs share has one finding for each of them; the first path represents them all.
        unique = {(found.where, found.message, found.remedy): found for found in sorted(findings, reverse=True)}
        self.name = name
        self.what = what
        self.findings = tuple(sorted(unique.values()))
        count = len(self.findings)
        head = f"{what} {name!r} has {count} {'fault' if count == 1 else 'faults'}:"
        super().__init__("\n".join([head, *(f"  {finding}" for finding in self.findings)]))


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the valid name that is most similar to a misspelled word, whatever the case and '_', or None."""
    if len(word) > _MAX_COMPARED_CHARACTERS:
        return None
    folded = {name.lower().replace("_", ""): name for name in sorted(known) if len(name) <= _MAX_COMPARED_CHARACTERS}
    close = get_close_matches(word.lower().replace("_", ""), folded, n=1)
    return folded[close[0]] if close else None


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown name: the most similar valid name, or else a list of the valid names."""
    names = sorted(known)
    if (close := closest(word, names)) is not None:
        return f"did you mean {close}?"
    listed = ", ".join([*names[:_MAX_LISTED_NAMES], *(["…"] if len(names) > _MAX_LISTED_NAMES else [])])
    return f"valid names: {listed}" if names else "no name is valid here"
