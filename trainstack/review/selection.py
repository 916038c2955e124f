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
from trainstack.review.report import MAX_REPORTS, InvalidReportError, Report, Unreviewed, read_report
from trainstack.settings.values.stack_name import stack_name_fault, stack_of_file

_MAX_NAMES = 20
"""The maximum number of environments in an error; the comment lists all that are not reviewed."""


@dataclass(frozen=True)
class Selection:
    """All environments of the base and of the change, since any file may change any environment."""

    names: tuple[str, ...]
    """Those of the base first. Invalid names are included, but never reviewed."""
    complete: bool = True
    """False if the change has more files than GitHub lists."""


class PullRequest(NamedTuple):
    """An open pull request, with the commit of its target branch."""

    number: int
    base: str


class WorkflowJob(NamedTuple):
    """A job of the run that writes the reports, with GitHub's conclusion, such as `success` or `timed_out`."""

    name: str
    conclusion: str
    has_started: bool
    """Whether one of its steps ran."""


@dataclass(frozen=True)
class WorkflowRun:
    """The result of the workflow run that writes the reports."""

    conclusion: str
    jobs: Sequence[WorkflowJob] = ()

    def missing_report_reason(self, stack: str) -> str:
        """Return the reason why an environment has no report, as far as the run shows it."""
        # A matrix appends its value to the job's name (.github/workflows/preview.yml).
        stack_job = next((job for job in self.jobs if job.name == f"preview ({stack})"), None)
        if stack_job is not None:
            return f"its {_describe_end(stack_job)}"
        failed_job = next((job for job in self.jobs if job.conclusion not in ("success", "skipped")), None)
        return f"the {_describe_end(failed_job)}" if failed_job is not None else f"the run ended with {self.conclusion}"


def select_environments(base_files: Iterable[str], changed_files: Iterable[str], *, complete: bool = True) -> Selection:
    """Return the selection from the files in the base's root folder and the files that the change adds or edits."""
    names = [
        name for file in (*sorted(base_files), *sorted(changed_files)) if (name := stack_of_file(file)) is not None
    ]
    return Selection(tuple(dict.fromkeys(names)), complete)


def collect_reviews(folder: Path, selection: Selection, reason: Callable[[str], str]) -> list[Report | Unreviewed]:
    """Return the report of each selected environment; `reason` returns the reason for a missing one."""
    return [
        _read_review(folder, stack, reason)
        if index < MAX_REPORTS
        else Unreviewed(stack, f"a review is limited to {MAX_REPORTS} environments")
        for index, stack in enumerate(selection.names)
    ]


def require_success(reviews: Iterable[Report | Unreviewed]) -> None:
    """Raise ReviewError if an environment has no report, or if its report has an error."""
    reviews = list(reviews)
    missing_reports = [f"{review.stack}: {review.reason}" for review in reviews if isinstance(review, Unreviewed)]
    refused_stacks = dict.fromkeys(review.stack for review in reviews if isinstance(review, Report) and review.error)
    messages = [f"not reviewed: {'; '.join(missing_reports[:_MAX_NAMES])}"] if missing_reports else []
    if refused_stacks:
        reports = "the report has" if len(refused_stacks) == 1 else "their reports have"
        names = ", ".join(list(refused_stacks)[:_MAX_NAMES])
        messages.append(f"this change cannot be applied to {names}; {reports} the reasons")
    if messages:
        raise ReviewError(clean("; ".join(messages)))


def match_reviews(
    reviews_by_pull: Mapping[PullRequest, Sequence[Report | Unreviewed]],
) -> Mapping[PullRequest, Sequence[Report | Unreviewed]]:
    """Return the reviews of each open pull request of one commit, without reports of other pull requests.

    With several pull requests, a report counts only for the one that it names, and a pull request without such a report
    is left to its own workflow run. If no report names any of them, all of them are included.
    """
    if len(reviews_by_pull) < 2:
        return reviews_by_pull
    own_reviews_by_pull = {
        pull: [_own_review(pull, review) for review in pull_reviews] for pull, pull_reviews in reviews_by_pull.items()
    }
    return {
        pull: own_reviews
        for pull, own_reviews in own_reviews_by_pull.items()
        if any(isinstance(review, Report) for review in own_reviews)
    } or own_reviews_by_pull


def _own_review(pull: PullRequest, review: Report | Unreviewed) -> Report | Unreviewed:
    if isinstance(review, Report) and review.pull != pull.number:
        return Unreviewed(review.stack, "its report belongs to another pull request")
    return review


def ignored_reports(folder: Path, selection: Selection) -> list[str]:
    """Return the file names of reports for environments that are not selected, sorted."""
    selected_names = {f"{stack}.json" for stack in selection.names}
    return sorted({file.name for file in folder.glob("*.json")} - selected_names)


def _read_review(folder: Path, stack: str, reason: Callable[[str], str]) -> Report | Unreviewed:
    if (invalid := stack_name_fault(stack)) is not None:
        return Unreviewed(stack, str(invalid))
    try:
        return read_report(folder, stack) or Unreviewed(stack, f"there is no report: {reason(stack)}")
    except InvalidReportError as error:
        return Unreviewed(stack, str(error))


def _describe_end(job: WorkflowJob) -> str:
    early_end = "" if job.has_started else " before its first step: was its deployment rejected?"
    return f"job {job.name} ended with {job.conclusion}{early_end}"
