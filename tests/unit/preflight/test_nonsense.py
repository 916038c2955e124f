"""Nonsensical edits of the committed files cause an error or a warning with file, line and remedy."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.copies import copy_into
from tests.unit.preflight.cases import ROOT
from trainstack.preflight.file_checks import examine, load_error_result
from trainstack.preflight.finding import Finding
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load_with_places
from trainstack.stack_objects.stack_objects import StackObjects

TABLE = Path(__file__).with_name("nonsense.yaml")
Edit = tuple[str, str, Any, str, str]
ROWS: list[Edit] = [tuple(row) for row in yaml.safe_load(TABLE.read_text(encoding="utf-8"))]
OUTCOMES = {"refused": ["error"], "warned": ["warning"], "legal": []}
_STEP = re.compile(r'\["(?P<quoted>[^"]+)"\]|\[(?P<element>[^\]]+)\]|\.?(?P<key>[^.\[]+)')


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of the repository that settings refer to."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".trainstack").symlink_to(ROOT / ".trainstack")
    environments = [file.name for file in ROOT.glob("Pulumi.*.yaml")]
    return copy_into(folder, "defaults.yaml", "sweeps", "workloads", *environments)


@pytest.mark.parametrize("edit", [pytest.param(row, id=f"{row[1]}={json.dumps(row[2])[:60]}") for row in ROWS])
def test_a_nonsensical_edit_is_found(edit: Edit, project: Path) -> None:
    """The finding has the outcome of the table, the edited place of the edited file, and a remedy."""
    file, path, value, outcome, words = edit
    stack = "dev" if file.startswith("workloads/") else file.split(".")[1]
    prefix = "workloads.runs[digits]." if file.startswith("workloads/") else ""
    content = yaml.load((ROOT / file).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    change(content if prefix else content["config"], path if prefix else f"trainstack:{path}", value)
    known = {replace(finding, where=None) for finding in unedited(project, stack)}
    with edited(project / file, content):
        found = [finding for finding in findings(project, stack) if replace(finding, where=None) not in known]
    severities = {finding.severity for finding in found}
    if outcome == "legal":
        assert not found
        return
    assert severities >= {*OUTCOMES[outcome]}, found
    assert (outcome == "refused") == ("error" in severities), found
    expected = [finding for finding in found if words in text(finding)]
    assert expected, [text(finding) for finding in found]
    for finding in expected:
        assert finding.where is not None
        assert (finding.where.file, finding.where.line > 0, bool(finding.remedy)) == (file, True, True), text(finding)
        assert related(finding.path, prefix + path), text(finding)


def test_the_table_is_large_and_each_edit_is_in_it_once() -> None:
    """The table has all outcomes."""
    keys = [json.dumps(row[:3]) for row in ROWS]
    assert len(keys) == len(set(keys)) >= 127
    assert {row[3] for row in ROWS} == {*OUTCOMES}


def related(path: str, edited_path: str) -> bool:
    """Return whether one path is within the other."""
    return path.startswith(edited_path) or edited_path.startswith(path)


def text(finding: Finding) -> str:
    """Return a finding without its path: expectations are about the message, the remedy or the rule."""
    return f"[{finding.id}] {finding.message}; {finding.remedy}"


@contextmanager
def edited(file: Path, content: object) -> Iterator[None]:
    """Give a file this content, and restore it afterwards."""
    original = file.read_bytes()
    text = yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    file.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        file.write_bytes(original)


def change(content: Any, path: str, value: object) -> None:
    """Set the value at a path, and create missing maps.

    A null value deletes the key. A map at an unknown element name becomes a new element.
    """
    steps = [found["quoted"] or found["element"] or found["key"] for found in _STEP.finditer(path)]
    for step in steps[:-1]:
        content = content.setdefault(step, {}) if isinstance(content, dict) else element(content, step)
    if value is None:
        del content[steps[-1]]
    elif isinstance(content, list) and isinstance(value, dict):
        content.append({"name": steps[-1], **value})
    else:
        content[steps[-1]] = value


def element(elements: list[Any], step: str) -> Any:
    """Return an element of a list by its index or name."""
    return elements[int(step)] if step.isdigit() else next(item for item in elements if item["name"] == step)


@cache
def unedited(project: Path, stack: str) -> tuple[Finding, ...]:
    """Return the findings about the committed environment, such as missing release manifests and pins."""
    return findings(project, stack)


def findings(root: Path, stack: str) -> tuple[Finding, ...]:
    """Return the findings that `trainstack check` prints."""
    try:
        loaded = load_with_places(root, stack)
    except SettingsError as error:
        return tuple(load_error_result(error).findings)
    return tuple(examine(StackObjects(loaded.settings), root, loaded.places).findings)
