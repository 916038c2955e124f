"""The steps of docs/start that need no cluster.

tests/cluster/test_own_project.py does all steps of the owner's and the researcher's page on a cluster.
"""

import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.start_pages import PAGES, Edit, steps
from trainstack.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
LIVE = {"up", "preview", "destroy", "status", "logs", "events", "wait", "fetch"}
"""Commands that read or change a cluster; so does each one that ends with `--cluster`."""
FINDINGS = {"trainstack check -s dev"}
"""Lines that exit with 4: the reviewer's change does not fit its queue."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty repository and make it the current folder."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    monkeypatch.chdir(root)
    # No release is downloaded: the tests use no network.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    return root


def run(line: str) -> str:
    """Run a line that needs no cluster, and return its output."""
    words = shlex.split(line)
    if words[:2] == ["pipx", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert words[2:] == [f"./{project['name']}-{project['version']}-py3-none-any.whl"]
        return ""
    assert words[0] == "trainstack", line
    result = CliRunner().invoke(app, words[1:], env={"COLUMNS": "200"})
    assert result.exit_code == (4 if line in FINDINGS else 0), f"{line}\n{result.output}"
    return result.output


def live(line: str) -> bool:
    """Return whether a line needs a cluster."""
    words = shlex.split(line)
    return words[:1] == ["trainstack"] and (words[1] in LIVE or words[-1] == "--cluster")


def follow(page: str, root: Path) -> dict[str, str]:
    """Do the steps of a page, and return the output of each line."""
    printed = {}
    for step in steps(page):
        if isinstance(step, Edit):
            step.apply(root)
        elif not live(step.text):
            printed[step.text] = run(step.text)
    return printed


def test_the_owners_page(folder: Path) -> None:
    """The steps go from the new project to a team, whose namespace and queue are declared."""
    printed = follow("owner", folder)
    assert "hello  fits     on default" in printed["trainstack check -s platform"]
    assert "kind: ClusterQueue" in printed["trainstack render -s platform"]
    assert "kind: Deployment" not in printed["trainstack render -s platform"]
    assert (folder / "Pulumi.vision.yaml").is_file()
    assert "vision-ml" in (folder / "Pulumi.platform.yaml").read_text()
    assert (folder / "rights" / "platform.yaml").is_file()


def test_the_researchers_page(folder: Path) -> None:
    """A new project has no errors, before and after the edits of the page."""
    found: list[str] = []
    for step in steps("researcher"):
        if isinstance(step, Edit):
            step.apply(folder)
        elif not live(step.text):
            found.append(run(step.text))
    init, checked = found[1:]
    assert "error" not in init
    assert "0 errors" in checked


def test_the_reviewers_page(folder: Path) -> None:
    """The comment on the page belongs to the change on the page; no line needs a cluster."""
    assert not any(live(step.text) for step in steps("reviewer") if not isinstance(step, Edit))
    run("trainstack init --profile owner --cluster kind")
    shutil.copytree(folder, folder.parent / "base")
    comment = follow("reviewer", folder)["trainstack review comment --stack dev --reports ../reports"]
    quoted = re.findall(r"^> ?(.*\n)", (PAGES / "reviewer.md").read_text(), re.MULTILINE)
    assert "".join(quoted) in comment


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_front_door_is_short(page: Path) -> None:
    """Readers follow links for more."""
    assert len(page.read_text(encoding="utf-8").split()) <= 600
