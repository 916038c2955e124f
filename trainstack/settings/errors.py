"""What is wrong with an environment's files: where, what, and the remedy, all of it at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

_COMPARED = 200
"""Characters of a name that is looked for among others."""
_LISTED = 50
"""Names that a remedy lists."""
ENGINE = "the engine's configuration"
"""Stands for the file where the engine gave a value that the stack's file does not hold."""


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
    """One fault. `path` names the value as `settings.values.paths` writes it; empty for a fault of the file itself."""

    where: Place
    path: str
    message: str
    remedy: str

    def __str__(self) -> str:
        subject = f"{self.where}: {self.path}: " if self.path else f"{self.where}: "
        return printable(subject + "; ".join(filter(None, [self.message, self.remedy])))


class SettingsError(Exception):
    """An environment, or a sweep, that does not load. `findings` holds every fault, sorted by file and line."""

    def __init__(self, name: str, findings: Iterable[Finding], what: str = "environment") -> None:
        unique = {(each.where, each.message, each.remedy): each for each in sorted(findings, reverse=True)}
        self.name = name
        self.what = what
        self.findings = tuple(sorted(unique.values()))
        super().__init__(name, self.findings)

    def __str__(self) -> str:
        count = len(self.findings)
        head = f"{self.what} {self.name!r} has {count} {'fault' if count == 1 else 'faults'}:"
        return "\n".join([head, *(f"  {each}" for each in self.findings)])


def printable(text: str) -> str:
    """Text of a file as a terminal may show it: what would command the terminal is written as in a Python string."""
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelled one is likely to mean; None where none is close."""
    folded = {name.lower().replace("_", ""): name for name in sorted(known) if len(name) <= _COMPARED}
    close = get_close_matches(word.lower().replace("_", ""), folded, n=1) if len(word) <= _COMPARED else []
    return folded[close[0]] if close else None


def nearest(word: str, known: Iterable[str]) -> str:
    """The remedy for a name that is none of the known: the nearest of them, or all."""
    names = sorted(known)
    if (close := closest(word, names)) is not None:
        return f"did you mean {close}?"
    listed = ", ".join([*names[:_LISTED], *(["…"] if len(names) > _LISTED else [])])
    return f"valid here: {listed}" if names else "nothing is valid here"
