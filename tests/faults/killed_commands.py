"""Kills of whole commands: their moments, and what they leave on this machine."""

import base64
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from tests.cluster.project import ROOT, Project, eventually
from tests.faults import engine

Command = Literal["upload", "up", "fetch", "sweep", "destroy"]
COMMANDS: tuple[Command, ...] = ("upload", "up", "fetch", "sweep", "destroy")
PLACE = "lab:killed"
"""Where the files of transfers are, on the stack's volume."""
SWEEP = "killed"
SPACE = """\
method: random
trials: 3
seed: 5
parameters: {lr: {logUniform: {low: 0.0001, high: 0.1}}}
objective: {metric: val_accuracy, direction: maximize}
file: /work/hyperparams.yml
"""
_FILES = 40
_FILE_BYTES = 256 << 10


@dataclass(frozen=True)
class CommandKill:
    """One SIGKILL of a command."""

    command: Command
    everything: bool
    """Whether all of its processes are killed, or only the first, whose engine goes on."""
    moment: float
    """The part of the command's usual duration after which it is killed."""

    @staticmethod
    def draw(seed: int, number: int) -> "CommandKill":
        """Return the kill with this number: the commands take turns, the rest is uniform."""
        drawn = random.Random(f"{seed} command {number}")
        return CommandKill(COMMANDS[number % len(COMMANDS)], drawn.random() < 0.5, drawn.random())


def words(project: Project, command: Command, stops: Sequence[str] = ()) -> list[str]:
    """Return the words of a command; a destroy stops these runs."""
    source, target = transfer_folders(project)
    stack = ("-s", project.stack)
    match command:
        case "upload":
            return ["upload", str(source), PLACE, *stack]
        case "fetch":
            return ["fetch", PLACE, "--to", str(target), *stack]
        case "sweep":
            return ["sweep", "next", SWEEP, "--results", str(write_results(project)), *stack]
        case "up":
            return ["up", "--yes", "--no-wait", *stack]
        case "destroy":
            return ["destroy", "--yes", "--keep-platform", *(w for run in stops for w in ("--stop", run)), *stack]


def transfer_folders(project: Project) -> tuple[Path, Path]:
    """Return the folder that is uploaded, with files, and the one that is fetched into."""
    source = project.root / "killed-source"
    if not source.exists():
        source.mkdir()
        drawn = random.Random("files")
        for number in range(_FILES):
            (source / f"file-{number}").write_bytes(drawn.randbytes(_FILE_BYTES))
    return source, project.root / "killed-target"


def write_results(project: Project) -> Path:
    """Write the results of a sweep without trials, and its space if it has none."""
    space = project.root / "sweeps" / SWEEP / "space.yaml"
    if not space.exists():
        space.parent.mkdir()
        space.write_text(SPACE)
    file = project.root / "killed-results.json"
    file.write_text(json.dumps({"sweep": SWEEP, "trials": []}))
    return file


def start(project: Project, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command with its own session."""
    with (project.root / "killed-command.txt").open("wb") as output:
        return subprocess.Popen(
            [str(ROOT / ".venv" / "bin" / "python"), "-m", "trainstack.cli", *arguments],
            cwd=project.root,
            env={
                **os.environ,
                "KUBECONFIG": str(project.kubeconfig),
                "PYTHONPATH": str(project.root),
                **project.variables,
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def duration(project: Project, arguments: Sequence[str]) -> float:
    """Run a command to its end and return how long it took."""
    started = time.monotonic()
    process = start(project, arguments)
    assert process.wait(600) == 0, (project.root / "killed-command.txt").read_text()
    return time.monotonic() - started


def kill(process: "subprocess.Popen[bytes]", seconds: float, *, everything: bool) -> bool:
    """Kill a command after a time; return whether it was still running."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL) if everything else process.kill()
        process.wait()
        return True
    return False


def await_orphans(session: int) -> None:
    """Wait until the engine of a killed command has ended, and end its plugins, which notice that only later."""

    def has_engine() -> bool:
        return any(Path(words.split()[0]).name == "pulumi" for _, words in engine.processes(session) if words)

    eventually("the engine of the killed command ends", lambda: not has_engine(), 300)
    engine.end_leftovers(session)


def secrets_of(kubeconfig: Path) -> list[bytes]:
    """Return the keys of a kubeconfig, as it and as other files may have them."""
    users = yaml.safe_load(kubeconfig.read_text())["users"]
    keys = [user["user"]["client-key-data"] for user in users]
    return [part for key in keys for part in (key.encode(), base64.b64decode(key).splitlines()[1])]


def files_with(secrets: Sequence[bytes], *folders: Path) -> list[Path]:
    """Return the files in the folders that contain a secret."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if any(secret in path.read_bytes() for secret in secrets)]


def leftovers(project: Project, temporary: Path) -> list[Path]:
    """Return the files and folders of our commands that are still there."""
    return [
        *temporary.glob("trainstack-*"),
        *(project.root / ".trainstack" / "endings").glob("*"),
        *(path for path in project.root.glob("**/.trainstack-*.tmp") if ".trainstack/" not in str(path)),
    ]
