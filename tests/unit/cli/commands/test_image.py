"""`trainstack image`, with tools that record their arguments."""

import io
import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import typer
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner, Result

from trainstack.cli import unserved_images
from trainstack.cli.app import app
from trainstack.cli.commands import image as command
from trainstack.cli.output import console
from trainstack.cli.session import Session
from trainstack.errors import ExitCode
from trainstack.live.registry import Registries
from trainstack.live.registry_credentials import RegistryCredentials
from trainstack.preflight.live_context import UnservedImage
from trainstack.runs.images.content_tags import workload_reference
from trainstack.stack_objects.inputs import read_inputs
from trainstack.stack_objects.stack_objects import StackObjects

DIGEST = f"sha256:{'1' * 64}"
ENVIRONMENT = """\
config:
  trainstack:environment:
    pinned: true
    namespaces: [{name: lab}]
  trainstack:cluster: {registry: r.example.org}
  trainstack:workloads:
    runs:
      - {name: hello, kind: Job, namespace: lab, managed: false, image: {name: "r.example.org/lab/hello:1"}}
      - {name: built, kind: Job, namespace: lab, managed: false, image: {build: workloads/built}}
      - {name: theirs, kind: Job, namespace: lab, managed: false, image: {name: "example.org/theirs:1"}}
"""
HELLO = "r.example.org/lab/hello:1"
TOOL = """\
#!/bin/sh
echo "${0##*/} $*" >> calls
case "$*" in
*inspect*) test -e "built" || { echo "no such image" >&2; exit 1; };;
build*) test ! -e breaks || { read -r why < breaks; echo "$why" >&2; exit 125; }
        : > built;;
push*) test ! -e refuses || { read -r why < refuses; echo "$why" >&2; exit 125; }
       case $0 in *docker) echo "1: digest: DIGEST size: 529";; *) echo DIGEST > "$3"; echo "Copying blob";; esac;;
esac
""".replace("DIGEST", DIGEST)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with two Dockerfiles as the current folder, on a machine without any tool."""
    (tmp_path / "Pulumi.yaml").touch()
    (tmp_path / "Pulumi.lab.yaml").write_text(ENVIRONMENT)
    for name in ("hello", "built"):
        (tmp_path / "workloads" / name).mkdir(parents=True)
        (tmp_path / "workloads" / name / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return tmp_path


def install(root: Path, *names: str) -> None:
    """Put these tools on the PATH."""
    for name in names:
        (root / "bin" / name).write_text(TOOL)
        (root / "bin" / name).chmod(0o755)


def serve(monkeypatch: pytest.MonkeyPatch, images: dict[str, str]) -> None:
    """Serve these images by address, and no other image."""

    def answer(request: httpx.Request) -> httpx.Response:
        place = f"{request.url.host}{request.url.path}"
        if place in images:
            body = {"config": {"digest": "sha256:config"}, "layers": [{"size": 3 << 20}]}
            return httpx.Response(200, json=body, headers={"Docker-Content-Digest": images[place]})
        if place.endswith("/blobs/sha256:config"):
            return httpx.Response(200, json={"os": "linux", "architecture": "amd64"})
        return httpx.Response(404)

    for module in (command, unserved_images):
        registries = Registries(RegistryCredentials(), transport=httpx.MockTransport(answer))
        monkeypatch.setattr(module, "Registries", lambda *_, registries=registries, **__: registries)


def without_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no host name resolve."""

    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("unknown") from socket.gaierror(-2, "unknown")

    registries = Registries(RegistryCredentials(), transport=httpx.MockTransport(answer))
    monkeypatch.setattr(unserved_images, "Registries", lambda *_, **__: registries)


def unserved() -> tuple[UnservedImage, ...]:
    """Return the images that the registries do not serve."""
    session = Session.open("lab")
    return unserved_images.unserved_images(session, unserved_images.images_of_runs(session), None)


def run(*words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["image", *words, "-s", "lab"], env={"COLUMNS": "200"})


def calls(root: Path) -> list[str]:
    """Return the calls of the tools, without the names of temporary folders."""
    return re.sub(r"/\S*/content(/digest)?", r"TEMPORARY", (root / "calls").read_text()).splitlines()


PUSH = f"push --digestfile TEMPORARY {HELLO}"


@pytest.mark.parametrize(
    ("installed", "tool", "inspect", "push"),
    [
        (("docker", "podman", "buildah"), "buildah", f"inspect --type image {HELLO}", PUSH),
        (("docker", "podman"), "podman", f"image inspect {HELLO}", PUSH),
        (("docker",), "docker", f"image inspect {HELLO}", f"push {HELLO}"),
    ],
)
def test_the_first_tool_that_is_installed_builds_and_pushes(
    root: Path, monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], tool: str, inspect: str, push: str
) -> None:
    """An image is built before it is pushed; the digest is printed, with a reminder to pin it."""
    install(root, *installed)
    serve(monkeypatch, {})
    result = run("push", "hello")
    assert (result.exit_code, result.stdout) == (0, f"{HELLO}@{DIGEST}\n"), result.output
    assert "lab pins its images: run `trainstack pin -s lab`" in result.stderr
    folder = root / "workloads" / "hello"
    build = f"build --file {folder}/Dockerfile --tag {HELLO} {folder}"
    assert calls(root) == [f"{tool} {words}" for words in (inspect, build, push)]
    assert run("push", "hello").exit_code == 0
    assert calls(root)[3:] == [f"{tool} {words}" for words in (inspect, push)]


def test_without_a_tool_the_message_names_all_three(root: Path) -> None:
    """The message explains how to install one."""
    result = run("build", "hello")
    assert result.exit_code == 1
    assert "install buildah, podman or docker (on Debian: apt-get install buildah)" in result.output


def test_build_arguments_go_to_the_tool(root: Path) -> None:
    """A base without a default is required."""
    install(root, "podman")
    folder = root / "workloads" / "hello"
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    result = run("build", "hello")
    assert result.exit_code == 1
    assert "workloads/hello/Dockerfile: ARG BASE has no value; run `trainstack image build` with" in result.output
    assert not (root / "calls").exists()
    result = run("build", "hello", "--build-arg", "BASE=python:3", "--build-arg", "A=1")
    assert (result.exit_code, result.stdout) == (0, f"{HELLO}\n")
    arguments = "--build-arg A=1 --build-arg BASE=python:3"
    assert calls(root) == [f"podman build --file {folder}/Dockerfile --tag {HELLO} {arguments} {folder}"]
    assert "--build-arg BASE: must be KEY=VALUE" in run("build", "hello", "--build-arg", "BASE").output


def test_an_image_named_by_content_is_built_from_that_content_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry keeps it for good: it is neither built nor pushed again, which could change its digest."""
    install(root, "docker")
    reference = workload_reference(root / "workloads" / "built", "r.example.org")
    assert run("build", "built").stdout == f"{reference}\n"
    context = f"--file TEMPORARY/Dockerfile --tag {reference} TEMPORARY"
    assert calls(root) == [f"docker build {context}"]
    tag = reference.rpartition(":")[2]
    serve(monkeypatch, {f"r.example.org/v2/trainstack/built/manifests/{tag}": DIGEST})
    result = run("push", "built")
    assert (result.exit_code, result.stdout) == (0, f"{reference}@{DIGEST}\n")
    assert "is already in its registry" in result.stderr
    assert len(calls(root)) == 1
    result = run("build", "built", "--build-arg", "A=1")
    assert "workloads/built: the tag of an image with `image.build` is a digest of the folder" in result.output


def test_the_base_of_this_project_needs_buildah(root: Path) -> None:
    """No registry serves the base."""
    install(root, "docker")
    (root / "workloads" / "built" / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    result = run("build", "built")
    assert result.exit_code == 1
    assert "ARG BASE is this project's base image, which requires buildah; install it, or write `FROM" in result.output


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (
            "unauthorized: authentication required",
            "r.example.org rejected the credentials, or none are stored for it; run `docker login r.example.org`",
        ),
        (
            'Get "https://r.example.org/v2/": dial tcp 192.0.2.1:443: connect: connection refused',
            "r.example.org does not respond; check the name and the network",
        ),
        (
            'Get "https://r.example.org/v2/": dial tcp: lookup r.example.org on 192.0.2.2:53: no such host',
            "r.example.org does not respond; check the name and the network",
        ),
    ],
)
def test_a_failed_push_is_explained(root: Path, monkeypatch: pytest.MonkeyPatch, printed: str, reason: str) -> None:
    """The error has the output of the tool, the command and the remedy."""
    install(root, "docker")
    serve(monkeypatch, {})
    (root / "refuses").write_text(f"{printed}\n")
    result = run("push", "hello")
    assert (result.exit_code, result.stdout) == (1, "")
    assert printed in result.stderr
    assert f"error: `docker push {HELLO}` exited with 125: {reason}\n" in result.stderr


def test_damaged_credentials_stop_a_push_before_the_build(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an image that the registry has could be built and pushed again, with another digest."""
    install(root, "docker")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(root / "auth.json"))
    (root / "auth.json").write_text("{")
    result = run("push", "built")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"error: {root}/auth.json: cannot read the credentials of r.example.org (" in result.stderr
    assert not (root / "calls").exists()


def test_a_buildah_without_netavark_is_explained(root: Path) -> None:
    """Debian 13's package does not depend on netavark, and buildah needs it to start."""
    install(root, "buildah")
    (root / "breaks").write_text('Error: could not find "netavark" in one of [/usr/lib/podman].\n')
    result = run("build", "hello")
    assert result.exit_code == 1
    assert "a program that it only recommends is missing; install it, on Debian with `apt-get install netavark`" in (
        result.stderr
    )


def test_a_workload_that_cannot_be_built_is_named(root: Path) -> None:
    """The error precedes any build."""
    install(root, "docker")
    assert "lab has no run or sweep hallo; did you mean hello?" in run("build", "hallo").output
    result = run("build", "hello", "theirs")
    assert "workloads/theirs/Dockerfile does not exist" in result.output
    assert not (root / "calls").exists()


def test_the_list_has_every_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list shows whether an image is built here and is in its registry, and the command for a missing image."""
    install(root, "docker")
    serve(monkeypatch, {"example.org/v2/theirs/manifests/1": DIGEST})
    (root / "built").touch()
    result = run("list", "--json")
    assert result.exit_code == 0, result.output
    listed = {line["workloads"][0]: line for line in json.loads(result.stdout)}
    keys = ("image", "folders", "built", "registry", "digest", "sizeBytes", "platforms")
    assert [listed["theirs"][key] for key in keys] == [
        *("example.org/theirs:1", [], False, "pushed", DIGEST, 3 << 20, ["linux/amd64"]),
    ]
    assert [listed["hello"][key] for key in keys] == [HELLO, ["workloads/hello"], True, "missing", None, None, []]
    result = run("list")
    assert f"to push {HELLO}: trainstack image push hello -s lab" in result.stderr
    (line,) = (line.split() for line in result.stdout.splitlines() if line.startswith("theirs"))
    assert line == ["theirs", "example.org/theirs:1", "-", "-", "pushed", DIGEST, "linux/amd64", "3.0", "MiB", "-"]


def test_a_table_in_a_file_is_complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal cuts it at its width."""
    table = Table("IMAGE", "DIGEST", box=None)
    for column in table.columns:
        column.no_wrap = True
    table.add_row("i" * 300, "d" * 71)
    console.show(table)
    assert capsys.readouterr().out.splitlines()[1].split() == ["i" * 300, "d" * 71]
    screen = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=screen, width=100, force_terminal=True))
    console.show(table)
    assert "i" * 100 not in screen.getvalue()


def test_up_stops_before_a_run_whose_image_is_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has the exact command; a launched run needs its image no longer."""
    serve(monkeypatch, {})
    launched: list[Any] = []
    monkeypatch.setattr(unserved_images, "read_runs", lambda _: SimpleNamespace(ledgers=launched))
    session = Session.open("lab")
    with pytest.raises(typer.Exit):
        unserved_images.ensure_images_pushed(session)
    stderr = capsys.readouterr().err
    assert f"the registry does not have {HELLO}; run `trainstack image push hello -s lab`" in stderr
    assert "trainstack image push built -s lab" in stderr
    assert "theirs" not in stderr
    planned = StackObjects(session.settings, read_inputs(session.settings, root, commit="")).runs
    launched += [SimpleNamespace(run_id=planned[0].launch.run_id, trials=())]
    # This is the form in the ledger of a batch of trials.
    launched += [SimpleNamespace(run_id="batch", trials=[run.launch.run_id for run in planned[1:]])]
    unserved_images.ensure_images_pushed(session)
    del launched[0]
    with pytest.raises(typer.Exit):
        unserved_images.ensure_images_pushed(session)
    stderr = capsys.readouterr().err
    assert "image push hello" in stderr
    assert "image push built" not in stderr


SILENCE = """\
  trainstack:checks:
    silenced: [{rule: image-missing, path: workloads.runs, reason: The nodes have a mirror.}]
"""


@pytest.mark.parametrize(
    "environment", [ENVIRONMENT + SILENCE, ENVIRONMENT.replace("kind: Job,", "kind: Job, imagePullPolicy: Never,")]
)
def test_up_continues_where_the_nodes_need_no_registry(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], environment: str
) -> None:
    """The rule is silenced, or the images are never pulled."""
    serve(monkeypatch, {})
    monkeypatch.setattr(unserved_images, "read_runs", lambda _: SimpleNamespace(ledgers=[]))
    (root / "Pulumi.lab.yaml").write_text(environment)
    unserved_images.ensure_images_pushed(Session.open("lab"))
    assert "image-missing" not in capsys.readouterr().err


def test_a_pinned_image_is_requested_by_its_digest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tag may be deleted or name another image."""
    digest = f"sha256:{'d' * 64}"
    (root / "pins").mkdir()
    (root / "pins" / "lab.yaml").write_text(f"{HELLO}: {digest}\n")
    serve(monkeypatch, {f"r.example.org/v2/lab/hello/manifests/{digest}": digest})
    assert HELLO not in {image.reference for image in unserved()}


def test_up_continues_where_the_registry_cannot_be_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The nodes may have credentials that this machine lacks."""

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(401)

    registries = Registries(RegistryCredentials(), transport=httpx.MockTransport(answer))
    monkeypatch.setattr(unserved_images, "Registries", lambda *_, **__: registries)
    unserved_images.ensure_images_pushed(Session.open("lab"))
    assert f"whether the registry has {HELLO} is unknown" in capsys.readouterr().err


def test_a_registry_without_an_address_is_reported_with_the_setting_of_its_host(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names both places: the name of the image, and `cluster.registry`."""
    without_addresses(monkeypatch)
    paths = {image.workloads: image.host_path for image in unserved()}
    assert paths == {("hello",): "workloads.runs[hello].image.name", ("built",): "cluster.registry"}


def test_up_stops_before_a_run_whose_registry_has_no_address(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A placeholder is a finding about the files; a launched run needs its image no longer; a silence counts."""
    without_addresses(monkeypatch)
    launched: list[Any] = []
    monkeypatch.setattr(unserved_images, "read_runs", lambda _: SimpleNamespace(ledgers=launched))
    session = Session.open("lab")
    with pytest.raises(typer.Exit) as ended:
        unserved_images.ensure_images_pushed(session)
    assert ended.value.exit_code == ExitCode.FINDINGS
    stderr = capsys.readouterr().err
    assert "error [registry-unreachable] " in stderr
    assert f": workloads.runs[hello].image.name: {HELLO}: host r.example.org has no address (unknown)" in stderr
    assert ": cluster.registry: r.example.org/" in stderr
    planned = StackObjects(session.settings, read_inputs(session.settings, root, commit="")).runs
    launched.extend(SimpleNamespace(run_id=run.launch.run_id, trials=()) for run in planned)
    unserved_images.ensure_images_pushed(session)
    assert "registry-unreachable" not in capsys.readouterr().err
    launched.clear()
    (root / "Pulumi.lab.yaml").write_text(ENVIRONMENT + SILENCE.replace("image-missing", "registry-unreachable"))
    with pytest.raises(typer.Exit):
        # The silence of the run's path does not cover `cluster.registry`.
        unserved_images.ensure_images_pushed(Session.open("lab"))
    stderr = capsys.readouterr().err
    assert (": cluster.registry: " in stderr, HELLO in stderr) == (True, False)


def test_an_image_of_the_local_cluster_needs_that_cluster(root: Path) -> None:
    """The remedy is that cluster, or another registry in the settings."""
    install(root, "docker")
    file = root / "Pulumi.lab.yaml"
    file.write_text(file.read_text().replace("  trainstack:cluster: {registry: r.example.org}\n", ""))
    result = run("push", "built")
    assert result.exit_code == 1
    assert "run `trainstack cluster up`, or set your registry: `trainstack:cluster: {registry: …}`" in result.output
