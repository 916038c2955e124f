"""The posting of a workflow run's reviews: a comment on each pull request, a commit status for each environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.printable import clean
from trainstack.review.comment import MARKER, format_comment
from trainstack.review.github import GitHub, Head
from trainstack.review.report import MAX_REPORTS, Report, Unreviewed
from trainstack.review.selection import WorkflowRun, collect_reviews, ignored_reports, match_reviews
from trainstack.settings.values.stack_name import stack_name_fault

_REFUSED_DESCRIPTION = "this change cannot be applied: see the comment"


@dataclass(frozen=True)
class PostedReviews:
    """The created or updated comments, with their reviews."""

    addresses: Sequence[str]
    reviews: Sequence[Report | Unreviewed]
    complete: bool
    """Whether GitHub returned all changed files; otherwise added environments may be missing."""


def post(reports: Path, event_run: Mapping[str, Any], github: GitHub) -> PostedReviews:
    """Comment on the open pull requests of a workflow run's commit. Raises GitHubError.

    `event_run`: the `workflow_run` of GitHub's event, which the run itself cannot change.
    """
    head = Head(event_run["head_repository"]["full_name"], event_run["head_branch"], event_run["head_sha"])
    address = event_run["html_url"]
    selections = {pull: github.selection(pull) for pull in github.open_pulls(head)}
    if not selections:
        return PostedReviews((), (), complete=True)
    workflow_run = WorkflowRun(event_run["conclusion"], github.jobs(event_run["id"]))
    reviews_by_pull = match_reviews(
        {
            pull: collect_reviews(reports, selection, workflow_run.missing_report_reason)
            for pull, selection in selections.items()
        }
    )
    addresses = []
    for pull, pull_reviews in reviews_by_pull.items():
        selection = selections[pull]
        ignored_files = ignored_reports(reports, selection)
        body = format_comment(pull_reviews, head.commit, address, ignored_files, complete=selection.complete)
        addresses.append(github.put_comment(pull.number, MARKER, body))
    all_reviews = [review for pull_reviews in reviews_by_pull.values() for review in pull_reviews]
    _put_statuses(github, head.commit, address, all_reviews)
    return PostedReviews(addresses, all_reviews, complete=all(selections[pull].complete for pull in reviews_by_pull))


def _put_statuses(github: GitHub, commit: str, address: str, all_reviews: Sequence[Report | Unreviewed]) -> None:
    """Set the status of each environment: success only if no review of it failed. A later run replaces a failure."""
    failures = {
        review.stack: _REFUSED_DESCRIPTION for review in all_reviews if isinstance(review, Report) and review.error
    }
    failures |= {
        review.stack: f"not reviewed: {review.reason}" for review in all_reviews if isinstance(review, Unreviewed)
    }
    for stack in dict.fromkeys(review.stack for review in all_reviews[:MAX_REPORTS]):
        if stack_name_fault(stack):
            # The comment lists it, and no branch protection requires the status of an environment that cannot exist.
            continue
        description = clean(failures.get(stack, "see the comment"))
        github.put_status(commit, f"trainstack/{stack}", description, address, success=stack not in failures)
