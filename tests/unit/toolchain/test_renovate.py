"""renovate.json matches the project's pins and their files."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from trainstack.toolchain import go_modules
from trainstack.toolchain.places import GO_MODULES

ROOT = Path(__file__).resolve().parents[3]
CONFIG: dict[str, Any] = json.loads((ROOT / "renovate.json").read_text())
MODULES = {file.parent.name: go_modules.load(file) for file in sorted(GO_MODULES.glob("*/go.mod"))}


def files(pattern: str) -> list[str]:
    """Return the committed files that a pattern of Renovate matches: a regular expression between slashes."""
    expression = re.compile(pattern[1:-1])
    folders = (ROOT, ROOT / "trainstack" / "onboarding" / "new_project" / "templates")
    names = (file.relative_to(ROOT).as_posix() for folder in folders for file in folder.iterdir())
    return [name for name in names if expression.search(name)]


@pytest.mark.parametrize("manager", CONFIG["customManagers"], ids=lambda manager: manager["depNameTemplate"])
def test_each_release_in_defaults_is_found_with_its_module(manager: dict[str, Any]) -> None:
    """Program and release manifest have the same version, so an update of one of them would fail the tests."""
    (pattern,), (expression,) = manager["managerFilePatterns"], manager["matchStrings"]
    (file,) = files(pattern)
    # Renovate's named groups are those of JavaScript.
    found = re.findall(expression.replace("(?<", "(?P<"), (ROOT / file).read_text())
    assert found == [MODULES["cluster"].version(manager["depNameTemplate"])]


def test_every_release_in_defaults_has_a_manager() -> None:
    """Each manifest has one."""
    text = (ROOT / "defaults.yaml").read_text()
    assert len(CONFIG["customManagers"]) == len(re.findall(r"^ +manifest: ", text, re.MULTILINE))


def test_the_modules_of_programs_are_updated() -> None:
    """They are indirect requirements, which Renovate ignores without a rule."""
    rule = next(rule for rule in CONFIG["packageRules"] if rule.get("matchDepTypes") == ["indirect"])
    tools = set()
    for module in MODULES.values():
        for tool in module.tool:
            tools.add(max((name for name in module.require if f"{tool}/".startswith(f"{name}/")), key=len))
    assert rule["matchPackageNames"] == sorted(tools)
    assert rule["enabled"] is True


def test_the_replacements_of_kubernetes_are_one_update() -> None:
    """31 modules of one release; a mixture does not build."""
    (rule,) = (rule for rule in CONFIG["packageRules"] if rule.get("groupName") == "Kubernetes")
    (pattern,) = rule["matchPackageNames"]
    replaced = MODULES["cluster"].replace
    assert len(replaced) > 20
    assert [name for name in replaced if re.search(pattern[1:-1], name)] == [*replaced]
    assert len({version.partition(" ")[2] for version in replaced.values()}) == 1


def test_the_workflow_of_new_projects_has_its_actions_updated() -> None:
    """It is a template, which no manager reads."""
    (pattern,) = CONFIG["github-actions"]["managerFilePatterns"]
    assert files(pattern) == ["trainstack/onboarding/new_project/templates/trainstack.yml.j2"]
