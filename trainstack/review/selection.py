"""The environments that a change selects, and the report of each one, or the reason for its absence.

The writer of the reports must not choose the reviewed environments. Therefore the selection and the reasons are read
from GitHub or a checkout, and the reports are only looked up.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trainstack.printable import clean
from trainstack.review.errors import ReviewError
from trainstack.review.report import MAX_REPORTS, Report, ReportError, Unreviewed, read
from trainstack.settings.values.stack_name import fault, stack_of

_MAX_NAMED = 20
"""The maximum number of environments in an error; the comment lists all that are not reviewed."""


@dataclass(frozen=True)
class Selection:
    """All environments of the base and of the change, since any file may change any environment."""

    names: tuple[str, ...]
    """Those of the base first. Invalid names are included, but never reviewed."""
    complete: bool = True
    """False if the change has more files than GitHub lists."""


class Pull(NamedTuple):
    """An open pull request, with the commit of its target branch."""

    number: int
    base: str


class Job(NamedTuple):
    """A job of the run that writes the reports, with GitHub's conclusion, such as `success` or `timed_out`."""

    name: str
    conclusion: str
    started: bool
    """Whether one of its steps ran."""


@dataclass(frozen=True)
class Run:
    """The result of the workflow run that writes the reports."""

    conclusion: str
    jobs: Sequence[Job] = ()

    def reason(self, stack: str) -> str:
        """Return the reason why an environment has no report, as far as the run shows it."""
        # A matrix appends its value to the job's name (.github/workflows/preview.yml).
        own = next((job for job in self.jobs if job.name == f"preview ({stack})"), None)
        if own is not None:
            return f"its {_ended(own)}"
        failed = next((job for job in self.jobs if job.conclusion not in ("success", "skipped")), None)
        return f"the {_ended(failed)}" if failed is not None else f"the run ended with {self.conclusion}"


def selected(base: Iterable[str], changed: Iterable[str], *, complete: bool = True) -> Selection:
    """Return the selection from the files in the base's root folder and the files that the change adds or edits."""
    names = [name for file in (*sorted(base), *sorted(changed)) if (name := stack_of(file)) is not None]
    return Selection(tuple(dict.fromkeys(names)), complete)


def reviews(folder: Path, selection: Selection, reason: Callable[[str], str]) -> list[Report | Unreviewed]:
    """Return the report of each selected environment; `reason` returns the reason for a missing one."""
    return [
        _review(folder, stack, reason)
        if index < MAX_REPORTS
        else Unreviewed(stack, f"a review is limited to {MAX_REPORTS} environments")
        for index, stack in enumerate(selection.names)
    ]


def require_success(reviews: Iterable[Report | Unreviewed]) -> None:
    """Raise ReviewError if an environment has no report, or if its report has an error."""
    reviews = list(reviews)
    missing = [f"{review.stack}: {review.why}" for review in reviews if isinstance(review, Unreviewed)]
    refused = dict.fromkeys(review.stack for review in reviews if isinstance(review, Report) and review.error)
    messages = [f"not reviewed: {'; '.join(missing[:_MAX_NAMED])}"] if missing else []
    if refused:
        reports = "the report has" if len(refused) == 1 else "their reports have"
        names = ", ".join(list(refused)[:_MAX_NAMED])
        messages.append(f"this change cannot be applied to {names}; {reports} the reasons")
    if messages:
        raise ReviewError(clean("; ".join(messages)))


def by_pull(found: Mapping[Pull, Sequence[Report | Unreviewed]]) -> Mapping[Pull, Sequence[Report | Unreviewed]]:
    """Return the reviews of each open pull request of one commit, without reports of other pull requests.

    With several pull requests, a report counts only for the one that it names, and a pull request without such a report
    is left to its own workflow run. If no report names any of them, all of them are included.
    """
    if len(found) < 2:
        return found
    own = {pull: [_of(pull, review) for review in reviewed] for pull, reviewed in found.items()}
    return {pull: kept for pull, kept in own.items() if any(isinstance(review, Report) for review in kept)} or own


def _of(pull: Pull, review: Report | Unreviewed) -> Report | Unreviewed:
    if isinstance(review, Report) and review.pull != pull.number:
        return Unreviewed(review.stack, "its report belongs to another pull request")
    return review


def ignored(folder: Path, selection: Selection) -> list[str]:
    """Return the file names of reports for environments that are not selected, sorted."""
    known = {f"{stack}.json" for stack in selection.names}
    return sorted({file.name for file in folder.glob("*.json")} - known)


def _review(folder: Path, stack: str, reason: Callable[[str], str]) -> Report | Unreviewed:
    if (invalid := fault(stack)) is not None:
        return Unreviewed(stack, str(invalid))
    try:
        return read(folder, stack) or Unreviewed(stack, f"there is no report: {reason(stack)}")
    except ReportError as error:
        return Unreviewed(stack, str(error))


def _ended(job: Job) -> str:
    early = "" if job.started else " before its first step: was its deployment rejected?"
    return f"job {job.name} ended with {job.conclusion}{early}"
