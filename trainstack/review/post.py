"""The posting of a workflow run's reviews: a comment on each pull request, a commit status for each environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.printable import clean
from trainstack.review.comment import MARKER, comment
from trainstack.review.github import GitHub, Head
from trainstack.review.report import MAX_REPORTS, Report, Unreviewed
from trainstack.review.selection import Run, by_pull, ignored, reviews
from trainstack.settings.values.stack_name import fault

_REFUSED = "this change cannot be applied: see the comment"


@dataclass(frozen=True)
class Posted:
    """The created or updated comments, with their reviews."""

    addresses: Sequence[str]
    reviews: Sequence[Report | Unreviewed]
    complete: bool
    """Whether GitHub returned all changed files; otherwise added environments may be missing."""


def post(reports: Path, run: Mapping[str, Any], github: GitHub) -> Posted:
    """Comment on the open pull requests of a workflow run's commit. Raises GitHubError.

    `event_run`: the `workflow_run` of GitHub's event, which the run itself cannot change.
    """
    head = Head(run["head_repository"]["full_name"], run["head_branch"], run["head_sha"])
    address = run["html_url"]
    selections = {pull: github.selection(pull) for pull in github.pulls(head)}
    if not selections:
        return Posted((), (), complete=True)
    ended = Run(run["conclusion"], github.jobs(run["id"]))
    found = by_pull({pull: reviews(reports, selection, ended.reason) for pull, selection in selections.items()})
    addresses = []
    for pull, reviewed in found.items():
        selection = selections[pull]
        unknown = ignored(reports, selection)
        body = comment(reviewed, head.commit, address, unknown, complete=selection.complete)
        addresses.append(github.put_comment(pull.number, MARKER, body))
    every = [review for reviewed in found.values() for review in reviewed]
    _put_statuses(github, head.commit, address, every)
    return Posted(addresses, every, complete=all(selections[pull].complete for pull in found))


def _put_statuses(github: GitHub, commit: str, address: str, found: Sequence[Report | Unreviewed]) -> None:
    """Set the status of each environment: success only if no review of it failed. A later run replaces a failure."""
    failures = {review.stack: _REFUSED for review in found if isinstance(review, Report) and review.error}
    failures |= {review.stack: f"not reviewed: {review.why}" for review in found if isinstance(review, Unreviewed)}
    for stack in dict.fromkeys(review.stack for review in found[:MAX_REPORTS]):
        if fault(stack):
            # The comment lists it, and no branch protection requires the status of an environment that cannot exist.
            continue
        description = clean(failures.get(stack, "see the comment"))
        github.put_status(commit, f"trainstack/{stack}", description, address, success=stack not in failures)
