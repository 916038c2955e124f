"""The tables and blocks of docs/systems, as the tests of the systems read them."""

from pathlib import Path

import pytest

from tests.cluster.page import Page, Row, block, matches, rows, unexecuted
from tests.cluster.project import Project

PAGES = sorted(
    page for page in (Path(__file__).resolve().parents[2] / "docs" / "systems").glob("*.md") if page.stem != "README"
)
PAGE = """# A system

| by hand | here |
|---|---|
| `kubectl create -f` the job | `pulumi up -s a`, or `trainstack up -s a` |
| `kubectl cp` the code | `kubectl cp code.py a/<pod>:/mnt/code.py`; not `docker cp` |

## Try it

Start it first.

```sh
pulumi up -s a
trainstack destroy -s a
```
"""


def test_the_commands_of_a_page_are_those_of_its_right_cells() -> None:
    """Each has the line of its row; programs that the stack does not replace are not executed."""
    assert rows(PAGE) == [
        Row(5, ("pulumi up -s a", "trainstack up -s a")),
        Row(6, ("kubectl cp code.py a/<pod>:/mnt/code.py",)),
    ]
    assert block(PAGE) == ["pulumi up -s a", "trainstack destroy -s a"]


def test_a_row_without_a_command_fails() -> None:
    """The error has the row: words alone cannot be executed."""
    with pytest.raises(AssertionError, match=r"line 5: the row has no command: .*the same"):
        rows(PAGE.replace("`pulumi up -s a`, or `trainstack up -s a`", "the same"))


@pytest.mark.parametrize(
    ("part", "message"), [("| by hand | here |", "has no table"), ("```sh", "has no block"), ("## Try it", "no block")]
)
def test_a_page_without_a_table_or_a_block_fails(part: str, message: str) -> None:
    """Its lines would otherwise not be executed."""
    text = PAGE.replace(part, "")
    with pytest.raises(AssertionError, match=message):
        (rows(text), block(text))


def test_a_table_without_rows_fails() -> None:
    """A header alone does not count as a table."""
    with pytest.raises(AssertionError, match="has no row"):
        rows("| by hand | here |\n|---|---|\n")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("kubectl cp code.py a/loader-x7k2p:/mnt/code.py", True),
        ("kubectl  cp code.py a/loader-x7k2p:/mnt/code.py", True),
        ("kubectl cp code.py a/:/mnt/code.py", False),
        ("kubectl cp code.py a/two words:/mnt/code.py", False),
        ("kubectl cp code.py a/loader-x7k2p:/mnt/code.py --retries=1", False),
    ],
)
def test_a_placeholder_is_for_a_part_of_one_word(typed: str, expected: bool) -> None:
    """Everything else is compared literally, options included."""
    assert matches("kubectl cp code.py a/<pod>:/mnt/code.py", typed) is expected


def test_what_was_not_typed_is_named_with_its_line() -> None:
    """One typed command is enough for all rows with it."""
    assert unexecuted(rows(PAGE), ["pulumi up -s a", "kubectl cp code.py a/b:/mnt/code.py"]) == [
        "line 5: trainstack up -s a"
    ]


@pytest.fixture
def page(tmp_path: Path) -> Page:
    """Provide a page whose block needs no cluster."""
    lines = "export GREETING=hello\necho $GREETING\nread answer; test $answer = y; echo $answer\n"
    (tmp_path / "docs" / "systems").mkdir(parents=True)
    (tmp_path / "docs" / "systems" / "a.md").write_text(
        PAGE.replace("pulumi up -s a\ntrainstack destroy -s a\n", lines)
    )
    (tmp_path / ".trainstack").mkdir()
    return Page(Project(tmp_path, tmp_path / "kubeconfig", "a"), tmp_path / "state")


def test_lines_are_run_one_after_the_other_as_in_one_shell(page: Page) -> None:
    """A line has the exports of earlier ones and its answer; it runs once, and the next call runs the next line."""
    assert page.copy("echo").out == "hello\n"
    assert page.copy("read").out == "y\n"
    assert page.typed == ["export GREETING=hello", "echo $GREETING", "read answer; test $answer = y; echo $answer"]
    with pytest.raises(AssertionError, match="line 5: pulumi up -s a"):
        page.assert_completed()


def test_a_line_that_fails_fails_the_test_and_counts_as_not_executed(page: Page) -> None:
    """The error has its output."""
    with pytest.raises(AssertionError, match="echo problem; exit 3\nproblem"):
        page.type("echo problem; exit 3")
    assert page.typed == []


def test_lines_that_are_left_fail(page: Page) -> None:
    """The block has to be finished."""
    page.copy("echo")
    with pytest.raises(AssertionError, match="lines of the block are left"):
        page.assert_completed()


def test_a_line_of_another_shell_leaves_nothing_behind(page: Page) -> None:
    """It has its own variables."""
    assert page.type("echo $OTHER; export GREETING=bye", variables={"OTHER": "here"}).out == "here\n"
    assert page.copy("echo").out == "hello\n"


def test_the_clusters_commands_are_those_of_the_tests_cluster(page: Page) -> None:
    """The folder is that of the test's cluster; the other words are unchanged."""
    program = page.project.root / "trainstack"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    page.type(f"export PATH={page.project.root}:$PATH")
    assert page.type("trainstack cluster up --site eidf").out == f"cluster up --site eidf --state {page.cluster}\n"
    assert page.type("trainstack status -s a").out == "status -s a\n"


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.stem)
def test_every_page_can_be_executed(file: Path) -> None:
    """Each row has a command, and the block ends with the environment's deletion."""
    text = file.read_text(encoding="utf-8")
    assert rows(text)
    assert block(text)[-1].startswith(f"trainstack destroy -s {file.stem}")
