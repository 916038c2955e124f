"""The documentation is executed, except for the parts that need a cluster or the engine.

test_doc_settings.py has the blocks with settings.
"""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

from tests.copies import copy_into
from tests.doc_blocks import PAGES, ROOT, Block, blocks, prose
from tests.unit.test_imports import LAYERS
from trainstack.cli.app import app
from trainstack.cli.commands import up
from trainstack.cli.session import Session
from trainstack.preflight.file_checks import check
from trainstack.preflight.finding import Finding
from trainstack.preflight.used_images import used_images
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.sections.operators import Operators
from trainstack.settings.values.stack_name import list_stacks
from trainstack.stack_objects.inputs import read_inputs
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.toolchain import debian
from trainstack.toolchain.pinned_versions import collect

CALL = re.compile(r"(?:^|[\s(])(?:\.venv/bin/)?trainstack(?P<words> [^)\"|;&\n]*)")
NEEDS_TOOLS = ("manifest-missing", "manifest-mismatch")
"""Rules about files that `make tools` builds."""


def commands(command: TyperCommand | TyperGroup, name: str = "trainstack") -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command without subcommands by its full name."""
    if isinstance(command, TyperGroup):
        for word, subcommand in command.commands.items():
            assert isinstance(subcommand, TyperCommand | TyperGroup)
            yield from commands(subcommand, f"{name} {word}")
    else:
        yield name, command


CLI = typer.main.get_command(app)
assert isinstance(CLI, TyperGroup)
COMMANDS = dict(commands(CLI))


def calls(text: str) -> Iterator[list[str]]:
    """Yield the words after `trainstack` of each call in a shell text."""
    yield from (shlex.split(match["words"], comments=True) for match in CALL.finditer(text))


def parse(words: list[str]) -> None:
    """Parse a call without running it; invalid words raise."""
    depth = next((depth for depth in (1, 2) if " ".join(["trainstack", *words[:depth]]) in COMMANDS), None)
    assert depth is not None, f"there is no command: trainstack {' '.join(words)}"
    if words[0] == "upload":
        Path(words[1]).mkdir(parents=True)  # the command checks that its argument exists
    name = " ".join(["trainstack", *words[:depth]])
    COMMANDS[name].make_context(name, words[depth:])


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: its headings as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def project(folder: Path) -> Path:
    """Create a project in the folder: the files of this one that settings need, without environments."""
    (folder / ".trainstack").symlink_to(ROOT / ".trainstack")
    return copy_into(folder, "defaults.yaml", "sweeps", "workloads")


def assert_sound(root: Path, stack: str) -> None:
    """Check that the environment loads without errors."""
    loaded = load_with_places(root, stack)
    findings = check(loaded.settings, root, loaded.places)
    assert [str(finding) for finding in findings if finding.severity == "error" and finding.id not in NEEDS_TOOLS] == []


@pytest.mark.parametrize("block", [block for block in blocks("sh", "") if CALL.search(block.text)], ids=str)
def test_every_command_of_the_docs_parses(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, options and arguments are those that `trainstack` has."""
    monkeypatch.chdir(tmp_path)
    for words in calls(block.text):
        parse(words)


def test_every_command_that_the_prose_names_exists() -> None:
    """`trainstack …` in a sentence or a table begins with the name of a command."""
    unknown = []
    for page in PAGES:
        for span in re.findall(r"`trainstack ([a-z][a-z -]*)[^`]*`", prose(page)):
            words = span.split()
            known = any(" ".join(["trainstack", *words[:depth]]) in COMMANDS for depth in (1, 2))
            if not known and words != ["cluster"]:
                unknown.append(f"{page}: trainstack {span}")
    assert unknown == []


def test_the_page_of_commands_names_every_command() -> None:
    """Its tables have each command once."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(trainstack [a-z -]+)` \| \S", page, re.MULTILINE)
    assert sorted(named) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_gives_examples_that_parse(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--help` has a section of examples, each a call of that command."""
    text = COMMANDS[name].help or ""
    assert re.search(r"^Examples?:$", text, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    examples = list(calls(text[text.index("Example") :]))
    assert examples
    for words in examples:
        assert " ".join(["trainstack", *words]).startswith(name)
        parse(words)


def test_every_make_target_exists() -> None:
    """`make X` is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        (page, target)
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert [f"{page}: make {target}" for page, target in named if target not in targets] == []


def test_every_relative_link_resolves() -> None:
    """The file exists, and so does the heading."""
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path) if path else page
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{page}: {target}")
    assert broken == []


def needs_tools(finding: Finding) -> bool:
    """Return whether a finding is about a release manifest that `make tools` has not built yet."""
    return finding.id in NEEDS_TOOLS or (finding.severity, finding.path) == ("unknown", "operators")


UNPINNED = ("prod", "staging")
"""Environments with images by digest.

Their pins come from the registry of the cluster, which belongs to their owner: the repository has none, and an invented
one would be worse than none.
"""


@pytest.mark.parametrize("stack", sorted({*list_stacks(ROOT)} - {*UNPINNED}))
def test_every_environment_of_the_repository_loads(stack: str) -> None:
    """The preflight finds no error in any `Pulumi.<env>.yaml`."""
    assert_sound(ROOT, stack)


@pytest.mark.parametrize("stack", UNPINNED)
def test_an_environment_to_be_pinned_lacks_its_pins_alone(stack: str) -> None:
    """The preflight finds one `image-unpinned` for each of its images and nothing else; with pins it finds nothing."""
    loaded = load_with_places(ROOT, stack)
    settings = loaded.settings
    without = settings.model_copy(update={"operators": Operators()})
    used = used_images(StackObjects(without, read_inputs(without, ROOT, commit="")))
    findings = [finding for finding in check(settings, ROOT, loaded.places) if not needs_tools(finding)]
    assert {finding.id for finding in findings} == {"image-unpinned"}
    assert {finding.path for finding in findings if not finding.path.startswith("operators.")} == {
        image.path for image in used
    }
    digest = f"sha256:{'0' * 64}"
    pins = {finding.message.split()[1]: digest for finding in findings}
    pinned = settings.model_copy(update={"pins": pins})
    assert [str(finding) for finding in check(pinned, ROOT) if not needs_tools(finding)] == []


def test_every_json_block_is_json() -> None:
    """The same holds for the part before an ellipsis."""
    assert [json.loads(block.text) for block in blocks("json")]


def test_the_readme_shows_what_up_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The block below `make up` matches a record with that id and accuracy."""
    (block_text,) = (block.text for block in blocks("text") if block.page == "README.md")
    run_id, accuracy = block_text.split()[0], float(block_text.split("test accuracy")[1].split()[0])
    record = tmp_path / "results" / run_id
    (record / "result").mkdir(parents=True)
    (record / "run.json").touch()
    (record / "result" / "model.pt").touch()
    (record / "result" / "metrics.jsonl").write_text(json.dumps({"test_accuracy": accuracy}) + "\n")
    project(copy_into(tmp_path, "Pulumi.yaml", "Pulumi.dev.yaml"))
    monkeypatch.chdir(tmp_path)
    ledger = SimpleNamespace(run_id=run_id, sweep="")
    monkeypatch.setattr(up, "read_runs", lambda _: SimpleNamespace(ledgers=(ledger,)))
    monkeypatch.setattr(up, "fetch_run", lambda *_: record)
    up._fetch_results(Session(tmp_path, "dev"))
    assert capsys.readouterr().out.strip() == block_text.strip()


@cache
def dependencies() -> dict[str, set[str]]:
    """Return the names of the pins by heading of the page."""
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = pinned["dependency-groups"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[=<>~!\[ ]", requirement, maxsplit=1)[0] for requirement in requirements}

    return {
        "Python": names(
            [
                *pinned["project"]["dependencies"],
                *(pin for extra in pinned["project"]["optional-dependencies"].values() for pin in extra),
            ]
        ),
        "Development": names(
            [*(pin for group in groups.values() for pin in group), *pinned["build-system"]["requires"]]
        ),
        "Go modules": {version.name for version in collect() if version.kind == "go"},
        "Debian packages": set(debian.PACKAGES),
    }


@pytest.mark.parametrize("heading", dependencies())
def test_every_direct_dependency_is_explained(heading: str) -> None:
    """docs/dependencies.md has one line for each, and no others."""
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    section = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    explained = re.findall(r"^\| `([^`]+)` \| \S", section, re.MULTILINE)
    assert sorted(explained) == sorted(dependencies()[heading])


def test_the_base_image_is_explained() -> None:
    """The page of dependencies has each of its packages."""
    packages = (ROOT / "trainstack" / "local_cluster" / "containerfiles" / "base" / "packages.txt").read_text().split()
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert [name for name in packages if f"`{name}`" not in page] == []


def test_the_page_of_the_architecture_lists_the_layers() -> None:
    """The table has one row for each layer, in the order of imports."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[([a-z_]+)(?:/|\.py)\]\(\.\./trainstack/\1(?:\.py)?\) \| \S", page, re.MULTILINE)
    assert tuple(listed) == LAYERS


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "lifecycles").glob("*.md")), ids=lambda page: page.stem)
def test_the_functions_of_a_lifecycle_are_in_the_files_that_it_names(page: Path) -> None:
    """A step has the form "`function` ([file](link))"."""
    steps = re.findall(
        r"((?:`\w+`(?: and )?)+)\s*(?:\(|in\s+)\[[\w/.]+\]\(([\w/.]+\.py)\)", page.read_text(encoding="utf-8")
    )
    assert steps
    for functions, link in steps:
        module = ast.parse((page.parent / link).read_text(encoding="utf-8"))
        defined = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert {*re.findall(r"\w+", functions)} - {"and"} <= defined, link


def test_the_readme_is_short() -> None:
    """It has at most 700 words: everything else is on linked pages."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


def test_the_readme_leads_to_every_page() -> None:
    """Links are direct; those to decisions, systems and generated schemas are to their folder or index.

    The site's first page is the README's counterpart.
    """
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert [name for name in sorted(pages) if f"(docs/{name}" not in readme] == []
