"""The engine's preview becomes a report. The engine is a program that answers with a recorded preview."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.review.samples import DATA, make_claim, make_job, recorded, review, steps_json
from trainstack.review import engine
from trainstack.review.engine import KUBECONFIG_TEXT, build_report
from trainstack.review.report import read_report

ENV = """
import os, sys
assert sys.argv[1:] == ["env", "--stack", "dev", "--no-init"]
print("export PATH='" + os.path.join(os.getcwd(), "bin:") + os.environ["PATH"] + "'")
print("export PULUMI_HOME='with space'")
"""
MISSING = """#!{python} -IS
import os, pathlib, sys
words = sys.argv[1:]
state = pathlib.Path(os.environ["PULUMI_BACKEND_URL"].removeprefix("file://"), "dev.stack")
with open("{log}", "a") as log:
    log.write(f"{{' '.join(words[:2])}} {{state.exists()}} {{os.environ.get('PULUMI_CONFIG_PASSPHRASE')}}\\n")
if words[:2] == ["stack", "init"]:
    state.touch()
elif not state.exists():
    sys.exit("error: no stack named 'dev' found")
elif "--json" in words:
    print(pathlib.Path("{data}/queues.json").read_text())
"""
"""An engine without the stack."""
PULUMI = """#!{python} -IS
import json, os, pathlib, sys
assert os.environ["PULUMI_HOME"] == "with space"
assert "PULUMI_CONFIG_PASSPHRASE" not in os.environ
words = sys.argv[1:]
here = pathlib.Path(os.environ["KUBECONFIG"])
pathlib.Path("seen").write_text(f"{{here.read_text()}} {{here.stat().st_mode & 0o777:o}} {{here}}")
if words[0] == "config":
    print(json.dumps({{"trainstack:workloads": {{"objectValue": {{"runs": [{{"env": {{"KEY": "Opens"}}}}]}}}}}}))
elif "--json" in words:
    print(pathlib.Path("{data}/queues.json").read_text())
else:
    print(pathlib.Path("{data}/queues.diff").read_text() + " Opens")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a checkout with such an engine, and a secret in the stack's file."""
    (tmp_path / "trainstack" / "cli").mkdir(parents=True)
    (tmp_path / "trainstack" / "__init__.py").touch()
    (tmp_path / "trainstack" / "cli" / "__init__.py").touch()
    (tmp_path / "trainstack" / "cli" / "__main__.py").write_text(ENV, encoding="utf-8")
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(PULUMI.format(python=sys.executable, data=DATA), encoding="utf-8")
    program.chmod(0o755)
    stack = "config:\n  trainstack:workloads:\n    runs:\n      - env: {KEY: {secure: v1:abc}}\n"
    (tmp_path / "Pulumi.dev.yaml").write_text(stack, encoding="utf-8")
    return tmp_path


def test_a_preview_runs_with_the_environments_own_credentials(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubeconfig is a temporary file for its owner only; empty variables are unset; secrets are hidden."""
    monkeypatch.setenv(KUBECONFIG_TEXT, "the kubeconfig")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "")
    result = engine.preview(checkout, "dev", 7)
    assert (result.error, result.pull, result.counts.create, result.counts.replace) == ("", 7, 3, 1)
    assert result.diff.endswith(" [secret]\n")
    text, mode, file = (checkout / "seen").read_text(encoding="utf-8").rsplit(" ", 2)
    assert (text, mode) == ("the kubeconfig", "600")
    assert not Path(file).exists()


@pytest.mark.parametrize("state", ["embedded", "pulumi"])
def test_a_preview_creates_no_stack(checkout: Path, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """An embedded stack gets a temporary state; any other missing stack fails the review, as with `pulumi`."""
    states, log = checkout / "states", checkout / "log"
    states.mkdir()
    cli = f"{ENV}print('export PULUMI_BACKEND_URL=file://{states}')\nprint('unset PULUMI_CONFIG_PASSPHRASE')\n"
    (checkout / "trainstack" / "cli" / "__main__.py").write_text(cli, encoding="utf-8")
    (checkout / "bin" / "pulumi").write_text(MISSING.format(python=sys.executable, data=DATA, log=log))
    (checkout / "Pulumi.yaml").write_text("name: trainstack\n")
    (checkout / "Pulumi.dev.yaml").write_text(f"config:\n  trainstack:environment: {{state: {state}}}\n")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "trainstack-dev")
    result = engine.preview(checkout, "dev", 7)
    lines = log.read_text().splitlines()
    if state == "embedded":
        assert (result.error, result.counts.create) == ("", 3)
        steps = ["stack --stack False", "stack init False", "preview --stack True", "preview --stack True"]
    else:
        assert result.error == "error: no stack named 'dev' found"
        steps = ["stack --stack False", "preview --stack False", "preview --stack False"]
    assert lines == [f"{step} None" for step in steps]
    assert list(states.iterdir()) == []


def test_a_preview_that_cannot_run_fails_with_a_report(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has the error, and the command ends with the code of findings."""
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.delenv("GITHUB_EVENT_PATH", raising=False)
    (checkout / "trainstack" / "cli" / "__main__.py").write_text(
        "raise SystemExit('run `make tools`')", encoding="utf-8"
    )
    result = review("preview", "--base", checkout, "--head", checkout, "--reports", checkout / "reports")
    written = read_report(checkout / "reports", "dev")
    assert written is not None
    assert (result.exit_code, written.error) == (4, "run `make tools`")


def test_a_refused_change_fails_with_a_report(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine exits with 255, whatever the refusal."""
    monkeypatch.setenv("KUBECONFIG", str(checkout / "Pulumi.dev.yaml"))
    monkeypatch.delenv("GITHUB_EVENT_PATH", raising=False)
    refusing = PULUMI.replace("queues.", "refused.") + "    pass\nif words[0] == 'preview':\n    sys.exit(255)\n"
    (checkout / "bin" / "pulumi").write_text(refusing.format(python=sys.executable, data=DATA), encoding="utf-8")
    result = review("preview", "--base", checkout, "--head", checkout, "--reports", checkout / "reports")
    written = read_report(checkout / "reports", "dev")
    assert written is not None
    assert (result.exit_code, "this change would delete it" in written.error) == (4, True)


def test_the_engines_output_becomes_counts_facts_and_notes() -> None:
    """The input is a real preview; messages other than warnings are left out."""
    preview_report = build_report("dev", None, *recorded("queues"), set())
    assert preview_report.counts.model_dump() == {
        "create": 3,
        "update": 0,
        "replace": 1,
        "delete": 0,
        "imported": 0,
        "same": 104,
    }
    assert [fact.meaning for fact in preview_report.facts] == [
        "volume-made",
        "queue-moved",
        "queue-opened",
        "quota-made",
    ]
    (note,) = preview_report.notes
    assert note.startswith("digits-1ef63d273f is running as ")
    assert "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue: (replace) research/research" in preview_report.diff
    assert "[provider=" not in preview_report.diff


def test_a_refusal_is_a_result_with_its_reasons() -> None:
    """The report has nothing else: a partial diff could be mistaken for the whole."""
    result = build_report("dev", None, *recorded("refused"), set())
    assert "has been running for 36 s and this change would delete it" in result.error
    assert (result.diff, result.facts, result.counts.changes) == ("", (), 0)


def test_an_engine_without_output_is_still_an_error() -> None:
    """The reason is its stderr, where its JSON has none."""
    text, objects = recorded("refused")
    objects.stdout, objects.stderr = "", "error: incorrect passphrase"
    assert build_report("dev", None, text, objects, set()).error == "error: incorrect passphrase"
    objects.stderr = ""
    assert build_report("dev", None, text, objects, set()).error == "the engine gave no reason"


def test_runs_that_the_change_may_stop_are_read_from_the_configuration() -> None:
    """The list is that of the engine's configuration."""
    kind = "kubernetes:batch/v1:Job"
    step = {"op": "delete", "oldState": {"type": kind, "inputs": make_job()}}
    config = {"trainstack:workloads": json.dumps({"stop": ["train-1"]})}
    text, objects = recorded("queues")
    objects.stdout = steps_json(step, config=config)
    assert [fact.meaning for fact in build_report("dev", None, text, objects, set()).facts] == ["run-stopped"]
    objects.stdout = steps_json(step, config={"trainstack:workloads": "[secret]"})
    assert [fact.meaning for fact in build_report("dev", None, text, objects, set()).facts] == ["run-removed"]


def test_imports_are_listed_and_counted() -> None:
    """An import adds an object of the cluster to the stack; objects that are only read are not listed."""
    claim = {"type": "kubernetes:core/v1:PersistentVolumeClaim", "inputs": make_claim("1Gi")}
    job = {"type": "kubernetes:batch/v1:Job", "inputs": make_job()}
    imported = [{"op": "import", "newState": claim}, {"op": "import-replacement", "oldState": job, "newState": job}]
    others = [{"op": op, "newState": claim} for op in ("read", "same", "import-replacement-of-tomorrow")]
    text, objects = recorded("queues")
    objects.stdout = steps_json(*imported, *others, changeSummary={"import": 1, "import-replacement": 1, "read": 1})
    result = build_report("dev", None, text, objects, set())
    assert [(fact.meaning, fact.names) for fact in result.facts] == [
        ("object-imported", ("Job", "research/train-1-2")),
        ("object-imported", ("PersistentVolumeClaim", "research/data")),
    ]
    assert (result.counts.imported, result.counts.changes) == (2, 2)


@pytest.mark.parametrize("printed", ["", "{", "[]", "panic: {}"])
def test_a_preview_whose_objects_cannot_be_read_is_no_preview(printed: str) -> None:
    """It would otherwise read as a preview without changes."""
    result = build_report(
        "dev", 7, subprocess.CompletedProcess([], 0, "+ a", ""), subprocess.CompletedProcess([], 0, printed, ""), set()
    )
    assert result.error == "`pulumi preview --json` printed no JSON object, so the changes are unknown"
    assert result.diff == ""
