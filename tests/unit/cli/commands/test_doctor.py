"""`trainstack doctor`: a folder of states as killed commands leave it, the output and the exit code."""

import fcntl
import gzip
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.lifecycle.recovery.test_diagnosis import OWN, make_identity
from trainstack.cli import same_cluster
from trainstack.cli.app import app
from trainstack.cli.commands import doctor as command
from trainstack.cli.engine import StateRefusedError
from trainstack.files.project import edit_project
from trainstack.guards.cluster_identity import FACTS_RESOURCE_TYPE, ClusterIdentity, facts_resource_name
from trainstack.lifecycle.recovery.lock_problems import StateLock
from trainstack.lifecycle.recovery.object_problems import LiveObject, LiveObjects
from trainstack.lifecycle.recovery.state_files import read_deployment, read_state_files, state_folder
from trainstack.live.client import ClusterError
from trainstack.objects.labels import QUEUE, STACK

NOW = datetime.now(UTC)
STATE = gzip.compress(b'{"version": 3, "checkpoint": {"latest": {"resources": [{"urn": "x"}]}}}')


def make_folder(root: Path, state: str = "{}") -> Path:
    """Return a folder of states that holds the stack `lab`."""
    stacks = root / ".pulumi" / "stacks" / "trainstack"
    stacks.mkdir(parents=True)
    (stacks / "lab.json").write_text(state)
    (stacks / "lab.json.bak").write_text("{}")
    return root


def make_lock(root: Path, name: str = "1.json", text: str | None = None, **changes: Any) -> Path:
    """Write a lock of this process on this host."""
    folder = root / ".pulumi" / "locks" / "organization" / "trainstack" / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    lock = {"pid": os.getpid(), "username": "ann", "hostname": socket.gethostname(), "timestamp": NOW.isoformat()}
    (folder / name).write_text(text if text is not None else json.dumps({**lock, **changes}))
    return folder / name


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("file:///team/my%20state?metadata=skip", Path("/team/my state")),
        ("file://~/state", Path("~/state").expanduser()),
        ("file://~", Path("~").expanduser()),
        ("file://[team]/state", Path("[team]/state")),
        ("s3://team", None),
        ("https://api.pulumi.com", None),
    ],
)
def test_where_a_backend_keeps_its_states(url: str, folder: Path | None) -> None:
    """The states are in a folder, or where this command cannot read them."""
    assert state_folder(url) == folder


def test_an_intact_folder_has_nothing_unreadable(tmp_path: Path) -> None:
    """The same holds for intact sidecars, and for a compressed state."""
    root = make_folder(tmp_path)
    stacks = root / ".pulumi" / "stacks" / "trainstack"
    (stacks / "lab.json.attrs").write_text("{}")
    (stacks / "lab.json.gz").write_bytes(gzip.compress(b"{}"))
    files = read_state_files(root, "trainstack", "lab")
    assert (files.locks, files.sidecars, files.checkpoint) == ((), (), "")


def test_sidecars_that_a_kill_left_empty(tmp_path: Path) -> None:
    """The sidecars of this stack and the shared ones are reported, those of another stack are not."""
    root = make_folder(tmp_path)
    empty = [root / ".pulumi" / "meta.yaml.attrs", root / ".pulumi" / "stacks" / "trainstack" / "lab.json.attrs"]
    for file in [*empty, root / ".pulumi" / "stacks" / "trainstack" / "other.json.attrs"]:
        file.touch()
    assert read_state_files(root, "trainstack", "lab").sidecars == tuple(str(file) for file in empty)


@pytest.mark.parametrize("content", [b"", STATE[:-9], STATE[:10] + b"\xff" * 9 + STATE[19:]], ids=["no", "half", "bad"])
def test_a_damaged_compressed_state_is_left_to_the_engine(tmp_path: Path, content: bytes) -> None:
    """A killed engine, or the disk, may leave any bytes."""
    file = tmp_path / "lab.json.gz"
    file.write_bytes(STATE)
    assert read_deployment(file) == {"resources": [{"urn": "x"}]}
    file.write_bytes(content)
    assert read_deployment(file) is None


def test_a_state_with_invalid_json(tmp_path: Path) -> None:
    """The finding differs by whether the backup can be read."""
    root = make_folder(tmp_path, state='{"versi')
    file = root / ".pulumi" / "stacks" / "trainstack" / "lab.json"
    files = read_state_files(root, "trainstack", "lab")
    assert (files.checkpoint, files.has_usable_backup) == (str(file), True)
    file.with_name("lab.json.bak").write_text("")
    assert not read_state_files(root, "trainstack", "lab").has_usable_backup


@pytest.fixture
def engine(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process with the name of the engine."""
    program = tmp_path / "pulumi"
    program.symlink_to(shutil.which("sleep") or "")
    running = subprocess.Popen([program, "60"])
    name = Path(f"/proc/{running.pid}/comm")
    while name.read_text() != "pulumi\n":
        pass
    yield running
    running.kill()
    running.wait()


def test_the_lock_of_an_engine_that_runs(tmp_path: Path, engine: "subprocess.Popen[bytes]") -> None:
    """The finding includes what the lock states about itself."""
    file = make_lock(tmp_path, pid=engine.pid)
    assert read_state_files(tmp_path, "trainstack", "lab").locks == (
        StateLock(str(file), engine.pid, "ann", socket.gethostname(), NOW, is_alive=True),
    )


def test_the_lock_of_an_engine_that_was_killed(tmp_path: Path, engine: "subprocess.Popen[bytes]") -> None:
    """The same holds for a zombie whose parent has not waited for it."""
    make_lock(tmp_path, pid=engine.pid)
    engine.kill()
    os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOWAIT)
    assert read_state_files(tmp_path, "trainstack", "lab").locks[0].is_alive is False
    engine.wait()
    assert read_state_files(tmp_path, "trainstack", "lab").locks[0].is_alive is False


def test_a_program_that_got_the_engines_number_does_not_hold_the_lock(tmp_path: Path) -> None:
    """The test's own process is such a program."""
    make_lock(tmp_path)
    assert read_state_files(tmp_path, "trainstack", "lab").locks[0].is_alive is False


def test_the_lock_of_another_host(tmp_path: Path) -> None:
    """A lock of another host cannot be checked from here."""
    make_lock(tmp_path, hostname="elsewhere")
    assert read_state_files(tmp_path, "trainstack", "lab").locks[0].is_alive is None


def test_an_incomplete_lock(tmp_path: Path) -> None:
    """The engine takes it for a lock; it ignores the sidecar of the lock."""
    file = make_lock(tmp_path, "fileblob123", text="")
    make_lock(tmp_path, "fileblob123.attrs", text="")
    assert read_state_files(tmp_path, "trainstack", "lab").locks == (StateLock(str(file)),)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a checkout whose state is in a folder and whose cluster holds nothing."""
    (tmp_path / "Pulumi.yaml").write_text("name: trainstack\n")
    config = {"trainstack:environment": {"namespaces": [{"name": "lab"}]}}
    (tmp_path / "Pulumi.lab.yaml").write_text(json.dumps({"config": config}))
    (tmp_path / "defaults.yaml").write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    monkeypatch.setattr(command, "export", lambda _: None)
    monkeypatch.setattr(command, "read_labeled_objects", lambda *_: LiveObjects({}))
    monkeypatch.setattr(command, "read_loaders", lambda *_: [])
    monkeypatch.setattr(
        same_cluster, "read_cluster_identity", lambda _: ClusterIdentity({"kube-system": "1"}, "lab", "https://lab")
    )
    return make_folder(tmp_path)


def run(*words: str) -> tuple[int, str]:
    """Run the command on the stack `lab`; return its exit code and output."""
    result = CliRunner().invoke(app, ["doctor", "-s", "lab", *words])
    return result.exit_code, result.stdout


def test_nothing_found(folder: Path) -> None:
    """The exit code is 0, and stdout is empty."""
    assert run() == (0, "")


@pytest.mark.parametrize("parent", ["sweeps/search and more", "workloads/digits", "."])
def test_a_file_of_a_killed_command_is_removed_by_the_command_printed(folder: Path, parent: str) -> None:
    """The file is an incomplete one of the project; its name may need quotes."""
    half = Path(parent, ".trainstack-a1b2c3d4.tmp").absolute()
    half.parent.mkdir(parents=True, exist_ok=True)
    half.touch()
    code, text = run("--json")
    result = json.loads(text)
    assert (code, [(item["id"], item["what"]) for item in result["problems"]]) == (4, [("file-left", str(half))])
    for line in result["commands"]:
        subprocess.run(line, shell=True, check=True)
    assert run() == (0, "")
    assert not half.exists()


def test_the_files_of_a_running_command_are_not_reported(folder: Path) -> None:
    """The output states what was not checked, and the lock is free afterwards."""
    (folder / ".trainstack-a1b2c3d4.tmp").touch()
    with edit_project(folder):
        code, text = run("--json")
    note = f"files of killed commands: process {os.getpid()} "
    (unchecked,) = json.loads(text)["unchecked"]
    assert (code, json.loads(text)["problems"], unchecked.startswith(note)) == (0, [], True)
    assert unchecked.endswith(f" is using {folder}; run the same command again after it has ended")
    assert run()[0] == 4
    with edit_project(folder) as edit:
        edit.write({"notes": "x"})


def test_without_locks_the_files_are_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS has no locks for folders."""

    def refuse(*_: int) -> None:
        raise OSError

    monkeypatch.setattr(fcntl, "flock", refuse)
    (folder / ".trainstack-a1b2c3d4.tmp").touch()
    assert run()[0] == 4


def test_a_file_that_disappears_during_the_search_is_not_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that was writing it has completed it."""
    find_files = Path.glob

    def find_and_remove(parent: Path, pattern: str) -> Iterator[Path]:
        for file in [*find_files(parent, pattern)]:
            if file.suffix == ".tmp":
                file.unlink()
            yield file

    monkeypatch.setattr(Path, "glob", find_and_remove)
    half = folder / ".trainstack-a1b2c3d4.tmp"
    half.touch()
    assert run() == (0, "")
    assert not half.exists()


def test_findings_as_json(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 1; the commands are listed in their order."""
    make_lock(folder, hostname=socket.gethostname(), pid=2**22 + 1)
    live = LiveObject("1", {STACK: "lab"}, state=OWN)
    monkeypatch.setattr(command, "export", lambda _: json.dumps({"deployment": {"resources": [make_identity(OWN)]}}))
    live_objects = LiveObjects({("Namespace", None, "lab"): live, ("Secret", "lab", "old"): live}, frozenset({"Role"}))
    monkeypatch.setattr(command, "read_labeled_objects", lambda *_: live_objects)
    code, out = run("--json")
    output = json.loads(out)
    assert (code, [problem["id"] for problem in output["problems"]]) == (
        4,
        ["lock-stale", "object-unrecorded", "object-orphaned"],
    )
    assert output["commands"] == [
        "pulumi cancel --yes -s lab",
        "kubectl delete secret old -n lab",
        "pulumi up --yes --skip-preview -s lab",
    ]
    assert output["unchecked"] == ["Role: these credentials may not read it"]


def test_a_loader_that_a_killed_command_left_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding names its Job, which a queue holds back, and the command that deletes it."""
    metadata = {"name": "loader-1", "namespace": "lab", "creationTimestamp": "2026-11-22T12:00:00Z"}
    job = {"metadata": {**metadata, "labels": {QUEUE: "research"}}, "spec": {"suspend": True}}
    monkeypatch.setattr(command, "read_loaders", lambda *_: [job])
    code, out = run("--json")
    output = json.loads(out)
    assert (code, [problem["id"] for problem in output["problems"]]) == (4, ["loader-waiting"])
    assert output["commands"] == ["kubectl delete job loader-1 -n lab"]


def test_findings_for_people(folder: Path) -> None:
    """Findings precede the commands."""
    file = make_lock(folder, pid=2**22 + 1)
    code, out = run()
    assert code == 4
    first, second, *_ = out.splitlines()
    assert " ".join(first.split()) == f"problem [lock-stale] {file}"
    assert " ".join(second.split()).startswith(f"why process {2**22 + 1} of ann, which took it at ")
    assert out.endswith(
        '\nTo repair it, run in this order after eval "$(trainstack env -s lab)":\n\n  pulumi cancel --yes -s lab\n'
    )


def test_a_stack_during_an_update_is_not_examined(
    folder: Path, engine: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state and the cluster change during an update."""
    make_lock(folder, pid=engine.pid)
    monkeypatch.delattr(command, "export")
    code, out = run("--json")
    assert (code, json.loads(out)["commands"]) == (4, [f"tail --pid={engine.pid} -f /dev/null"])


def test_without_a_cluster_the_state_is_judged_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unreachable cluster is a finding."""

    def unreachable(*_: object) -> LiveObjects:
        raise ClusterError("cannot reach it; is it up?")

    monkeypatch.setattr(command, "read_labeled_objects", unreachable)
    code, out = run("--json")
    assert (code, [problem["id"] for problem in json.loads(out)["problems"]]) == (5, ["cluster-unreachable"])


@pytest.mark.parametrize("identity", ["1", "2"])
def test_the_state_is_not_compared_with_another_cluster(
    folder: Path, monkeypatch: pytest.MonkeyPatch, identity: str
) -> None:
    """Every object would be missing there, and the repair of that would remove them from the state."""
    memory = {
        "urn": f"urn:pulumi:lab::trainstack::{FACTS_RESOURCE_TYPE}::{facts_resource_name('owner')}",
        "type": FACTS_RESOURCE_TYPE,
        "outputs": {"output": {"kube-system": identity}},
    }
    claim = {
        "urn": "urn:pulumi:lab::trainstack::kubernetes:core/v1:PersistentVolumeClaim::lab/data",
        "type": "kubernetes:core/v1:PersistentVolumeClaim",
        "id": "lab/data",
        "custom": True,
        "outputs": {"metadata": {"name": "data", "namespace": "lab", "uid": "3"}},
    }
    exported = {"deployment": {"resources": [make_identity(OWN), memory, claim]}}
    monkeypatch.setattr(command, "export", lambda _: json.dumps(exported))
    code, out = run("--json")
    output = json.loads(out)
    commands = output["commands"]
    assert (code, [problem["id"] for problem in output["problems"]]) == (
        4,
        ["object-missing" if identity == "1" else "another-cluster"],
    )
    assert bool(commands) == (identity == "1")


def test_a_state_elsewhere_has_its_locks_with_the_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output mentions it, but it is not a finding."""
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://team")
    code, out = run("--json")
    assert (code, json.loads(out)["problems"]) == (0, [])
    assert [line.split(":")[0] for line in json.loads(out)["unchecked"]] == ["locks"]


def test_what_cannot_be_built_is_not_called_orphaned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command deletes an object that the environment may declare."""
    release = {"version": "v0.15.2", "path": "releases/kueue.yaml", "sha256": "0" * 64}
    config = {
        "trainstack:environment": {"namespaces": [{"name": "lab"}]},
        "trainstack:operators": {"kueue": {"manifest": release}},
    }
    (folder / "Pulumi.lab.yaml").write_text(json.dumps({"config": config}))
    monkeypatch.setattr(command, "export", lambda _: json.dumps({"deployment": {"resources": [make_identity(OWN)]}}))
    live = LiveObject("1", {STACK: "lab"}, state=OWN)
    live_objects = LiveObjects({("Deployment", "kueue-system", "kueue-controller-manager"): live})
    monkeypatch.setattr(command, "read_labeled_objects", lambda *_: live_objects)
    code, out = run("--json")
    output = json.loads(out)
    assert (code, output["problems"], output["commands"]) == (0, [], [])
    (unseen,) = output["unchecked"]
    assert unseen.startswith("objects that are not in the state")
    assert "the release manifest does not exist" in unseen


def test_a_state_that_the_engine_refuses_is_the_only_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster is compared with the state after the repair."""
    job = {"urn": "urn:pulumi:lab::p::kubernetes:batch/v1:Job::a", "type": "kubernetes:batch/v1:Job", "custom": True}
    broken = {"resources": [{**job, "dependencies": ["urn:pulumi:lab::p::kubernetes:core/v1:ConfigMap::b"]}]}
    monkeypatch.setattr(command, "export", lambda _: json.dumps({"deployment": broken}))
    monkeypatch.delattr(command, "read_labeled_objects")
    code, out = run("--json")
    output = json.loads(out)
    assert (code, [problem["id"] for problem in output["problems"]]) == (4, ["state-refused"])
    assert output["problems"][0]["what"] == str(folder / ".pulumi" / "stacks" / "trainstack" / "lab.json")
    assert output["commands"] == ["pulumi state repair --yes -s lab", "pulumi up --yes --skip-preview -s lab"]
    assert output["unchecked"] == ["the state and the cluster: run the same command again after the repair"]


def test_a_state_that_the_engine_cannot_parse_is_restored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is JSON, but not of a state."""

    def refuse(_: object) -> None:
        raise StateRefusedError("lab", "error: failed to load checkpoint: json: cannot unmarshal array")

    monkeypatch.setattr(command, "export", refuse)
    code, out = run("--json")
    file = folder / ".pulumi" / "stacks" / "trainstack" / "lab.json"
    assert code == 4
    assert json.loads(out)["commands"][:2] == [f"mv -- {file} {file}.unreadable", f"cp -- {file}.bak {file}"]


@pytest.mark.parametrize(
    "text", ["", "[]", "5", '{"checkpoint": []}', '{"checkpoint": {"latest": {"resources": [5]}}}']
)
def test_a_backup_that_the_engine_would_refuse_is_not_used(tmp_path: Path, text: str) -> None:
    """It would be refused like the state."""
    root = make_folder(tmp_path, state="")
    (root / ".pulumi" / "stacks" / "trainstack" / "lab.json.bak").write_text(text)
    assert not read_state_files(root, "trainstack", "lab").has_usable_backup
