"""The tables and blocks of docs/systems, as the tests of the systems read them."""

from pathlib import Path

import pytest

from tests.cluster.page import Row, block, fits, rows, unexecuted

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
    """By the row's line; programs that the stack does not replace are not executed."""
    assert rows(PAGE) == [
        Row(5, ("pulumi up -s a", "trainstack up -s a")),
        Row(6, ("kubectl cp code.py a/<pod>:/mnt/code.py",)),
    ]
    assert block(PAGE) == ["pulumi up -s a", "trainstack destroy -s a"]


def test_a_row_without_a_command_fails() -> None:
    """With the row: words alone cannot be executed."""
    with pytest.raises(AssertionError, match=r"line 5: the row has no command: .*the same"):
        rows(PAGE.replace("`pulumi up -s a`, or `trainstack up -s a`", "the same"))


@pytest.mark.parametrize(
    ("part", "message"), [("| by hand | here |", "has no table"), ("```sh", "has no block"), ("## Try it", "no block")]
)
def test_a_page_without_a_table_or_a_block_fails(part: str, message: str) -> None:
    """Else nothing of it would be executed."""
    text = PAGE.replace(part, "")
    with pytest.raises(AssertionError, match=message):
        (rows(text), block(text))


def test_a_table_without_rows_fails() -> None:
    """A head alone is no table."""
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
    """Everything else is compared as it is, options included."""
    assert fits("kubectl cp code.py a/<pod>:/mnt/code.py", typed) is expected


def test_what_was_not_typed_is_named_with_its_line() -> None:
    """One typed command is enough for every row that has it."""
    assert unexecuted(rows(PAGE), ["pulumi up -s a", "kubectl cp code.py a/b:/mnt/code.py"]) == [
        "line 5: trainstack up -s a"
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_can_be_executed(page: Path) -> None:
    """Each row has a command, and the block ends with the environment's deletion."""
    text = page.read_text(encoding="utf-8")
    assert rows(text)
    assert block(text)[-1] == f"trainstack destroy -s {page.stem}"
