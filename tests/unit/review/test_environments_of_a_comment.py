"""A comment lists every environment that a change selects, whatever the reports hold."""

import json
from pathlib import Path

import pytest

from tests.unit.review.github_server import HEAD, RUN, Server, make_job, make_pull
from tests.unit.review.samples import make_report, review
from trainstack.review.report import write_report
from trainstack.settings.values.stack_name import list_stacks

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def posting(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Set the variables and the event of `comment.yml`, after a failed run; the base has `dev` and `prod`."""
    head = {"head_repository": {"full_name": HEAD.repository}, "head_branch": HEAD.branch, "head_sha": HEAD.commit}
    run = {"id": RUN, "conclusion": "failure", "html_url": "https://example.org/1", **head}
    event = tmp_path / "event"
    event.write_text(json.dumps({"workflow_run": run}), encoding="utf-8")
    names = ("Pulumi.yaml", "Pulumi.dev.yaml", "Pulumi.prod.yaml", "README.md")
    server.root = [{"path": name, "type": "blob"} for name in names]
    server.pulls = [make_pull(7)]
    for name, value in {
        "GITHUB_API_URL": server.api,
        "GITHUB_REPOSITORY": "us/it",
        "GITHUB_TOKEN": "secret-token",
        "GITHUB_EVENT_PATH": str(event),
    }.items():
        monkeypatch.setenv(name, value)
    return server


def posted(server: Server, reports: Path) -> tuple[int, str]:
    """Return the exit code of a comment of these reports, and its text."""
    code = review("comment", "--reports", reports, "--post").exit_code
    (comment,) = server.comments
    return code, comment["body"]


def statuses(server: Server) -> dict[str, str]:
    """Return the state of each status of the commit."""
    return {status["context"]: status["state"] for status in server.statuses}


def write_both(reports: Path) -> None:
    """Write a report of each environment of the base."""
    for stack in ("dev", "prod"):
        write_report(make_report(stack=stack, pull=7), reports)


def test_all_reports_make_a_comment(posting: Server, tmp_path: Path) -> None:
    """Each environment has a section, and the command succeeds."""
    write_both(tmp_path)
    code, body = posted(posting, tmp_path)
    assert code == 0
    assert "ot reviewed" not in body
    assert statuses(posting) == {"trainstack/dev": "success", "trainstack/prod": "success"}
    assert [line for line in body.splitlines() if line.startswith("###")] == ["### `dev`", "### `prod`"]


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (make_job("preview (prod)", "failure"), "its job preview (prod) ended with failure"),
        (make_job("preview (prod)", "timed_out"), "its job preview (prod) ended with timed_out"),
        (
            make_job("preview (prod)", "failure", steps=0),
            "its job preview (prod) ended with failure before its first step: was its deployment rejected?",
        ),
        (make_job("preview (prod)", "success"), "its job preview (prod) ended with success"),
        (make_job("environments", "failure"), "the job environments ended with failure"),
        (make_job("other", "success"), "the run ended with failure"),
    ],
)
def test_an_environment_without_a_report_is_not_reviewed(
    posting: Server, tmp_path: Path, job: dict[str, object], why: str
) -> None:
    """The comment has the reason, and the command fails."""
    write_both(tmp_path)
    (tmp_path / "prod.json").unlink()
    posting.jobs = [make_job("preview (dev)", "success"), job]
    code, body = posted(posting, tmp_path)
    assert code == 4
    assert statuses(posting) == {"trainstack/dev": "success", "trainstack/prod": "failure"}
    (failed,) = (status for status in posting.statuses if status["state"] == "failure")
    assert failed["description"] == f"not reviewed: there is no report: {why}"[:140]
    assert failed["target_url"] == "https://example.org/1"
    assert f"### `prod`\n\n**Not reviewed:** `there is no report: {why}`\n" in body
    assert "**1 of 2 environments is not reviewed: `prod`.**" in body
    assert "| 0 | 1 | 0 | 0 | 0 |" in body


@pytest.mark.parametrize("kind", ["preview", "static"])
def test_a_change_that_cannot_be_applied_fails_its_environment(posting: Server, tmp_path: Path, kind: str) -> None:
    """Branch protection may require the status; the comment has the reason, and the command fails too."""
    write_both(tmp_path)
    write_report(make_report(stack="prod", pull=7, kind=kind, counts={}, error="digits is running"), tmp_path)
    code, body = posted(posting, tmp_path)
    assert code == 4
    assert statuses(posting) == {"trainstack/dev": "success", "trainstack/prod": "failure"}
    described = {status["context"]: status["description"] for status in posting.statuses}
    assert described["trainstack/prod"] == "this change cannot be applied: see the comment"
    assert "### `prod`\n\n**This change cannot be applied:**" in body


def test_one_error_among_the_pull_requests_of_a_commit_fails_the_status(posting: Server, tmp_path: Path) -> None:
    """A commit has one status for each environment, whichever pull request is reported first."""
    posting.pulls = [make_pull(6), make_pull(7)]
    write_both(tmp_path)
    write_report(make_report(stack="prod", pull=7, error="refused"), tmp_path)
    assert review("comment", "--reports", tmp_path, "--post").exit_code == 4
    assert statuses(posting) == {"trainstack/dev": "success", "trainstack/prod": "failure"}


def test_a_run_without_reports_reviews_nothing(posting: Server, tmp_path: Path) -> None:
    """The comment lists every environment."""
    code, body = posted(posting, tmp_path / "none")
    assert code == 4
    assert "**2 of 2 environments are not reviewed: `dev`, `prod`.**" in body


@pytest.mark.parametrize("text", ["{", '{"kind": "preview", "stack": "dev"}', "x" * (33 << 20)])
def test_an_unreadable_report_is_no_review(posting: Server, tmp_path: Path, text: str) -> None:
    """The comment has the reason; the other environments are reviewed."""
    write_both(tmp_path)
    (tmp_path / "prod.json").write_text(text, encoding="utf-8")
    code, body = posted(posting, tmp_path)
    assert code == 4
    assert "### `prod`\n\n**Not reviewed:** `prod.json: " in body
    assert "| 0 | 1 | 0 | 0 | 0 |" in body


def test_a_folder_in_place_of_a_report_is_no_review(posting: Server, tmp_path: Path) -> None:
    """An archive may hold anything."""
    write_both(tmp_path)
    (tmp_path / "prod.json").unlink()
    (tmp_path / "prod.json").mkdir()
    code, body = posted(posting, tmp_path)
    assert code == 4
    assert "**Not reviewed:** `prod.json: " in body


def test_a_report_of_an_environment_that_is_not_selected_is_ignored(posting: Server, tmp_path: Path) -> None:
    """The comment names it, and the command succeeds: the selected environments are reviewed."""
    write_both(tmp_path)
    write_report(make_report(stack="mine", error="look here"), tmp_path)
    code, body = posted(posting, tmp_path)
    assert code == 0
    assert "look here" not in body
    assert "Ignored reports for environments that this change does not select: `mine.json`." in body


def test_environments_that_the_change_adds_are_selected(posting: Server, tmp_path: Path) -> None:
    """A new name counts too; removed ones and files in other folders do not. Those of the base are first."""
    posting.changed = [
        {"filename": "Pulumi.added.yaml", "status": "added"},
        {"filename": "Pulumi.moved.yaml", "status": "renamed", "previous_filename": "Pulumi.prod.yaml"},
        {"filename": "Pulumi.gone.yaml", "status": "removed"},
        {"filename": "docs/Pulumi.example.yaml", "status": "added"},
    ]
    _, body = posted(posting, tmp_path)
    assert "**4 of 4 environments are not reviewed: `dev`, `prod`, `added`, `moved`.**" in body


def test_an_invalid_name_is_not_reviewed(posting: Server, tmp_path: Path) -> None:
    """The comment lists the file with the fault of its name."""
    write_both(tmp_path)
    posting.changed = [{"filename": "Pulumi.My_Env.yaml", "status": "added"}]
    code, body = posted(posting, tmp_path)
    assert code == 4
    assert "### `My_Env`\n\n**Not reviewed:** `Pulumi.My_Env.yaml: 'My_Env' is not a valid environment name" in body


def test_more_changed_files_than_github_lists_are_not_reviewed(posting: Server, tmp_path: Path) -> None:
    """GitHub lists 3,000 files of a pull request, so that an added environment may be missing among them."""
    write_both(tmp_path)
    posting.changed = [{"filename": f"docs/{number}", "status": "added"} for number in range(3000)]
    code, body = posted(posting, tmp_path)
    assert code == 1
    assert "the first 3000 changed files" in body


def test_more_environments_than_a_comment_holds_are_not_reviewed(posting: Server, tmp_path: Path) -> None:
    """Added environments do not crowd out those of the base."""
    write_both(tmp_path)
    posting.changed = [{"filename": f"Pulumi.a{number}.yaml", "status": "added"} for number in range(2000)]
    code, body = posted(posting, tmp_path)
    assert code == 4
    assert body.index("### `dev`") < body.index("### `prod`") < body.index("### `a0`")
    assert "1902 more environments are omitted" in body


def test_an_unchanged_environment_is_listed(posting: Server, tmp_path: Path) -> None:
    """A forged report cannot hide the environment."""
    write_report(make_report(kind="static"), tmp_path)
    write_report(make_report(stack="prod", kind="static", counts={}), tmp_path)
    code, body = posted(posting, tmp_path)
    assert code == 0
    assert "No changes in the rendered manifests of `prod`." in body


@pytest.mark.parametrize(
    ("open_pulls", "named", "expected"),
    [([7], 7, [7]), ([6, 7], 7, [7]), ([8], 7, [8]), ([], 7, []), ([5, 6], 7, [5, 6]), ([5, 6], None, [5, 6])],
)
def test_a_comment_is_posted_to_the_pull_requests_that_github_names(
    posting: Server, tmp_path: Path, open_pulls: list[int], named: int | None, expected: list[int]
) -> None:
    """Reports may choose one of several, and nothing else: their number 7 is not trusted."""
    for stack in ("dev", "prod"):
        write_report(make_report(stack=stack, pull=named), tmp_path / "reports")
    posting.pulls = [make_pull(number) for number in open_pulls]
    code = review("comment", "--reports", tmp_path / "reports", "--post").exit_code
    posted_comments = [
        request for request in posting.requests if request.startswith("POST") and request.endswith("/comments")
    ]
    assert posted_comments == [f"POST /repos/us/it/issues/{number}/comments" for number in expected]
    # If several pull requests have the same commit, a report counts for the one that it names.
    assert code == (4 if len(expected) > 1 else 0)


def test_by_hand_every_environment_of_the_checkout_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment is reviewed without reports."""
    monkeypatch.delenv("GITHUB_EVENT_PATH", raising=False)
    monkeypatch.chdir(ROOT)
    result = review("comment", "--reports", tmp_path)
    assert result.exit_code == 4
    assert all(
        f"### `{stack}`\n\n**Not reviewed:** `there is no report" in result.stdout for stack in list_stacks(ROOT)
    )
    assert "error: not reviewed: " in result.stderr


def test_by_hand_environments_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option is that of a preview."""
    monkeypatch.delenv("GITHUB_EVENT_PATH", raising=False)
    write_report(make_report(), tmp_path)
    result = review("comment", "--reports", tmp_path, "--stack", "dev")
    assert result.exit_code == 0
    assert "### `dev`" in result.stdout


def test_by_hand_a_change_that_cannot_be_applied_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comment is printed first; the error names the environment."""
    monkeypatch.delenv("GITHUB_EVENT_PATH", raising=False)
    write_report(make_report(error="digits is running"), tmp_path)
    result = review("comment", "--reports", tmp_path, "--stack", "dev")
    assert (result.exit_code, "digits is running" in result.stdout) == (4, True)
    assert result.stderr == "error: this change cannot be applied to dev; the report has the reasons\n"


def test_a_posted_comment_is_of_the_environments_that_github_selects(tmp_path: Path) -> None:
    """`--stack` is a usage error."""
    assert review("comment", "--reports", tmp_path, "--post", "--stack", "dev").exit_code == 2
