"""Faults in an environment's files, each with its place and remedy, all reported at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from trainstack.errors import TrainstackError
from trainstack.printable import printable

_MAX_COMPARED_CHARACTERS = 200
_MAX_LISTED_NAMES = 50
ENGINE_PLACE = "the engine's configuration"
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
class SettingsFinding:
    """One fault. `path` has the form of `settings.values.paths`; it is empty for a fault of the file itself."""

    where: Place
    path: str
    message: str
    remedy: str
    is_of_whole_file: bool = field(default=False, compare=False)
    """Whether no value of the file was read, so that missing values are consequences."""

    def __str__(self) -> str:
        return printable(str(TrainstackError(self.message, self.remedy, path=self.path, where=str(self.where))))


class SettingsError(TrainstackError):
    """The faults of an environment or a sweep, sorted by file and line, without duplicates.

    `subject`: the noun before `name` in the message, `environment` or `sweep`.
    """

    def __init__(self, name: str, findings: Iterable[SettingsFinding], subject: str = "environment") -> None:
        # A value that several runs share has one finding for each of them; the first path represents them all.
        unique = {
            (finding.where, finding.message, finding.remedy): finding for finding in sorted(findings, reverse=True)
        }
        self.name = name
        self.subject = subject
        self.findings = tuple(sorted(unique.values()))
        count = len(self.findings)
        header = f"{subject} {name!r} has {count} {'fault' if count == 1 else 'faults'}:"
        super().__init__("\n".join([header, *(f"  {finding}" for finding in self.findings)]))


def closest_name(word: str, valid_names: Iterable[str]) -> str | None:
    """Return the valid name that is most similar to a misspelled word, whatever the case and '_', or None."""
    if len(word) > _MAX_COMPARED_CHARACTERS:
        return None
    names_by_folded_name = {
        name.lower().replace("_", ""): name for name in sorted(valid_names) if len(name) <= _MAX_COMPARED_CHARACTERS
    }
    matches = get_close_matches(word.lower().replace("_", ""), names_by_folded_name, n=1)
    return names_by_folded_name[matches[0]] if matches else None


def suggest_name(word: str, valid_names: Iterable[str]) -> str:
    """Return the remedy for an unknown name: the most similar valid name, or else a list of the valid names."""
    names = sorted(valid_names)
    if (match := closest_name(word, names)) is not None:
        return f"did you mean {match}?"
    listing = ", ".join([*names[:_MAX_LISTED_NAMES], *(["…"] if len(names) > _MAX_LISTED_NAMES else [])])
    return f"valid names: {listing}" if names else "no name is valid here"
