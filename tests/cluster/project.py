"""A copy of the project for a test, with its own files, state and stack, a real engine and a real cluster."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import yaml

from bench import checkout
from bench.scenes import exported
from tests.cluster.reader import Reader, reader
from tests.permissions import permit_all
from trainstack.lifecycle.recovery.state_files import read_deployment, state_file

ROOT = Path(__file__).parents[2]


class _Dumper(yaml.SafeDumper):
    """Quotes strings that begin with a digit: YAML parsers read a commit such as 0b12… or 12e4… as a number."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if text[:1].isdigit() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _dump(content: object) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False)


@dataclass(frozen=True)
class CommandResult:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """The whole output."""
        return self.out + self.err


class HasKubeconfig(Protocol):
    """The local cluster or a standalone API server."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""


@dataclass
class Project:
    """A copy of the checkout, and the cluster that its commands use."""

    root: Path
    kubeconfig: Path
    stack: str
    variables: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def copy(to: Path, cluster: HasKubeconfig, stack: str = "dev") -> "Project":
        """Copy the tracked and the untracked files that git does not ignore, and the library's bytecode."""
        checkout.copy(to)
        project = Project(to, cluster.kubeconfig, stack)
        project._use_environment()
        return project

    def _use_environment(self) -> None:
        """Set the variables of `eval "$(trainstack env -s …)"`, but keep the project's kubeconfig."""
        done = self.run(["env", "-s", self.stack], trainstack=True)
        assert done.code == 0, done.text
        self.variables |= {name: value for name, value in exported(done.out).items() if name != "KUBECONFIG"}

    def other_stack(self, stack: str, config: Mapping[str, Any]) -> "Project":
        """Return another stack of the same copy, from its configuration.

        A stack whose state is also in the copy reuses the variables: each `trainstack env` takes a CPU second.
        """
        self.write_stack(stack, config)
        state = config.get("trainstack:environment", {}).get("state", "embedded")
        if state == "embedded" and self.variables:
            project = replace(self, stack=stack, variables=dict(self.variables))
            project._ensure_state()
        else:
            project = replace(self, stack=stack, variables={})
            project._use_environment()
        return project

    def _ensure_state(self) -> None:
        """Create an empty state unless the stack has one."""
        if self._state_file() is None:
            done = self.run(["pulumi", "stack", "init", self.stack, "--no-select", "--non-interactive"])
            assert done.code == 0, done.text

    def environment(self, stack: str, kubeconfig: Path) -> "Project":
        """Return an environment whose file is in the repository, on another cluster."""
        project = Project(self.root, kubeconfig, stack)
        project._use_environment()
        return project

    def write_stack(self, stack: str, config: Mapping[str, Any]) -> None:
        """Write `Pulumi.<stack>.yaml`, and keep an existing encryption salt.

        Its state is in this copy unless the configuration names another.
        """
        if config:
            environment = {"state": "embedded", **config.get("trainstack:environment", {})}
            config = {**config, "trainstack:environment": environment}
        file = self.root / f"Pulumi.{stack}.yaml"
        old = yaml.safe_load(file.read_text()) if file.is_file() else {}
        salt = {"encryptionsalt": old["encryptionsalt"]} if "encryptionsalt" in old else {}
        file.write_text(_dump({"config": dict(config), **salt}))

    def edit_stack(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Change the stack's configuration in place."""
        file = self.root / f"Pulumi.{self.stack}.yaml"
        held = yaml.safe_load(file.read_text())
        edit(held["config"])
        file.write_text(_dump(held))

    def run(
        self,
        words: list[str],
        *,
        trainstack: bool = False,
        seconds: float = 300,
        environment: Mapping[str, str | None] | None = None,
    ) -> CommandResult:
        """Run a command in the copy; `trainstack=True` runs the copy's own CLI."""
        if trainstack:
            words = [str(ROOT / ".venv" / "bin" / "python"), "-m", "trainstack.cli", *words]
        merged: dict[str, str | None] = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            # The copy's code, not the checkout's that is installed in the virtual environment.
            "PYTHONPATH": str(self.root),
            **self.variables,
            **(environment or {}),
        }
        done = subprocess.run(
            words,
            cwd=self.root,
            env={name: value for name, value in merged.items() if value is not None},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def trainstack(self, *words: str, seconds: float = 300) -> CommandResult:
        """Run the CLI on the stack."""
        return self.run([*words, "-s", self.stack], trainstack=True, seconds=seconds)

    def pulumi(
        self, *words: str, seconds: float = 300, environment: Mapping[str, str | None] | None = None
    ) -> CommandResult:
        """Run plain `pulumi` on the stack, as a user does."""
        command = ["pulumi", *words, "--stack", self.stack, "--non-interactive"]
        return self.run(command, seconds=seconds, environment=environment)

    def up(self, *words: str, seconds: float = 300) -> CommandResult:
        """Run `pulumi up` without prompts."""
        return self.pulumi("up", "--yes", "--skip-preview", *words, seconds=seconds)

    def take_down(self, seconds: float = 300) -> None:
        """Destroy the stack in the mode `keep-platform`, and remove it and its file."""
        if self._has_objects():
            words = ("destroy", "--yes", "--skip-preview", "--run-program", "--remove")
            with permit_all(self.root, self.stack, self.resources()) as variables:
                done = self.pulumi(*words, seconds=seconds, environment=variables)
        else:
            # A program that was refused has left the stack's own resource, and its file may still be invalid.
            done = self.pulumi("stack", "rm", "--yes", "--force")
        assert done.code == 0, done.text
        (self.root / f"Pulumi.{self.stack}.yaml").unlink(missing_ok=True)

    def _has_objects(self) -> bool:
        """Return whether the stack's state has objects of the cluster."""
        return any(resource["type"].startswith("kubernetes:") for resource in self.resources())

    def resources(self) -> list[dict[str, Any]]:
        """Return the resources of the stack's state. A state in this copy is read as a file, which takes no second."""
        file = self._state_file()
        if file is not None:
            deployment = read_deployment(file) or {}
        else:
            done = self.pulumi("stack", "export")
            assert done.code == 0 or "no stack named" in done.text, done.text
            deployment = json.loads(done.out)["deployment"] if done.code == 0 else {}
        return list(deployment.get("resources", ()))

    def _state_file(self) -> Path | None:
        return state_file(self.root / ".trainstack" / "backend", "trainstack", self.stack)

    def changes(self, *words: str) -> dict[str, int]:
        """Return the number of changes in `pulumi preview` by operation; {} if there are none."""
        done = self.pulumi("preview", "--json", *words)
        assert done.code == 0, done.text
        summary = json.loads(done.out)["changeSummary"]
        return {operation: count for operation, count in summary.items() if operation not in ("same", "read")}

    def get(self, kind: str, name: str = "", namespace: str = "") -> dict[str, Any]:
        """Return a live object, {} if it does not exist, or without a name the list of its kind."""
        return self.reader().get(kind, name, namespace) if name else {"items": self.reader().list(kind, namespace)}

    def select(self, kinds: str, selector: str, namespace: str = "") -> list[dict[str, Any]]:
        """Return the live objects with these labels, in a namespace or in all."""
        lists = [self.reader().list(kind, namespace, selector, managed_fields=True) for kind in kinds.split(",")]
        return [body for found in lists for body in found]

    def reader(self) -> Reader:
        """Return a reader with the kubeconfig of the project's commands."""
        return reader(self.kubeconfig)

    def log(self, pod: str, namespace: str) -> str:
        """Return the log of a pod's only container; empty before it starts."""
        return self.reader().log(pod, namespace)

    def kubectl(self, *words: str, stdin: str | None = None) -> CommandResult:
        """Run plain kubectl."""
        if stdin is None:
            return self.run(["kubectl", *words])
        file = self.root / ".trainstack" / "stdin.yaml"
        file.write_text(stdin)
        return self.run(["kubectl", *words, "-f", str(file)])


def await_empty(description: str, remaining: Callable[[], Collection[Any]], seconds: float) -> None:
    """Wait until nothing is left. Fails with the remaining items."""
    try:
        eventually(description, lambda: not remaining(), seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; left: {sorted(remaining())}") from None


COMMAND_SECONDS = 2.0
"""The interval of polls that run our commands, each of which takes half a CPU second."""


def eventually(description: str, poll: Callable[[], Any], seconds: float = 120, *, every: float = 0.5) -> Any:
    """Call `poll` every so many seconds until its result is true, and return the result. Fails with `description`."""
    end = time.monotonic() + seconds
    while True:
        result = poll()
        if result:
            return result
        assert time.monotonic() < end, f"not within {seconds} s: {description}"
        time.sleep(every)
