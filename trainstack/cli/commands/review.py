"""`trainstack review`: the steps of the workflows that review a pull request (docs/pull-requests.md)."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from trainstack.cli.output.console import err, fail, write, write_json
from trainstack.errors import ExitCode
from trainstack.review import checkout_comparison as files
from trainstack.review import engine, report
from trainstack.review.comment import format_comment as comment_of
from trainstack.review.github import GitHub
from trainstack.review.post import post as post_reviews
from trainstack.review.selection import Selection, collect_reviews, ignored_reports, require_success
from trainstack.settings.values.stack_name import list_stacks as stacks_in

app = typer.Typer(no_args_is_help=True, help="Review pull requests: the steps of the workflows in .github/.")

BaseOption = Annotated[Path, typer.Option(help="A checkout of the target branch.")]
HeadOption = Annotated[Path, typer.Option(help="A checkout of the pull request.")]
ReportsOption = Annotated[Path, typer.Option(help="The folder of the reports.")]
StacksOption = Annotated[
    list[str] | None, typer.Option("--stack", metavar="ENV", help="An environment (default: all); repeatable.")
]


@app.command()
def environments(
    *,
    base: BaseOption,
    head: HeadOption,
    output: Annotated[bool, typer.Option("--output", help="Also write `environments=[…]` to $GITHUB_OUTPUT.")] = False,
) -> None:
    """List the environments of both checkouts, as JSON.

    Example:
      trainstack review environments --base ../base --head .
    """
    for message in files.misnamed_file_errors(base, head):
        err.print(f"not reviewed: {message}")
    names = json.dumps(files.environment_names(base, head))
    write_json(f"{names}\n")
    if output:
        with Path(_variable("GITHUB_OUTPUT")).open("a", encoding="utf-8") as file:
            file.write(f"environments={names}\n")


@app.command()
def preview(*, base: BaseOption, head: HeadOption, reports: ReportsOption, stacks: StacksOption = None) -> None:
    """Preview environments with the engine, against their clusters. This executes the program of the pull request.

    Without a kubeconfig, and for an environment that the pull request deletes, compares the files instead. Exits with
    4 if a change cannot be applied or a preview fails; the report has the reasons.

    Example:
      trainstack review preview --base ../base --head . --stack dev --reports reports
    """
    pull_number = _pull_number()
    stack_reports = []
    for stack in _select_stacks(base, head, stacks):
        if engine.has_kubeconfig() and (head / f"Pulumi.{stack}.yaml").is_file():
            stack_reports.append(engine.preview(head.resolve(), stack, pull_number))
        else:
            err.print(f"{stack}: comparing the files: no kubeconfig is set, or the head lacks this environment")
            stack_reports.append(files.review_checkouts(base, head, stack, pull_number))
        _write_report(stack_reports[-1], reports)
    require_success(stack_reports)


@app.command()
def static(*, base: BaseOption, head: HeadOption, reports: ReportsOption, stacks: StacksOption = None) -> None:
    """Compare environments by their files alone. This runs no code of the pull request.

    Exits with 4 if a change cannot be applied, or if the name of a file is invalid.

    Example:
      trainstack review static --base . --head ../head --reports reports
    """
    stack_reports = []
    for stack in _select_stacks(base, head, stacks):
        stack_reports.append(files.review_checkouts(base, head, stack, _pull_number()))
        _write_report(stack_reports[-1], reports)
    if misnamed := files.misnamed_file_errors(base, head):
        # The other environments have been reviewed.
        fail("not reviewed: " + "; ".join(misnamed), ExitCode.FINDINGS)
    require_success(stack_reports)


@app.command()
def comment(
    *,
    reports: ReportsOption,
    post: Annotated[bool, typer.Option("--post", help="Put the comment on the pull request.")] = False,
    stacks: StacksOption = None,
) -> None:
    """Print the comment for a folder of reports, or post it.

    Exits with 4 if an environment is not reviewed, or if a change cannot be applied.

    Examples:
      trainstack review comment --reports reports --stack dev
      trainstack review comment --reports reports --post
    """
    if post and stacks:
        raise typer.BadParameter("--post and --stack are mutually exclusive: GitHub selects the environments")
    if post:
        _post(reports)
        return
    selection = Selection(tuple(stacks or stacks_in(Path.cwd())))
    stack_reviews = collect_reviews(reports, selection, lambda _: f"{reports} has none")
    write(comment_of(stack_reviews, "this checkout", "", ignored_reports(reports, selection)))
    require_success(stack_reviews)


def _post(reports: Path) -> None:
    run = _event().get("workflow_run")
    if not run:
        message = "--post requires an event with workflow_run in $GITHUB_EVENT_PATH: run it in a workflow_run workflow"
        fail(message, ExitCode.USAGE)
    with GitHub(
        _variable("GITHUB_API_URL"),
        _variable("GITHUB_REPOSITORY"),
        _variable("GITHUB_TOKEN"),
    ) as github:
        posting = post_reviews(reports, run, github)
    if not posting.addresses:
        err.print("no open pull request has this commit as its head: nothing to comment on")
    for address in posting.addresses:
        err.print(address)
    require_success(posting.reviews)
    if not posting.complete:
        fail("GitHub lists only the first 3000 changed files, so added environments may be missing")


def _select_stacks(base: Path, head: Path, stacks: Sequence[str] | None) -> Sequence[str]:
    names = files.environment_names(base, head)
    if unknown := sorted({*(stacks or ())} - {*names}):
        message = f"unknown environment {', '.join(unknown)}; the checkouts have {', '.join(names) or 'none'}"
        fail(message, ExitCode.USAGE)
    return stacks or names


def _write_report(stack_report: report.Report, folder: Path) -> None:
    outcome = "cannot be applied" if stack_report.error else f"{stack_report.counts.changes} changes"
    err.print(f"{stack_report.stack}: {outcome}: {report.write_report(stack_report, folder)}")


def _pull_number() -> int | None:
    number = _event().get("pull_request", {}).get("number")
    return int(number) if number is not None else None


def _event() -> dict[str, Any]:
    """Return the event that triggered the workflow; empty outside a workflow."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    event: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return event


def _variable(name: str) -> str:
    return os.environ.get(name) or fail(f"{name} is not set: run this in a GitHub workflow", ExitCode.USAGE)
