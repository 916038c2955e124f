"""The same objects by other tools: kubectl, a Pulumi program with the SDK's classes, an asynchronous client."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.case import Arm, Command, Scene
from bench.meter import DEADLINE_SECONDS, BenchError
from trainstack.guards.definition_releases import KIND, revisions_of_resource
from trainstack.objects.labels import LEDGER, REVISION, STATE, field_manager, with_state
from trainstack.runs.recorded_launches import state_resource

Body = dict[str, Any]
TRAINSTACK, KUBECTL, SDK, CLIENT, ONE = "trainstack", "kubectl", "Pulumi SDK", "async client", "one ConfigMap"
CLI = (sys.executable, "-m", "trainstack.cli")
PROGRAMS = Path(__file__).with_name("programs")
_STATE = re.compile(rf'"{re.escape(STATE)}":\s*"([0-9a-f]+)"')


def run(command: Command) -> str:
    """Run a command that is not measured, and return its output. Raises BenchError if it fails or does not end."""
    name = f"`{' '.join(command.words)}` in {command.folder}"
    try:
        process = subprocess.run(
            command.words,
            cwd=command.folder,
            env=command.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{name} did not end within {DEADLINE_SECONDS:g} s") from error
    if process.returncode:
        raise BenchError(f"{name} exited with {process.returncode}:\n{process.stdout}{process.stderr}")
    return process.stdout


def pulumi(scene: Scene, stack: str, *words: str, folder: Path | None = None, **variables: str) -> Command:
    """Return a command of the engine."""
    return scene.command("pulumi", *words, "--stack", stack, "--non-interactive", folder=folder, **variables)


def state_file(folder: Path, project: str, stack: str) -> Path:
    """Return the file of a stack's state in a backend that is a folder."""
    return folder / ".pulumi" / "stacks" / project / f"{stack}.json"


@dataclass(frozen=True)
class Objects:
    """The objects of an environment, as the engine sends them, for tools that apply a file."""

    file: Path
    manager: str
    """The field manager of the environment's state: with another one, each tool would own the fields too."""

    def bodies(self) -> list[Body]:
        found: list[Body] = json.loads(self.file.read_text())["items"]
        return found

    def kubectl(self, scene: Scene, verb: str) -> Command:
        """Return `kubectl diff` or `kubectl apply` of all objects."""
        words = ("--server-side", "--force-conflicts", f"--field-manager={self.manager}", "-f", str(self.file))
        return scene.command("kubectl", verb, *words)

    def client(self, scene: Scene, *options: str) -> Command:
        """Return the program that applies all objects by HTTP alone."""
        words = (sys.executable, "-m", "bench.programs.apply", str(self.file), self.manager, *options)
        return scene.command(*words)


def live_objects(scene: Scene, stack: str) -> Objects:
    """Return the objects of an environment that is up, with the marks of its state.

    Ledgers are left out: the engine writes them in two steps, and no other tool has them.
    """
    export = run(pulumi(scene, stack, "stack", "export"))
    state = _STATE.search(export)
    if state is None:
        raise BenchError(f"the state of {stack} has no object; bring it up first")
    stored: dict[str, str] = {}
    for resource in json.loads(export)["deployment"]["resources"]:
        stored |= revisions_of_resource(state_resource(resource["urn"], resource.get("outputs")))
    marked = [_marked(body, state[1], stored) for body in rendered(scene, stack)]
    return written(scene, stack, marked, field_manager(state[1]))


def _marked(body: Body, state: str, stored: Mapping[str, str]) -> Body:
    metadata = with_state(body["metadata"], state)
    if body["kind"] == KIND:
        metadata["annotations"] |= {REVISION: stored[metadata["name"]]}
    return {**body, "metadata": metadata}


def rendered(scene: Scene, stack: str) -> list[Body]:
    """Return what `trainstack render` prints, without ledgers."""
    bodies: list[Body] = json.loads(run(scene.command(*CLI, "render", "-s", stack, "--json")))
    return [body for body in bodies if LEDGER not in body["metadata"].get("labels", {})]


def written(scene: Scene, name: str, bodies: Sequence[Body], manager: str) -> Objects:
    file = scene.scratch / f"{name}.json"
    file.write_text(json.dumps(as_list(bodies)))
    return Objects(file, manager)


def as_list(bodies: Iterable[Mapping[str, Any]]) -> Body:
    return {"apiVersion": "v1", "kind": "List", "items": list(bodies)}


@dataclass(frozen=True)
class Program:
    """A separate Pulumi project, with its state in its folder."""

    folder: Path
    scene: Scene
    stack: str = "bench"

    def command(self, *words: str) -> Command:
        """Return a command of the engine, with the passphrase of the scene."""
        backend = f"{self.folder.as_uri()}?metadata=skip"
        return pulumi(self.scene, self.stack, *words, folder=self.folder, PULUMI_BACKEND_URL=backend)

    def arm(self, name: str, *words: str) -> Arm:
        return Arm(name=name, command=self.command(*words), state=state_file(self.folder, "bench", self.stack))


def program(scene: Scene, name: str, source: str, objects: Sequence[Body] = ()) -> Program:
    """Write a project with one of `bench/programs` as its program, and create its stack."""
    folder = scene.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: bench\nruntime: python\n")
    shutil.copy(PROGRAMS / source, folder / "__main__.py")
    (folder / "objects.json").write_text(json.dumps(objects))
    project = Program(folder, scene)
    run(project.command("stack", "init"))
    return project


def pulumi_backend(folder: Path) -> Path:
    """Return the folder of the embedded states of a project."""
    return folder / ".trainstack" / "backend"
