"""`trainstack sweep expand` and `next`: the files that they write, their output, and their errors."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.settings.loading.sweep_files import load_space
from trainstack.sweeps.search.results import TrialResult, to_json

SPACE = """\
# Chosen in May.
method: random
trials: 3
seed: 5
parameters:
  batch_size: {values: [32, 64, 128, 512]}  # what fits
  lr: {logUniform: {low: 0.0001, high: 0.1}}
objective: {metric: val_accuracy, direction: maximize}
file: /work/hyperparams.yml
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with the sweep `search`, not expanded, as the current folder."""
    (tmp_path / "Pulumi.yaml").touch()
    (tmp_path / "sweeps/search").mkdir(parents=True)
    (tmp_path / "sweeps/search/space.yaml").write_text(SPACE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, stdin: str = "") -> Result:
    """Call `trainstack sweep`."""
    return CliRunner().invoke(app, ["sweep", *words], input=stdin)


def test_expand_writes_the_file_once(root: Path) -> None:
    """The file is current then, and programs take their set by number."""
    file = root / "sweeps/search/hyperparams.yml"
    assert run("expand", "search").stdout == "sweeps/search/hyperparams.yml: 3 sets (3 new)\n"
    before = file.read_text(encoding="utf-8")
    assert run("expand").stdout == "sweeps/search/hyperparams.yml: 3 sets (current)\n"
    assert file.read_text(encoding="utf-8") == before
    assert sorted(yaml.safe_load(before)[2 - 1]["hyperparam_set"]) == ["batch_size", "lr"]
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(".")] == []


def test_check_writes_nothing_and_names_the_command(root: Path) -> None:
    """A pipeline detects a missing file, an edited space, and an edited file."""
    missing = run("expand", "--check")
    assert missing.exit_code == 4
    assert "error: not current: search; run `trainstack sweep expand search`" in missing.stderr
    assert not (root / "sweeps/search/hyperparams.yml").exists()
    run("expand")
    assert run("expand", "--check").exit_code == 0
    file = root / "sweeps/search/space.yaml"
    file.write_text(SPACE.replace("trials: 3", "trials: 4"), encoding="utf-8")
    edited = run("expand", "search", "--check")
    assert (edited.exit_code, edited.stdout) == (4, "sweeps/search/hyperparams.yml: 4 sets (1 new)\n")


def test_expand_prints_json(root: Path) -> None:
    """The JSON has the sets, and which are new and which are removed."""
    run("expand")
    file = root / "sweeps/search/space.yaml"
    file.write_text(SPACE.replace("trials: 3", "trials: 2"), encoding="utf-8")
    (item,) = json.loads(run("expand", "--json").stdout)
    assert (item["sweep"], item["file"], item["current"]) == ("search", "sweeps/search/hyperparams.yml", False)
    assert [sorted(entry) for entry in item["sets"]] == [["hyperparam_set", "id", "number"]] * 2
    assert (item["new"], len(item["gone"])) == ([], 1)


def test_a_wrong_space_is_refused_with_its_line(root: Path) -> None:
    """The files or the draws cause the error; nothing is written."""
    file = root / "sweeps/search/space.yaml"
    file.write_text(SPACE.replace("maximize", "up"), encoding="utf-8")
    assert "sweeps/search/space.yaml:8: objective.direction: is not supported" in run("expand").stderr
    file.write_text(SPACE + "constraints: [lr > 1]\n", encoding="utf-8")
    refused = run("expand")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "error: sweeps/search/space.yaml:3: trials is 3, but 150 draws yielded 0 distinct sets that meet the "
        "constraints; lower it, or remove a constraint\n"
    )
    assert not (root / "sweeps/search/hyperparams.yml").exists()


def test_all_invalid_spaces_are_reported_at_once(root: Path) -> None:
    """No file is written, not of a valid one either, until all are valid."""
    folders = {"broken": SPACE.replace("maximize", "up"), "few": SPACE + "constraints: [lr > 1]\n", "My_Search": SPACE}
    for name, text in folders.items():
        (root / "sweeps" / name).mkdir()
        (root / "sweeps" / name / "space.yaml").write_text(text, encoding="utf-8")
    refused = run("expand")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == (
        "error: sweep 'My_Search' has 1 fault:\n"
        "  sweeps/My_Search: is not a valid name of a sweep's folder; use lower-case letters, digits and '-', with a "
        "letter or digit at both ends\n"
        "sweep 'broken' has 1 fault:\n"
        '  sweeps/broken/space.yaml:8: objective.direction: is not supported (value "up"); write minimize '
        "or maximize\n"
        "sweeps/few/space.yaml:3: trials is 3, but 150 draws yielded 0 distinct sets that meet the constraints; lower "
        "it, or remove a constraint\n"
    )
    assert not list(root.glob("sweeps/*/hyperparams.yml"))
    assert run("expand", "search", "search").stdout == "sweeps/search/hyperparams.yml: 3 sets (3 new)\n"


@pytest.mark.parametrize("name", ["../search", "sweeps/search", "Search", "a_b", "-a", "", "a" * 64])
def test_what_no_folder_of_a_sweep_is_called_is_refused(root: Path, name: str) -> None:
    """Its name becomes the name of objects in the cluster."""
    refused = run("expand", "--", name)
    assert refused.exit_code == 1
    assert f"sweeps/{name}: is not a valid name of a sweep's folder; use lower-case letters, digits" in refused.stderr
    assert [path.name for path in root.rglob("hyperparams.yml")] == []


def results_of(root: Path) -> str:
    """Return the output of `sweep results --json` where the objective of every trial is its learning rate."""
    sets = json.loads(run("expand", "--json").stdout)[0]["sets"]
    results = [
        TrialResult(
            number=entry["number"],
            set_id=entry["id"],
            run_id=f"search-{entry['id']}",
            parameters=entry["hyperparam_set"],
            state="succeeded",
            metrics=({"epoch": 1, "val_accuracy": entry["hyperparam_set"]["lr"]},),
        )
        for entry in sets
    ]
    return json.dumps(to_json("search", load_space(root, "search").space.objective, results))


def test_next_adds_sets_to_the_space_and_to_the_file(root: Path) -> None:
    """Every line of the space is kept, the first sets keep their numbers, and both files agree."""
    results = results_of(root)
    before = yaml.safe_load((root / "sweeps/search/hyperparams.yml").read_text(encoding="utf-8"))
    result = run("next", "search", "--results", "-", "--count", "2", stdin=results)
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["4", "5"]
    space = (root / "sweeps/search/space.yaml").read_text(encoding="utf-8")
    assert space.startswith(SPACE + "sets:\n")
    after = yaml.safe_load((root / "sweeps/search/hyperparams.yml").read_text(encoding="utf-8"))
    assert after[:3] == before
    assert [entry["hyperparam_set"] for entry in after[3:]] == list(load_space(root, "search").space.sets)
    assert run("expand", "--check").exit_code == 0


def test_next_reads_a_file_and_prints_json(root: Path) -> None:
    """A second call proposes others, since the first sets are in progress."""
    file = root / "results.json"
    file.write_text(results_of(root), encoding="utf-8")
    first, second = (json.loads(run("next", "search", "--results", str(file), "--json").stdout) for _ in range(2))
    assert [len(first), len(second)] == [4, 4]
    assert not {entry["id"] for entry in first} & {entry["id"] for entry in second}


def test_next_refuses_invalid_results(root: Path) -> None:
    """The files are not changed."""
    (root / "results.json").write_text("{}", encoding="utf-8")
    refused = run("next", "search", "--results", str(root / "results.json"))
    assert refused.exit_code == 1
    assert refused.stderr.endswith(
        "results.json: has no `sweep`; give the output of `trainstack sweep results search --json`\n"
    )
    assert (root / "sweeps/search/space.yaml").read_text(encoding="utf-8") == SPACE
