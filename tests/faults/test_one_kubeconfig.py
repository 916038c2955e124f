"""`kubectl config use-context` in the middle of a command: no write reaches the other server. The real engine, two API
servers, one kubeconfig."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver import ApiServer, api_server, write_kubeconfig
from tests.cluster.project import CommandResult, Project

VERBS = ("create", "update", "patch", "delete", "deletecollection")
BEFORE_PROVIDER = ("trainstack/stacks/declare_stack.py", "    _declare_program(program, config)\n")
"""A file of the program, and the line before which the context changes: the program has read the cluster."""
AFTER_CLUSTER_CHECK = ("trainstack/components/cluster.py", "    return namespace\n")
"""The provider has proven its cluster, and has written nothing."""


@dataclass(frozen=True)
class TwoServers:
    """A checkout, and a kubeconfig with the contexts of two servers."""

    project: Project
    server: ApiServer
    other_server: ApiServer
    kubeconfig: Path

    def use_context(self, context: str) -> None:
        """Change the current context, as `kubectl config use-context` does."""
        content = yaml.safe_load(self.kubeconfig.read_text())
        self.kubeconfig.write_text(json.dumps({**content, "current-context": context}))

    def switch_context_before(self, project: Project, file: str, line: str) -> None:
        """Edit this checkout's program so that it changes the context before a line."""
        path = project.root / file
        text = path.read_text()
        assert text.count(line) == 1
        indent = line[: len(line) - len(line.lstrip())]
        command = f"['kubectl', '--kubeconfig', {str(self.kubeconfig)!r}, 'config', 'use-context', 'elsewhere']"
        path.write_text(text.replace(line, f"{indent}__import__('subprocess').run({command}, check=True)\n{line}"))


@pytest.fixture(scope="module")
def two_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoServers]:
    """Yield two servers with the same objects; a stack owns the objects of the first."""
    with ExitStack() as servers:
        server, other_server = (
            servers.enter_context(api_server(tmp_path_factory.mktemp(name))) for name in ("here", "elsewhere")
        )
        contexts = {"here": server.access(), "elsewhere": other_server.access()}
        file = write_kubeconfig(tmp_path_factory.mktemp("kubeconfig") / "config", contexts, "here")
        project = replace(Project.copy(tmp_path_factory.mktemp("switched"), server), kubeconfig=file)
        pair = TwoServers(project.other_stack("lab", make_config("kept", "going")), server, other_server, file)
        for name in ("kept", "going"):
            other_server.send("POST", "/apis/storage.k8s.io/v1/storageclasses", make_class(name)).checked()
        done = pair.project.up()
        assert done.code == 0, done.text
        yield pair


def make_class(name: str) -> dict[str, Any]:
    """The same class as the stack declares."""
    labels = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "lab"}
    return {"metadata": {"name": name, "labels": labels}, "provisioner": "rancher.io/local-path"}


def make_config(*classes: str) -> dict[str, Any]:
    """An environment of storage classes."""
    return {
        "trainstack:storage": {"classes": [{"name": name, "provisioner": "rancher.io/local-path"} for name in classes]},
        "trainstack:queues": {"priorityClasses": None},
    }


def writes(server: ApiServer, offset: int) -> list[str]:
    """Return all write requests to a server, whether they succeeded or not."""
    return [
        f"{event.verb} {event.uri}"
        for event in server.events(offset)
        if event.verb in VERBS and "reviews" not in event.resource
    ]


def run_with_switch(
    two_servers: TwoServers, command: Callable[[], CommandResult]
) -> tuple[CommandResult, list[str], list[str]]:
    """Run a command whose context changes on the way; what was written on this server and on the other."""
    two_servers.use_context("here")
    offsets = two_servers.server.offset(), two_servers.other_server.offset()
    done = command()
    assert yaml.safe_load(two_servers.kubeconfig.read_text())["current-context"] == "elsewhere", done.text
    return done, writes(two_servers.server, offsets[0]), writes(two_servers.other_server, offsets[1])


@pytest.fixture
def copy(two_servers: TwoServers) -> Iterator[Project]:
    """The project, with an edit that creates and deletes; its program is put back afterwards."""
    files = {file: two_servers.project.root / file for file, _ in (BEFORE_PROVIDER, AFTER_CLUSTER_CHECK)}
    kept = {file: path.read_text() for file, path in files.items()}
    two_servers.project.write_stack("lab", make_config("kept", "new"))
    yield two_servers.project
    for file, path in files.items():
        path.write_text(kept[file])
    two_servers.use_context("here")


@pytest.mark.parametrize(
    "words", [("up", "--yes", "--skip-preview"), ("destroy", "--yes", "--skip-preview", "--run-program")]
)
def test_plain_pulumi_fails_before_the_first_write(
    two_servers: TwoServers, copy: Project, words: tuple[str, ...]
) -> None:
    """The provider reads the kubeconfig after the program: it proves its cluster first."""
    two_servers.switch_context_before(copy, *BEFORE_PROVIDER)
    done, server_writes, other_writes = run_with_switch(two_servers, lambda: copy.pulumi(*words))
    assert done.code != 0, done.text
    assert "the Kubernetes provider reached another cluster" in " ".join(done.text.split()), done.text
    assert (server_writes, other_writes) == ([], [])


def test_a_provider_keeps_the_cluster_that_it_has_proven(two_servers: TwoServers, copy: Project) -> None:
    """It reads the kubeconfig once: what changes after that changes nothing."""
    two_servers.switch_context_before(copy, *AFTER_CLUSTER_CHECK)
    copy.write_stack("lab", make_config("kept", "going", "more"))
    done, server_writes, other_writes = run_with_switch(two_servers, copy.up)
    assert done.code == 0, done.text
    assert any("storageclasses/more" in write for write in server_writes)
    assert other_writes == []


def test_commands_continue_in_the_cluster_of_their_start(two_servers: TwoServers, copy: Project) -> None:
    """They give the engine a copy of the kubeconfig, which is gone afterwards, and is in no state.

    A relative KUBECONFIG counts from the folder of the command, as kubectl takes it.
    """
    two_servers.switch_context_before(copy, *BEFORE_PROVIDER)
    copy.write_stack("lab", make_config("kept", "going", "more", "most"))
    temporary = two_servers.kubeconfig.with_name("temporary")
    temporary.mkdir()
    relative = os.path.relpath(two_servers.kubeconfig, copy.root / "docs")
    environment = {"TMPDIR": str(temporary), "KUBECONFIG": relative}

    def run(words: str) -> CommandResult:
        program = f"cd docs && exec {copy.root}/.venv/bin/python -m trainstack.cli {words} -s lab"
        return copy.run(["sh", "-c", program], environment=environment)

    done, server_writes, other_writes = run_with_switch(two_servers, lambda: run("up --yes --no-wait"))
    assert done.code == 0, done.text
    assert any("storageclasses/most" in write for write in server_writes)
    assert other_writes == []
    assert [path for path in temporary.rglob("*") if "kubeconfig" in path.name] == []
    state = copy.pulumi("stack", "export").out
    assert str(temporary) not in state
    assert two_servers.server.access().cluster["certificate-authority-data"] not in state
    (exported,) = re.findall(r"^export KUBECONFIG=(.+)$", run("env").out, re.MULTILINE)
    assert Path(exported).is_absolute()
    assert Path(exported).samefile(two_servers.kubeconfig)
