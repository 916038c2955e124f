"""A review ends, whatever files a fork combines."""

import os
import time
from pathlib import Path

import pytest

from tests.integration.review.work import allocate, end_process, wait
from tests.unit.review.samples import review
from tests.unit.review.test_checkout_comparison import edit, make_checkout
from trainstack.review import checkout_comparison
from trainstack.review.bounded_process import BoundError, run_bounded

NO_NAMES = ("-x", "X", "a b", "x" * 70, "\u202ex")
"""Names that a file may have and an environment may not."""


def test_work_within_the_limits_has_its_result() -> None:
    """A separate process returns it."""
    assert run_bounded(os.getppid) == os.getpid()
    assert run_bounded(allocate, 1 << 20) == 1 << 20


def test_work_beyond_the_limits_is_ended() -> None:
    """Time and memory are limited, and a process that breaks is one failure."""
    began = time.monotonic()
    with pytest.raises(BoundError, match=r"took more than 0.5 s"):
        run_bounded(wait, 3600, seconds=0.5)
    with pytest.raises(BoundError, match="took more than 512 MiB of memory"):
        run_bounded(allocate, 1 << 30, size_bytes=512 << 20)
    with pytest.raises(BoundError, match="or its process failed"):
        run_bounded(end_process)
    assert time.monotonic() - began < 60


def test_an_environment_beyond_the_limits_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has its file; the other environments are reviewed."""

    def beyond(*_: object) -> None:
        raise BoundError("took more than 1 s")

    monkeypatch.setattr(checkout_comparison, "run_bounded", beyond)
    report = checkout_comparison.review_checkouts(tmp_path, tmp_path, "dev", 7)
    message = "Pulumi.dev.yaml and the files that it refers to are not reviewed: the review took more than 1 s"
    assert report.error == message


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_file_with_the_name_of_no_environment_is_named(tmp_path: Path, name: str) -> None:
    """A fork chooses the names of its files."""
    for side in ("base", "head"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "Pulumi.dev.yaml").touch()
    (tmp_path / "head" / f"Pulumi.{name}.yaml").touch()
    result = review("environments", "--base", tmp_path / "base", "--head", tmp_path / "head")
    assert (result.exit_code, result.stdout) == (0, '["dev"]\n')
    assert result.stderr.startswith("not reviewed: Pulumi.")


def test_the_others_are_reviewed(tmp_path: Path) -> None:
    """Files with invalid names are reported, and the review fails."""
    base, head = make_checkout(tmp_path / "base"), make_checkout(tmp_path / "head")
    for name in NO_NAMES:
        (head / f"Pulumi.{name}.yaml").write_text("config: {}\n", encoding="utf-8")
    result = review("static", "--base", base, "--head", head, "--reports", tmp_path / "reports")
    assert result.exit_code == 4
    error = result.stderr.splitlines()[-1]
    assert error.startswith("error: not reviewed: Pulumi.")
    assert error.count("; Pulumi.") == len(NO_NAMES) - 1
    assert [file.name for file in (tmp_path / "reports").glob("*.json")] == ["dev.json"]


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    """They have no target."""
    base, head = make_checkout(tmp_path / "base"), make_checkout(tmp_path / "head")
    (head / "one").symlink_to("two")
    (head / "two").symlink_to("one")
    assert (
        "the symbolic link cannot be resolved" in checkout_comparison.compare_checkouts(base, head, "dev", None).error
    )
    (head / "one").unlink()
    (head / "two").unlink()
    (head / "Pulumi.dev.yaml").unlink()
    (head / "Pulumi.dev.yaml").symlink_to("/dev/zero")
    assert (
        "symbolic link to a target outside the repository"
        in checkout_comparison.compare_checkouts(base, head, "dev", None).error
    )


def test_a_forks_constraint_takes_no_memory(tmp_path: Path) -> None:
    """It is refused with file and line where sets are checked against it."""
    base, head = make_checkout(tmp_path / "base"), make_checkout(tmp_path / "head")
    folder = head / "sweeps" / "big"
    folder.mkdir(parents=True)
    (folder / "space.yaml").write_text(
        "method: grid\nparameters: {n: {values: [1, 2]}}\nconstraints: [\"'x' * n * 2000000000 == 'y'\"]\n"
        "sets: [{n: 1}]\nobjective: {metric: loss, direction: minimize}\nargs: ['${parameters.n}']\n",
        encoding="utf-8",
    )
    edit(
        head,
        "config:\n",
        "config:\n  trainstack:sweeps:\n    sweeps: [{name: big, run: {from: digits, namespace: research}}]\n",
    )
    report = checkout_comparison.compare_checkouts(base, head, "dev", None)
    assert "sweeps/big/space.yaml:4" in report.error
    assert "'x' is a string; arithmetic requires numbers" in report.error
