"""What one environment's review hands on: plain data, since who reads it may not trust who wrote it.

The writer may run a fork's files, or code of the pull request; the reader holds a token that writes comments. So a
report holds no Markdown, facts are of known kinds, and everything has a limit.
"""

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from trainstack.kueue.verdict import Outcome
from trainstack.review.facts import WORDS, Fact, Meaning

MOST_BYTES = 32 << 20
"""Of one report."""
MOST_REPORTS = 100
"""Of one comment."""
MOST_CHARACTERS = 16 << 20
"""Of a diff: the first preview of an environment with its operators has 3 million."""
MOST_NAMES = 2000
"""Of a name, or of one sentence."""
STACK = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
"""A stack's name as the engine takes it, but never a hidden file."""


class ReportError(Exception):
    """A file that is not a report."""


@dataclass(frozen=True)
class Unreviewed:
    """An environment that a change selects and that has no report."""

    stack: str
    why: str


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Counts(_Data):
    """How many objects change."""

    create: int = Field(0, ge=0)
    update: int = Field(0, ge=0)
    replace: int = Field(0, ge=0)
    delete: int = Field(0, ge=0)
    same: int = Field(0, ge=0)

    @property
    def changes(self) -> int:
        """All but what stays as it is."""
        return self.create + self.update + self.replace + self.delete


class ReportedFact(_Data):
    """A `Fact` in a report."""

    meaning: Meaning
    names: Annotated[tuple[Annotated[str, StringConstraints(max_length=MOST_NAMES)], ...], Field(strict=False)]

    @model_validator(mode="after")
    def _as_many_names(self) -> Self:
        wanted = WORDS[self.meaning].count("{}")
        if len(self.names) != wanted:
            raise ValueError(f"a fact {self.meaning} has {wanted} names and not {len(self.names)}")
        return self

    @staticmethod
    def of(fact: Fact) -> "ReportedFact":
        """The fact, its names cut to what a report takes."""
        return ReportedFact(meaning=fact.meaning, names=tuple(name[:MOST_NAMES] for name in fact.names))


Words = Annotated[str, StringConstraints(max_length=MOST_NAMES)]


class ReportedVerdict(_Data):
    """Whether runs would be admitted on an idle cluster, of all that have the same verdict."""

    runs: Annotated[tuple[Words, ...], Field(strict=False, max_length=100_000)] = ()
    outcome: Outcome
    placed: Words = ""
    """On which flavors."""
    borrowed: Words = ""
    lacks: Annotated[tuple[Words, ...], Field(strict=False, max_length=1000)] = ()
    remedies: Annotated[tuple[Words, ...], Field(strict=False, max_length=10)] = ()


class Report(_Data):
    """What the pull request means for one environment."""

    version: Literal[1] = 1
    kind: Literal["preview", "static"]
    """By the engine against the cluster, or from the files alone."""
    stack: Annotated[str, StringConstraints(pattern=STACK)]
    pull: int | None = None
    """The pull request's number; None where nobody said. Only ever used to choose among those that GitHub names."""
    counts: Counts = Counts()
    facts: Annotated[tuple[ReportedFact, ...], Field(strict=False, max_length=10_000)] = ()
    verdicts: Annotated[tuple[ReportedVerdict, ...], Field(strict=False, max_length=10_000)] = ()
    """The worst first."""
    notes: Annotated[tuple[Annotated[str, StringConstraints(max_length=5000)], ...], Field(strict=False)] = ()
    """Warnings."""
    error: Annotated[str, StringConstraints(max_length=100_000)] = ""
    """Why there is no preview, or why the change was refused; empty when it goes through."""
    diff: Annotated[str, StringConstraints(max_length=MOST_CHARACTERS)] = ""


def write(report: Report, folder: Path) -> Path:
    """Write the report for the program that comments, and its whole diff for people. Returns the report's file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{report.stack}.json"
    file.write_text(report.model_dump_json(indent=1), encoding="utf-8")
    (folder / f"{report.stack}.diff").write_text(report.error + report.diff + "\n", encoding="utf-8")
    return file


def read(folder: Path, stack: str) -> Report | None:
    """The report of an environment in a folder; None where there is none.

    Raises ReportError for a file that is too large, cannot be read or is not a report of this environment.
    """
    file = folder / f"{stack}.json"
    try:
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            raise ReportError(f"{file.name}: not a plain file of at most {MOST_BYTES >> 20} MiB")
        report = Report.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReportError(f"{file.name}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5])
        raise ReportError(f"{file.name}: not a report: {faults}") from None
    if report.stack != stack:
        raise ReportError(f"{file.name}: the report of another environment, {report.stack}")
    return report
