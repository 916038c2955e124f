"""`python -m trainstack.review`: the steps of the workflows that review a pull request (docs/pull-requests.md)."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainstack.review import engine, report, static
from trainstack.review.comment import MARKER, comment
from trainstack.review.github import GitHub, GitHubError, Head
from trainstack.review.secret import LeakError
from trainstack.review.selection import Run, Selection, by_pull, ignored, reviews
from trainstack.review.text import clean
from trainstack.settings.values.stack_name import fault, stacks

_MOST_NAMED = 20
"""Environments without a report that an error names; the comment lists them."""


class UsageError(Exception):
    """The program was started where it cannot do its work."""


class UnreviewedError(Exception):
    """A change selects environments that have no report. Says which and why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 1 if it fails. A change that is refused is a result, not a failure."""
    chosen = parser().parse_args(arguments)
    commands = {"environments": _environments, "preview": _preview, "static": _static, "comment": _comment}
    try:
        commands[chosen.command](chosen)
    except (UsageError, UnreviewedError, GitHubError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        sys.stderr.write(f"error: {error.filename}: {error.strerror or error}\n")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    result = argparse.ArgumentParser(prog="python -m trainstack.review", description=__doc__)
    commands = result.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("environments", help="the environments of both checkouts, as a JSON list")
    preview = commands.add_parser("preview", help="preview environments with the engine, against their clusters")
    plain = commands.add_parser("static", help="compare environments by their files alone; runs no code of the head")
    for each in (listed, preview, plain):
        each.add_argument("--base", type=Path, required=True, help="a checkout of what is merged into")
        each.add_argument("--head", type=Path, required=True, help="a checkout of the pull request")
    listed.add_argument("--output", action="store_true", help="write `environments=[…]` for later jobs too")
    for each in (preview, plain):
        each.add_argument("--stack", action="append", help="an environment (by default all); may be repeated")
    posts = commands.add_parser("comment", help="make the comment of the reports")
    where = posts.add_mutually_exclusive_group()
    where.add_argument("--post", action="store_true", help="put it on the pull request; else it is printed")
    where.add_argument(
        "--stack", action="append", help="an environment (by default all of this checkout); may be repeated"
    )
    for each in (preview, plain, posts):
        each.add_argument("--reports", type=Path, required=True, help="the folder of the reports")
    return result


def _environments(chosen: argparse.Namespace) -> None:
    for each in static.unnamed(chosen.base, chosen.head):
        sys.stderr.write(f"not reviewed: {each}\n")
    names = json.dumps(static.environments(chosen.base, chosen.head))
    sys.stdout.write(f"{names}\n")
    if chosen.output:
        with Path(_variable("GITHUB_OUTPUT")).open("a", encoding="utf-8") as file:
            file.write(f"environments={names}\n")


def _preview(chosen: argparse.Namespace) -> None:
    for stack in _stacks(chosen):
        if engine.configured() and (chosen.head / f"Pulumi.{stack}.yaml").is_file():
            made = _previewed(chosen.head.resolve(), stack)
        else:
            sys.stderr.write(f"{stack}: no cluster to preview against, or no such environment: compared by its files\n")
            made = static.reviewed(chosen.base, chosen.head, stack, _pull())
        _said(made, report.write(made, chosen.reports))


def _previewed(head: Path, stack: str) -> report.Report:
    try:
        return engine.preview(head, stack, _pull())
    except LeakError as error:
        return report.Report(kind="preview", stack=stack, pull=_pull(), error=str(error))


def _static(chosen: argparse.Namespace) -> None:
    for stack in _stacks(chosen):
        made = static.reviewed(chosen.base, chosen.head, stack, _pull())
        _said(made, report.write(made, chosen.reports))
    if strange := static.unnamed(chosen.base, chosen.head):
        # The other environments are reviewed all the same.
        raise UsageError("not reviewed: " + "; ".join(strange))


def _comment(chosen: argparse.Namespace) -> None:
    if chosen.post:
        _post(chosen.reports)
        return
    selection = Selection(tuple(chosen.stack or stacks(Path.cwd())))
    found = reviews(chosen.reports, selection, lambda _: f"{chosen.reports} has none")
    sys.stdout.write(comment(found, "this checkout", "", ignored(chosen.reports, selection)))
    _demand(found)


def _post(folder: Path) -> None:
    run: Mapping[str, Any] = _event().get("workflow_run", {})
    if not run:
        raise UsageError("no workflow_run in the event at GITHUB_EVENT_PATH: `--post` runs in a workflow_run workflow")
    head = Head(run["head_repository"]["full_name"], run["head_branch"], run["head_sha"])
    with GitHub(_variable("GITHUB_API_URL"), _variable("GITHUB_REPOSITORY"), _variable("GITHUB_TOKEN")) as github:
        selections = {pull: github.selection(pull) for pull in github.pulls(head)}
        if not selections:
            sys.stderr.write("no open pull request ends in this commit any more: nothing to comment\n")
            return
        ended = Run(run["conclusion"], github.jobs(run["id"]))
        found = by_pull({pull: reviews(folder, each, ended.reason) for pull, each in selections.items()})
        for pull, reviewed in found.items():
            selection = selections[pull]
            body = comment(
                reviewed, head.commit, run["html_url"], ignored(folder, selection), complete=selection.complete
            )
            sys.stderr.write(f"{github.put_comment(pull.number, MARKER, body)}\n")
        _put_statuses(github, head.commit, run["html_url"], [each for several in found.values() for each in several])
    _demand(review for reviewed in found.values() for review in reviewed)
    if not all(selections[pull].complete for pull in found):
        raise UnreviewedError("GitHub lists only the first 3000 changed files, so added environments may be missing")


def _put_statuses(
    github: GitHub, commit: str, address: str, found: Sequence[report.Report | report.Unreviewed]
) -> None:
    """A status for each environment: a later run of the same commit replaces a failure."""
    missing = {each.stack: each.why for each in found if isinstance(each, report.Unreviewed)}
    for stack in dict.fromkeys(each.stack for each in found[: report.MOST_REPORTS]):
        if fault(stack):
            # The comment lists it. No rule can require the status of an environment that cannot exist.
            continue
        reviewed = stack not in missing
        description = "see the comment" if reviewed else f"not reviewed: {missing[stack]}"
        github.put_status(commit, f"trainstack/{stack}", clean(description), address, reviewed=reviewed)


def _demand(found: Iterable[report.Report | report.Unreviewed]) -> None:
    """Raise UnreviewedError where an environment has no report."""
    if missing := [f"{each.stack}: {each.why}" for each in found if isinstance(each, report.Unreviewed)]:
        raise UnreviewedError(clean(f"not reviewed: {'; '.join(missing[:_MOST_NAMED])}"))


def _stacks(chosen: argparse.Namespace) -> Sequence[str]:
    there = static.environments(chosen.base, chosen.head)
    wanted: Sequence[str] = chosen.stack or there
    if unknown := sorted(set(wanted) - set(there)):
        raise UsageError(f"no environment {', '.join(unknown)}: there are {', '.join(there) or 'none'}")
    return wanted


def _said(made: report.Report, file: Path) -> None:
    outcome = "does not go through" if made.error else f"{made.counts.changes} changes"
    sys.stderr.write(f"{made.stack}: {outcome}: {file}\n")


def _pull() -> int | None:
    number = _event().get("pull_request", {}).get("number")
    return int(number) if number is not None else None


def _event() -> dict[str, Any]:
    """What started the workflow; nothing outside of one."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    event: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return event


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"{name} is not set: this runs in a workflow of GitHub")
    return value


if __name__ == "__main__":
    sys.exit(main())
