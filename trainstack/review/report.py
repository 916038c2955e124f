"""The report of one environment's review: plain data, because its reader cannot trust its writer.

The writer may have read a fork's files or executed the pull request's code; the reader holds a token that writes
comments. Therefore a report has no Markdown, its facts have known kinds, and every part has a size limit.
"""

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from trainstack.errors import TrainstackError
from trainstack.files.project import output_file
from trainstack.files.replacement import replace_file
from trainstack.kueue.verdict import Outcome
from trainstack.review.facts import SENTENCES, Fact, Meaning
from trainstack.review.secret_masking import mask

MAX_BYTES = 32 << 20
"""The limit of a report file's size."""
MAX_REPORTS = 100
"""The limit of environments in one comment."""
MAX_DIFF = 16 << 20
"""The limit of a diff in characters: the first preview of an environment with its operators has 3 million."""
MAX_ERROR = 100_000
MAX_NOTE = 5000
MAX_TEXT = 2000
"""The limit of a name or sentence in characters."""
STACK_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
"""The pattern of stack names that the engine accepts, except names of hidden files."""


class InvalidReportError(TrainstackError):
    """A file is not a valid report."""


@dataclass(frozen=True)
class Unreviewed:
    """An environment that a change selects and that has no valid report, with the reason."""

    stack: str
    reason: str


Element = TypeVar("Element")
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
Tuple = Annotated[tuple[Element, ...], Field(strict=False)]
"""A tuple that is read from a JSON array."""


class _ReportPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Counts(_ReportPart):
    """The number of objects by operation."""

    create: int = Field(0, ge=0)
    update: int = Field(0, ge=0)
    replace: int = Field(0, ge=0)
    delete: int = Field(0, ge=0)
    imported: int = Field(0, ge=0)
    same: int = Field(0, ge=0)

    @property
    def changes(self) -> int:
        """The number of objects that change."""
        return self.create + self.update + self.replace + self.delete + self.imported


class ReportedFact(_ReportPart):
    """A fact with its names cut to the limit and secrets masked."""

    meaning: Meaning
    names: Tuple[Text]

    @model_validator(mode="after")
    def _check_name_count(self) -> Self:
        placeholder_count = SENTENCES[self.meaning].count("{}")
        if len(self.names) != placeholder_count:
            raise ValueError(f"a fact {self.meaning} takes {placeholder_count} names, got {len(self.names)}")
        return self

    @staticmethod
    def from_fact(fact: Fact, secrets: Iterable[str] = ()) -> "ReportedFact":
        """Return the fact with `secrets` masked and its names cut to the limit."""
        secrets = list(secrets)
        return ReportedFact(meaning=fact.meaning, names=tuple(mask(name, secrets)[:MAX_TEXT] for name in fact.names))


class ReportedVerdict(_ReportPart):
    """The verdict on the admission of runs on an idle cluster; runs with equal verdicts share one."""

    runs: Annotated[Tuple[Text], Field(max_length=100_000)] = ()
    outcome: Outcome
    placed: Text = ""
    """The assigned flavors."""
    borrowed: Text = ""
    lacks: Annotated[Tuple[Text], Field(max_length=1000)] = ()
    remedies: Annotated[Tuple[Text], Field(max_length=10)] = ()


class Report(_ReportPart):
    """The effects of a pull request on one environment."""

    version: Literal[1] = 1
    kind: Literal["preview", "static"]
    """`preview`: by the engine, against the cluster; `static`: from files alone."""
    stack: Annotated[str, StringConstraints(pattern=STACK_PATTERN)]
    pull: int | None = None
    """The pull request's number, if known. It only selects among the pull requests that GitHub returns."""
    counts: Counts = Counts()
    facts: Annotated[Tuple[ReportedFact], Field(max_length=10_000)] = ()
    verdicts: Annotated[Tuple[ReportedVerdict], Field(max_length=10_000)] = ()
    """Sorted, the worst first."""
    verdicts_for: Text = ""
    """The release of Kueue and the rules that the verdicts are for."""
    notes: Tuple[Annotated[str, StringConstraints(max_length=MAX_NOTE)]] = ()
    """The engine's warnings."""
    error: Annotated[str, StringConstraints(max_length=MAX_ERROR)] = ""
    """The reason why there is no preview or the change is refused; empty for a valid change."""
    diff: Annotated[str, StringConstraints(max_length=MAX_DIFF)] = ""


def write_report(report: Report, folder: Path) -> Path:
    """Write the report as JSON and its complete diff as text; return the path of the JSON file."""
    texts = {".json": report.model_dump_json(indent=1), ".diff": report.error + report.diff + "\n"}
    for suffix, text in texts.items():
        path = output_file(folder / f"{report.stack}{suffix}")
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    return folder / f"{report.stack}.json"


def read_report(folder: Path, stack: str) -> Report | None:
    """Return an environment's report, or None if it has no file.

    Raises InvalidReportError for a report that is too large, invalid or of another environment.
    """
    file = folder / f"{stack}.json"
    try:
        # Not `stat`: a link in an artifact of untrusted code could refer to any file of this machine.
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise InvalidReportError(f"{file.name}: not a regular file of at most {MAX_BYTES >> 20} MiB")
        report = Report.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidReportError(f"{file.name}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        errors = "; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in error.errors()[:5])
        raise InvalidReportError(f"{file.name}: invalid report: {errors}") from None
    if report.stack != stack:
        raise InvalidReportError(f"{file.name}: this is the report of environment {report.stack}")
    return report
