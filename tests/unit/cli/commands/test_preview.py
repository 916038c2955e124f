"""`trainstack preview`, and the preview and question of `trainstack up`."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.make import make_settings
from trainstack.cli.app import app
from trainstack.cli.commands import preview, up
from trainstack.cli.output import console
from trainstack.cli.output.preview_format import preview_errors, preview_lines
from trainstack.cli.session import Session
from trainstack.errors import ExitCode
from trainstack.local_cluster import cluster
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.settings.loading.load import LoadedEnvironment

DATA = Path(__file__).resolve().parents[2] / "review" / "data"


def make_step(op: str, kind: str, name: str, *, retained: bool = False, **inputs: Any) -> dict[str, Any]:
    """Return a step with the same inputs before and after."""
    state = {
        "type": f"kubernetes:core/v1:{kind}",
        "retainOnDelete": retained,
        "inputs": {"metadata": {"name": name, "namespace": "research"}, **inputs},
    }
    return {"op": op, "oldState": {} if op == "create" else state, "newState": {} if op == "delete" else state}


def make_update(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step that changes these inputs."""
    old, new = make_step("update", kind, "x", **before), make_step("update", kind, "x", **after)
    return {"op": "update", "oldState": old["oldState"], "newState": new["newState"]}


def test_a_replaced_queue_is_shown_with_its_changed_field() -> None:
    """The input is the output of the engine; the warning of the program becomes a note."""
    output = list(preview_lines(json.loads((DATA / "queues.json").read_text(encoding="utf-8"))))
    assert "replace: LocalQueue research/research" in output
    assert "  spec.clusterQueue: research → other" in output
    assert any(line.startswith("note: digits-1ef63d273f is running as") for line in output)
    assert output[-1].endswith(" unchanged")


def test_creations_and_deletions_are_listed_by_kind() -> None:
    """A retained object is forgotten, not deleted."""
    steps = [
        make_step("create", "ConfigMap", "b"),
        make_step("create", "ConfigMap", "a"),
        make_step("import", "Namespace", "existing"),
        make_step("import-replacement", "Secret", "token"),
        make_step("delete", "Job", "old"),
        make_step("delete", "PersistentVolumeClaim", "data", retained=True),
        {"op": "create", "newState": {"type": "trainstack:platform:Queues"}},
    ]
    assert list(preview_lines({"steps": steps, "changeSummary": {"create": 2, "same": 101}})) == [
        "create: ConfigMap research/a, research/b",
        "import: Namespace existing",
        "import-replacement: Secret research/token",
        "delete: Job research/old",
        "forget: PersistentVolumeClaim research/data (kept in the cluster)",
        "2 to create, 1 to import, 1 to import-replacement, 2 to delete, 101 unchanged",
    ]


def test_an_object_of_the_cluster_has_no_namespace() -> None:
    """The provider gives the namespace `default` to a kind whose definition does not exist yet; it is not shown."""
    assert (
        next(preview_lines({"steps": [make_step("create", "ClusterQueue", "research")]}))
        == "create: ClusterQueue research"
    )


def make_release(
    op: str, former: Mapping[str, str], revision: Mapping[str, str], versions: tuple[str, str]
) -> dict[str, Any]:
    """Return a step of a release's resource, from and to these revisions."""
    states = [
        {
            "type": "pulumi:index:Stash",
            "inputs": {"input": {"version": version, "state": "a", "definitions": definitions}} if definitions else {},
        }
        for version, definitions in zip(versions, (former, revision), strict=True)
    ]
    urn = "urn:pulumi:dev::trainstack::trainstack:platform:Definitions$pulumi:index:Stash::kueue-definitions"
    step: dict[str, Any] = {"op": op, "urn": urn}
    return step | ({"oldState": states[0]} if former else {}) | ({"newState": states[1]} if revision else {})


def test_a_release_shows_each_definition() -> None:
    """Removed definitions are forgotten, not deleted."""
    versions = ("v1", "v1")
    created = make_release("create", {}, {"a": "1", "b": "1"}, versions)
    assert list(preview_lines({"steps": [created]})) == [
        "create: CustomResourceDefinition a, b",
        "2 to create, 0 unchanged",
    ]
    upgraded = make_release("update", {"a": "1", "b": "1"}, {"a": "2", "c": "2"}, ("v1", "v2"))
    assert list(preview_lines({"steps": [upgraded]})) == [
        "create: CustomResourceDefinition c",
        "forget: CustomResourceDefinition b (kept in the cluster)",
        "update: CustomResourceDefinition a",
        "  version: v1 → v2",
        "  revision: 1 → 2",
        "1 to create, 1 to delete, 1 to update, 0 unchanged",
    ]
    repaired = make_release("update", {"a": "1", "b": "1"}, {"a": "1-1", "b": "1"}, versions)
    assert list(preview_lines({"steps": [repaired]})) == [
        "update: CustomResourceDefinition a",
        "  revision: 1 → 1-1",
        "1 to update, 0 unchanged",
    ]
    assert list(preview_lines({"steps": [make_release("same", {"a": "1"}, {"a": "1"}, versions)]})) == [
        "no changes, 0 unchanged"
    ]


def test_an_update_shows_each_changed_field() -> None:
    """Changes in lists, additions and removals are shown; long values are cut."""
    before = {"spec": {"quota": [1, 2], "gone": "x"}, "data": {"text": "a" * 100}}
    after = {"spec": {"quota": [1, 3], "new": True}, "data": {"text": "b" * 100}}
    assert list(preview_lines({"steps": [make_update("ConfigMap", before, after)]})) == [
        "update: ConfigMap research/x",
        "  spec.quota[1]: 2 → 3",
        "  spec.gone: x (removed)",
        "  spec.new: True (added)",
        f"  data.text: {'a' * 59}… → {'b' * 59}…",
        "1 to update, 0 unchanged",
    ]


@pytest.mark.parametrize("kind", ["Secret", "SecretPatch", "SecretList"])
def test_the_values_of_a_secret_are_hidden(kind: str) -> None:
    """The changed keys are shown."""
    before, after = {"data": {"key": "old", "gone": "x"}}, {"data": {"key": "new", "added": "y"}}
    lines = list(preview_lines({"steps": [make_update(kind, before, after)]}))
    assert lines[1:-1] == ["  data.key", "  data.gone", "  data.added"]


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_a_changed_key_is_one_line_without_control_characters(kind: str) -> None:
    """A key of an untrusted author looks like no other line, and has no effect on the terminal."""
    key = "a\nb\r\nc\u2028d\te\x1b[31mf\x1b]0;title\x07\u202eg"
    lines = list(preview_lines({"steps": [make_update(kind, {"data": {key: "1"}}, {"data": {key: "2"}})]}))
    shown_value = ": 1 → 2" if kind == "ConfigMap" else ""
    assert lines[1:-1] == [rf"  data.a\nb\nc\nd\tef\u202eg{shown_value}"]


def test_a_changed_value_is_one_line_without_control_characters() -> None:
    """The same holds for all line ends."""
    step = make_update("ConfigMap", {"data": {"key": "a\nb\rc"}}, {"data": {"key": "a\x1b[2Jb\u2028\tc"}})
    assert list(preview_lines({"steps": [step]}))[1] == r"  data.key: a\nb\nc → ab\n\tc"


def test_every_deletion_is_named() -> None:
    """Of many creations, only the first are named."""
    names = [f"j{number}" for number in range(7)]
    shown_lines = list(
        preview_lines({"steps": [make_step(op, "Job", name) for op in ("create", "delete") for name in names]})
    )
    assert shown_lines[0].endswith("research/j4 and 2 more")
    assert shown_lines[1] == f"delete: Job {', '.join(f'research/{name}' for name in names)}"


def test_an_import_is_a_change() -> None:
    """A launch that an interrupted `up` left out of the state is imported."""
    steps = [make_step("import", "Job", "digits-x7k2p")]
    assert list(preview_lines({"steps": steps})) == ["import: Job research/digits-x7k2p", "1 to import, 0 unchanged"]


def test_without_changes_it_reports_it() -> None:
    """The output is one line."""
    assert list(preview_lines({"steps": [], "changeSummary": {"same": 5}})) == ["no changes, 5 unchanged"]


class Engine:
    """An engine that previews and records the order of the calls of a command."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.refresh = "--refresh"
        self.state: Mapping[str, Any] | None = {}
        output = json.dumps({"steps": [make_step("create", "Job", "a")]})
        self.answer: tuple[str, str, ExitCode | None] = output, "", None

    def note(self, name: str) -> Any:
        """Return a function that records its call."""
        return lambda *_, **__: self.done.append(name)

    def read_preview(self, _: Session, *options: str, variables: Mapping[str, str]) -> Any:
        """Return the answer of the engine."""
        self.done.append(" ".join(("preview", *options, *variables)))
        return self.answer


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Provide an environment with a state, its cluster and its tools, and no terminal."""
    engine = Engine()
    monkeypatch.setattr(Session, "loaded", LoadedEnvironment(make_settings(), {}))
    monkeypatch.setattr(Session, "is_local", False)
    for module in (preview, up):
        monkeypatch.setattr(module, "ensure_backend", engine.note("ensure_backend"))
        monkeypatch.setattr(module, "deployment", lambda _: engine.state)
        monkeypatch.setattr(module, "ensure_tools", engine.note("tools"))
    monkeypatch.setattr(preview, "read_preview", engine.read_preview)
    monkeypatch.setattr(preview, "preview_variables", lambda _: nullcontext({}))
    for module in (preview, up):
        for name in ("reach", "ensure_same_cluster"):
            monkeypatch.setattr(module, name, engine.note(name))
    monkeypatch.setattr(up, "check", lambda *_: [])
    monkeypatch.setattr(up, "refresh_options", lambda *_: (engine.refresh,) if engine.refresh else ())
    monkeypatch.setattr(up, "ensure_images_pushed", engine.note("ensure_pushed"))
    monkeypatch.setattr(up, "ensure_stack", engine.note("ensure_stack"))
    monkeypatch.setattr(up, "pulumi", lambda _, *words: engine.done.append(" ".join(words)))
    return engine


UP = "up --yes --skip-preview --suppress-outputs"


def run(*words: str, answer: str = "") -> tuple[int, str, str]:
    """Run the command; return its exit code, stdout and stderr."""
    result = CliRunner().invoke(app, [*words, "-s", "test"], input=answer)
    return result.exit_code, result.stdout, result.stderr


def test_a_preview_changes_nothing_and_prints_the_change(engine: Engine) -> None:
    """With --json, the output is that of the engine."""
    code, stdout, _ = run("preview", "--refresh")
    assert (code, stdout) == (0, "create: Job research/a\n1 to create, 0 unchanged\n")
    assert engine.done == ["ensure_backend", "reach", "tools", "ensure_same_cluster", "preview --refresh"]
    code, stdout, _ = run("preview", "--json")
    assert (code, stdout) == (0, engine.answer[0])
    assert engine.done[-1] == "preview"


def test_a_refused_preview_ends_with_the_reasons_and_the_code(engine: Engine) -> None:
    """`up` would fail in the same way."""
    refusal = {"diagnostics": [{"severity": "error", "message": "error: run a is active; stop it\n"}], "steps": []}
    engine.answer = json.dumps(refusal), "", ExitCode.REFUSED
    code, stdout, stderr = run("preview")
    assert (code, stdout) == (3, "")
    assert "error: this change is refused:\nrun a is active; stop it\n" in stderr
    assert preview_errors(refusal) == "run a is active; stop it"


def test_a_stack_without_a_state_is_previewed_on_a_temporary_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine gets the variables of the temporary state."""
    engine.state = None
    monkeypatch.setattr(preview, "preview_variables", lambda _: nullcontext({"PULUMI_BACKEND_URL": "file:///x"}))
    assert run("preview")[0] == 0
    assert engine.done[-1] == "preview PULUMI_BACKEND_URL"


def test_up_previews_and_asks_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is on stderr, before any write; any answer other than yes ends the command."""
    monkeypatch.setattr(console, "is_interactive", lambda: True)
    code, stdout, stderr = run("up", "--no-wait", answer="y\n")
    assert (code, "create: Job research/a\n" in stdout, "Deploy test? [y/N]:" in stderr) == (0, True, True)
    read = ["ensure_backend", "reach", "ensure_pushed", "tools", "ensure_same_cluster", "preview --refresh"]
    assert engine.done == [*read, f"{UP} --refresh"]
    engine.done.clear()
    assert run("up", "--no-wait", answer="n\n")[0] == 1
    assert engine.done == read


def test_up_builds_nothing_for_a_machine_that_cannot_run_the_local_cluster(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tools of the local cluster take half an hour to build."""

    def refuse() -> None:
        raise LocalClusterError("Debian packages are missing")

    monkeypatch.setattr(Session, "is_local", True)
    monkeypatch.setattr(cluster, "check_machine", refuse)
    code, _, stderr = run("up", "--yes")
    assert (code, stderr, engine.done) == (1, "error: Debian packages are missing\n", ["ensure_backend"])


def test_yes_skips_preview_and_question(engine: Engine) -> None:
    """The same holds with and without a terminal."""
    assert run("up", "--yes", "--no-wait")[0] == 0
    read = ["ensure_backend", "reach", "ensure_pushed", "tools", "ensure_same_cluster"]
    assert engine.done == [*read, f"{UP} --refresh"]


def test_up_refreshes_only_after_a_change_in_the_cluster(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The preview refreshes, too; `up` checks again after the confirmation."""
    monkeypatch.setattr(console, "is_interactive", lambda: True)
    engine.refresh = ""
    assert run("up", "--no-wait", answer="y\n")[0] == 0
    assert engine.done[-2:] == ["preview", UP]
    options = iter([(), ("--refresh",)])
    monkeypatch.setattr(up, "refresh_options", lambda *_: next(options))
    assert run("up", "--no-wait", answer="y\n")[0] == 0
    assert engine.done[-2:] == ["preview", f"{UP} --refresh"]


def test_up_creates_a_missing_stack(engine: Engine) -> None:
    """The export of the state shows whether the stack exists: no second call of the engine checks it."""
    engine.state = None
    assert run("up", "--yes", "--no-wait")[0] == 0
    assert engine.done[-2:] == ["ensure_stack", f"{UP} --refresh"]


def test_without_a_terminal_a_change_has_to_be_confirmed_by_an_option(engine: Engine) -> None:
    """The usage error precedes any read."""
    code, stdout, stderr = run("up")
    assert (code, stdout, engine.done) == (2, "", [])
    assert stderr == "error: this command asks for confirmation, but there is no terminal; add --yes to confirm\n"
