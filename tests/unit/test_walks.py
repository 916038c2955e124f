"""The walks of docs/contributing.md.

Each is compared with an existing example: the files of the library that mention it are those that a new one touches.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "trainstack"
PAGE = ROOT / "docs" / "contributing.md"


def linked_files(heading: str) -> list[str]:
    """Return the files of the library that a section of the page links to, relative to `trainstack/`, in its order."""
    _, separator, after_heading = PAGE.read_text(encoding="utf-8").partition(f"# {heading}\n")
    assert separator, f"no section {heading!r}"
    section = re.split(r"^#+ ", after_heading, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"\]\(\.\./trainstack/([\w/]+\.py)\)", section)


def files_that_mention(*names: str) -> list[str]:
    """Return the files of the library, relative to `trainstack/`, whose code has one of the names."""
    return [file for file, text in sources() if mentions(text, *names)]


def sources() -> Iterator[tuple[str, str]]:
    """Yield each file of the library, relative to `trainstack/`, with its text."""
    for path in sorted(LIBRARY.rglob("*.py")):
        yield path.relative_to(LIBRARY).as_posix(), path.read_text(encoding="utf-8")


def mentions(text: str, *names: str) -> bool:
    """Return whether the code has a name as a name, an attribute, an argument or a whole string, docstrings aside."""
    # Only a text that has the name at all is parsed: parsing all files takes a second.
    for node in ast.walk(ast.parse(text)) if any(name in text for name in names) else ():
        match node:
            case ast.Constant(value=value) | ast.Attribute(attr=value) | ast.Name(id=value) | ast.keyword(arg=value):
                if value in names:
                    return True
    return False


def test_the_walk_of_a_queue_field() -> None:
    """The example is `flavorFungibility`, an optional field of a ClusterQueue."""
    assert sorted(linked_files("A new field of a ClusterQueue")) == files_that_mention(
        "flavor_fungibility", "flavorFungibility"
    )


def test_the_walk_of_a_field_of_pods() -> None:
    """The example is `sharedMemory`: the model, the template, and the rules about it."""
    assert sorted(linked_files("A new field of a run's pods")) == files_that_mention("shared_memory", "sharedMemory")


@pytest.mark.parametrize("kind", ["MPIJob", "RayJob"])
def test_the_walk_of_a_workload_kind(kind: str) -> None:
    """The examples are the latest kinds: a module and its registration, the settings and the kind's API group."""
    assert files_of_kind(kind) == files_that_mention(kind)


def test_the_walk_of_a_kind_with_an_operator() -> None:
    """The example is `JobSet`, whose operator environments install."""
    operator = linked_files("With an operator that environments install")
    assert sorted([*files_of_kind("JobSet"), *operator]) == files_that_mention("JobSet")


def files_of_kind(kind: str) -> list[str]:
    """Return the files of the walk of a kind, whose example is RayJob."""
    return sorted(file.replace("rayjob", kind.lower()) for file in linked_files("A new workload kind"))
