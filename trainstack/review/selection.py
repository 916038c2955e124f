"""Which environments a change selects, and what is known of each: its report, or why there is none.

Whoever writes the reports must not choose what is reviewed. So the selection and the reasons are taken from GitHub, or
from a checkout, and the reports are only looked up.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainstack.review.errors import ReviewError
from trainstack.review.report import MOST_REPORTS, Report, ReportError, Unreviewed, read
from trainstack.review.text import clean
from trainstack.settings.values.stack_name import fault, stack_of

_MOST_NAMED = 20
"""Environments without a report that an error names; the comment lists them all."""


@dataclass(frozen=True)
class Selection:
    """Every environment of the base, and those that the change adds: any file may change any environment."""

    names: tuple[str, ...]
    """Those of the base first. Also invalid names, which are never reviewed."""
    complete: bool = True
    """False where the change has more files than GitHub lists."""


@dataclass(frozen=True)
class Pull:
    """An open pull request."""

    number: int
    base: str
    """The commit of the branch that it is merged into."""


@dataclass(frozen=True)
class Job:
    """A job of the run that makes the reports."""

    name: str
    conclusion: str
    """GitHub's: `success`, `failure`, `cancelled`, `timed_out`, `skipped`, …"""
    started: bool
    """Whether a step of it ran."""


@dataclass(frozen=True)
class Run:
    """How the run that makes the reports ended."""

    conclusion: str
    jobs: Sequence[Job] = ()

    def reason(self, stack: str) -> str:
        """Why there is no report of an environment, as far as the run tells."""
        # A matrix adds its value to the name of a job (.github/workflows/preview.yml).
        own = next((job for job in self.jobs if job.name == f"preview ({stack})"), None)
        if own is not None:
            return f"its {_ended(own)}"
        failed = next((job for job in self.jobs if job.conclusion not in ("success", "skipped")), None)
        return f"the {_ended(failed)}" if failed is not None else f"the run ended with {self.conclusion}"


def selected(base: Iterable[str], changed: Iterable[str], *, complete: bool = True) -> Selection:
    """The selection, from the files of the base's root folder and the files that the change adds or edits."""
    names = [name for file in (*sorted(base), *sorted(changed)) if (name := stack_of(file)) is not None]
    return Selection(tuple(dict.fromkeys(names)), complete)


def reviews(folder: Path, selection: Selection, reason: Callable[[str], str]) -> list[Report | Unreviewed]:
    """The report of each selected environment. `reason`: why an environment has none."""
    return [
        _review(folder, stack, reason)
        if index < MOST_REPORTS
        else Unreviewed(stack, f"a review has at most {MOST_REPORTS} environments")
        for index, stack in enumerate(selection.names)
    ]


def require_reports(reviews: Iterable[Report | Unreviewed]) -> None:
    """Raise ReviewError if an environment has no report."""
    if missing := [f"{review.stack}: {review.why}" for review in reviews if isinstance(review, Unreviewed)]:
        raise ReviewError(clean(f"not reviewed: {'; '.join(missing[:_MOST_NAMED])}"))


def by_pull(found: Mapping[Pull, Sequence[Report | Unreviewed]]) -> Mapping[Pull, Sequence[Report | Unreviewed]]:
    """The reviews to comment on each open pull request of one commit.

    If there are several pull requests, a report counts only for the one that it names, and a pull request without such
    a report gets its comment after its own run. If no report names any of them, all of them get one.
    """
    if len(found) < 2:
        return found
    own = {pull: [_of(pull, review) for review in reviewed] for pull, reviewed in found.items()}
    return {pull: each for pull, each in own.items() if any(isinstance(one, Report) for one in each)} or own


def _of(pull: Pull, review: Report | Unreviewed) -> Report | Unreviewed:
    if isinstance(review, Report) and review.pull != pull.number:
        return Unreviewed(review.stack, "its report is of another pull request")
    return review


def ignored(folder: Path, selection: Selection) -> list[str]:
    """The names of reports that the folder holds of environments that are not selected."""
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
    early = "" if job.started else " before its first step: was a deployment to it rejected?"
    return f"job {job.name} ended with {job.conclusion}{early}"
