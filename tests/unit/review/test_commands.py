"""`trainstack render` and `trainstack check`, on this repository's own environment and on wrong ones."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from trainstack.cli.commands.check import check
from trainstack.cli.commands.render import render

ROOT = Path(__file__).resolve().parents[3]

app = typer.Typer()
app.command()(render)
app.command()(check)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the files of this project into the current folder of the commands."""
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml", "defaults.yaml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("workloads/digits", "trainstack/runs/wrapper"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, stdout and stderr."""
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, result.stderr


def test_render_prints_what_is_declared(checkout: Path) -> None:
    """YAML for people and JSON for programs have the same objects."""
    code, text, _ = run("render", "--without-releases")
    assert code == 0
    objects = list(yaml.safe_load_all(text))
    assert {"Namespace", "ClusterQueue", "PersistentVolumeClaim", "TrainJob"} <= {obj["kind"] for obj in objects}
    assert json.loads(run("render", "--without-releases", "--json")[1]) == objects


def test_render_reads_another_checkout(checkout: Path, tmp_path: Path) -> None:
    """The files are those of `--root`, wherever the command runs."""
    other = tmp_path / "other"
    shutil.copytree(checkout, other, ignore=shutil.ignore_patterns("other"))
    file = other / "Pulumi.dev.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("2Gi", "3Gi"), encoding="utf-8")
    assert "3Gi" in run("render", "--without-releases", "--root", str(other))[1]
    assert "3Gi" not in run("render", "--without-releases")[1]


def test_render_explains_each_value(checkout: Path) -> None:
    """The explanation has file and line."""
    code, text, _ = run("render", "--explain")
    assert code == 0
    assert any("(workloads/digits/workload.yaml:" in line and " = 'TrainJob'" in line for line in text.splitlines())
    assert {"path", "value", "file", "line"} == set(json.loads(run("render", "--explain", "--json")[1])[0])


def test_render_reports_missing_releases(checkout: Path) -> None:
    """The error explains how to get them, or how to do without."""
    code, _, stderr = run("render")
    assert code == 1
    assert "the release manifest does not exist" in stderr
    assert "--without-releases" in stderr


def test_check_fails_on_errors_alone(checkout: Path) -> None:
    """Each error has its place and its remedy."""
    assert "[manifest-missing]" in run("check")[1]
    releases = checkout / ".trainstack" / "manifests"
    releases.mkdir(parents=True)
    for name in ("kueue-v0.19.2", "jobset-v0.12.0", "trainer-v2.3.0"):
        (releases / f"{name}.yaml").touch()
    defaults = checkout / "defaults.yaml"
    pinned = re.sub(r"(?<=sha256: )[0-9a-f]{64}", hashlib.sha256(b"").hexdigest(), defaults.read_text(encoding="utf-8"))
    defaults.write_text(pinned, encoding="utf-8")
    assert run("check")[0] == 0
    file = checkout / "Pulumi.dev.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("queue: research", "queue: reseach"), encoding="utf-8")
    code, text, _ = run("check")
    assert code == 4
    assert re.search(r"^ +error +\[queue-unknown\] Pulumi\.dev\.yaml:\d+ *$", text, re.MULTILINE)
    output = json.loads(run("check", "--json")[1])["findings"]
    assert output[0]["severity"] == "error"
    assert output[0]["where"]["file"] == "Pulumi.dev.yaml"


def test_check_judges_each_run(checkout: Path) -> None:
    """People get a line, programs the details; silenced findings are counted, and only programs get them."""
    assert "digits  fits     on cpu" in run("check")[1].splitlines()
    file = checkout / "Pulumi.dev.yaml"
    text = file.read_text(encoding="utf-8").replace("nominalQuota: 2}", "nominalQuota: 500m}")
    entry = "{rule: never-fits, path: 'workloads.runs[digits]', reason: more comes}"
    section = f"  trainstack:checks:\n    silenced: [{entry}]\n"
    file.write_text(text.replace("encryptionsalt:", f"{section}encryptionsalt:"), encoding="utf-8")
    _, stdout, stderr = run("check")
    assert "[never-fits]" not in stdout
    assert any(line.startswith("digits  never fits  why      3 node pods need") for line in stdout.splitlines())
    assert "1 silenced" in stderr
    output = json.loads(run("check", "--json")[1])
    assert [finding["silenced"] for finding in output["findings"] if finding["id"] == "never-fits"] == ["more comes"]
    (verdict,) = output["verdicts"]
    assert (verdict["name"], verdict["outcome"], verdict["lacks"][0]["missing"]) == ("digits", "never fits", "250m")
    assert verdict["remedies"][0]["changes"]


def test_check_reports_what_does_not_load(checkout: Path) -> None:
    """The form is that of other findings."""
    file = checkout / "Pulumi.dev.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("size:", "sise:"), encoding="utf-8")
    code, text, _ = run("check", "-s", "dev")
    assert code == 4
    assert "error    [settings] Pulumi.dev.yaml:" in text
    assert "did you mean size?" in text
    assert run("check", "-s", "none")[0] == 4
