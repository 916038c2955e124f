"""`trainstack add-team`: what it writes, and when it writes nothing."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.preflight.preflight import check
from trainstack.settings.loading.load import load_with_places

PLATFORM = """\
# The lab's platform.
config:
  trainstack:environment:
    layers: [platform]
    existing: {storageClasses: [fast]}
  trainstack:queues:
    flavors:
      - name: cpu   # every node
encryptionsalt: v1:abc:=
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a platform, as the current folder."""
    (tmp_path / "Pulumi.yaml").write_text("name: platform\n")
    (tmp_path / "Pulumi.lab.yaml").write_text(PLATFORM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add_team(*words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["add-team", *words, "-s", "lab"], env={"COLUMNS": "200"})


def files(root: Path) -> dict[str, str]:
    """What the project has."""
    return {each.name: each.read_text() for each in root.iterdir()}


def test_both_environments_are_sound_and_nothing_else_is_touched(root: Path) -> None:
    """Neither has an error; the platform's lines are all there, in their order, with what is new between them."""
    done = add_team("vision", "--quota", "cpu=2")
    assert done.exit_code == 0, done.output
    for stack in ("lab", "vision"):
        loaded = load_with_places(root, stack)
        assert [each for each in check(loaded.settings, root, loaded.places) if each.severity == "error"] == []
    assert set(files(root)) == {"Pulumi.yaml", "Pulumi.lab.yaml", "Pulumi.vision.yaml"}
    lines = files(root)["Pulumi.lab.yaml"].splitlines()
    assert [line for line in lines if line in PLATFORM.splitlines()] == PLATFORM.splitlines()
    assert "quota: cpu 2, memory 16Gi (default) on flavor cpu" in done.output
    assert "pulumi preview -s lab" in done.output


def test_a_second_call_changes_nothing_and_says_so(root: Path) -> None:
    """The team's file may have been edited since: it is left."""
    assert add_team("vision").exit_code == 0
    own = root / "Pulumi.vision.yaml"
    own.write_text(own.read_text().replace("10Gi", "20Gi"))
    before = files(root)
    done = add_team("vision")
    assert done.exit_code == 0
    assert "team vision of lab is complete; nothing was changed" in done.output
    assert "exists and is kept: Pulumi.vision.yaml" in done.output
    assert files(root) == before


def test_a_dry_run_shows_everything_and_writes_nothing(root: Path) -> None:
    """For a program, as JSON."""
    before = files(root)
    done = add_team("vision", "--group", "ml", "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert (told["written"], told["kept"], told["chosen"]["rights"]) == ([], [], "groups ml")
    assert "+      - {name: vision, namespace: vision, groups: [ml]}\n" in told["diff"]
    assert "+++ b/Pulumi.vision.yaml\n" in told["diff"]
    assert files(root) == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("vision", "--flavor", "cpuu"), 1, "lab has no flavor cpuu; did you mean cpu?"),
        (("vision", "--quota", "cpu"), 2, "--quota cpu: must be RESOURCE=QUANTITY"),
        (("vision", "--quota", "cpu=1", "--quota", "cpu=2"), 2, "--quota cpu: set twice"),
        (("lab",), 1, "Pulumi.lab.yaml exists and is not a team's environment"),
        (("vision", "--namespace", "kube_system"), 1, "'kube_system' is not a valid name for a namespace"),
    ],
)
def test_a_fault_is_told_and_nothing_is_written(root: Path, words: tuple[str, ...], code: int, said: str) -> None:
    """Neither of the two files."""
    before = files(root)
    done = add_team(*words)
    assert done.exit_code == code
    assert said in done.output
    assert files(root) == before


def test_what_would_not_pass_the_preflight_is_not_written(root: Path) -> None:
    """Here for a fault that the platform had before: it is told with its line."""
    text = PLATFORM.replace("existing:", "namespaces: [{name: a}, {name: a}]\n    existing:")
    (root / "Pulumi.lab.yaml").write_text(text)
    before = files(root)
    done = add_team("vision")
    assert done.exit_code == 1
    assert "nothing was written, since the result would have errors" in done.output
    assert "a is listed 2 times" in done.output
    assert files(root) == before
