"""The workflows: they are valid YAML with few rights, and each step is a script of this repository."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from trainstack.cli.commands.review import app

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
PULLS = [file for file in FILES if file != RELEASE]
"""The workflows that pull requests start."""
PINNED = re.compile(r"uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def load(file: Path) -> dict[str, Any]:
    """Load a workflow; `on` is text here, as it is for GitHub."""
    result: dict[str, Any] = yaml.load(file.read_bytes(), Loader=yaml.BaseLoader)
    return result


def steps(file: Path) -> list[dict[str, Any]]:
    """Return all steps of a workflow."""
    return [step for job in load(file)["jobs"].values() for step in job["steps"]]


def test_all_workflows_are_tested() -> None:
    """A new workflow must be added to this list."""
    assert [file.name for file in FILES] == ["ci.yml", "comment.yml", "preview.yml", "release.yml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_step_is_a_script_of_this_repository(file: Path) -> None:
    """The script is an existing make target, or `trainstack review` with valid arguments."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for run in (step["run"] for step in steps(file) if "run" in step):
        words = shlex.split(run)
        if words[0] == "make":
            assert set(words[1:]) <= targets
        elif file == RELEASE:
            assert words[:3] == ["gh", "release", "create"]
        else:
            assert words[:2] == [".venv/bin/trainstack", "review"]
            typer.main.get_group(app).commands[words[2]].make_context(words[2], words[3:])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_text_of_others_becomes_a_command(file: Path) -> None:
    """An expression in `run` would be pasted into a shell; variables are not."""
    assert not [step["run"] for step in steps(file) if "${{" in step.get("run", "")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_are_pinned_and_leave_no_token_behind(file: Path) -> None:
    """Pins are commits, with the version in a comment."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if re.search(r"\buses:", line)]
    assert [line for line in lines if not PINNED.search(line)] == []
    checkouts = [step for step in steps(file) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] == "false" for step in checkouts)


def test_one_job_writes_and_it_runs_no_code_of_a_pull_request() -> None:
    """Only the comment's job may write, and only comments and statuses; it checks out the default branch."""
    granted = {}
    for file in PULLS:
        workflow = load(file)
        assert workflow["permissions"] in ({}, {"contents": "read"})
        for name, job in workflow["jobs"].items():
            granted[name] = {right for right, level in job.get("permissions", {}).items() if level == "write"}
    assert {name: rights for name, rights in granted.items() if rights} == {"comment": {"pull-requests", "statuses"}}
    comment = load(ROOT / ".github/workflows/comment.yml")
    assert list(comment["on"]) == ["workflow_run"]
    checkout = next(step for step in comment["jobs"]["comment"]["steps"] if "checkout" in step.get("uses", ""))
    assert "ref" not in checkout["with"]


def test_forks_get_no_secret_and_run_nothing() -> None:
    """No trigger gives a fork secrets; its job names none and works in the base's checkout."""
    preview = load(ROOT / ".github/workflows/preview.yml")
    assert list(preview["on"]) == ["pull_request"]
    same, fork = ("== github.repository", "!= github.repository")
    jobs = preview["jobs"]
    assert jobs["environments"]["if"].endswith(same)
    assert jobs["preview"]["needs"] == "environments"
    assert jobs["static"]["if"].endswith(fork)
    assert "secrets." not in str(jobs["static"])
    assert "environment" not in jobs["static"]
    assert {step["working-directory"] for step in jobs["static"]["steps"] if "run" in step} == {"base"}


def test_the_comment_listens_to_the_preview() -> None:
    """The trigger is its name, and the artifacts are those that it uploads."""
    preview = load(ROOT / ".github/workflows/preview.yml")
    comment = load(ROOT / ".github/workflows/comment.yml")
    assert comment["on"]["workflow_run"]["workflows"] == [preview["name"]]
    uploads = [
        step["with"]["name"]
        for job in preview["jobs"].values()
        for step in job["steps"]
        if "upload-artifact" in step.get("uses", "")
    ]
    assert uploads
    assert all(name.startswith("review-") for name in uploads)


def test_a_preview_that_ends_in_any_way_gets_a_comment() -> None:
    """A job beyond its time limit ends the run as cancelled; artifacts that cannot be fetched are missing reports."""
    job = load(ROOT / ".github/workflows/comment.yml")["jobs"]["comment"]
    assert job["if"] == "github.event.workflow_run.event == 'pull_request'"
    (download,) = (step for step in job["steps"] if "download-artifact" in step.get("uses", ""))
    assert download["continue-on-error"] == "true"


@pytest.mark.parametrize("name", ["preview", "static"])
def test_a_failing_review_keeps_its_reports(name: str) -> None:
    """A change that cannot be applied, or a misnamed file, fails the command after it has written all reports."""
    job = load(ROOT / ".github/workflows/preview.yml")["jobs"][name]
    (upload,) = (step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert upload["if"] == "always()"


def test_only_a_tag_is_released() -> None:
    """No pull request starts it; each job has the one right that it needs, and none has a secret."""
    workflow = load(RELEASE)
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    granted = {name: job.get("permissions", {}) for name, job in workflow["jobs"].items()}
    assert granted == {"build": {}, "pypi": {"id-token": "write"}, "github": {"contents": "write"}}
    assert "secrets." not in RELEASE.read_text(encoding="utf-8")
    assert [job.get("needs") for job in workflow["jobs"].values()] == [None, "build", "pypi"]
    used = [step["uses"].partition("@")[0] for step in workflow["jobs"]["pypi"]["steps"]]
    assert used[-1] == "pypa/gh-action-pypi-publish"
