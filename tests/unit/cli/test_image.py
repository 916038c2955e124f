"""`trainstack image`, with tools that record what they are asked for."""

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

from trainstack.cli import console, unserved_images
from trainstack.cli import image as command
from trainstack.cli.app import app
from trainstack.cli.session import Session
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import read_inputs
from trainstack.errors import ExitCode
from trainstack.live.registry import Registries
from trainstack.preflight.live_context import UnservedImage
from trainstack.runs.images.images import workload_reference

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
    """A project with two Dockerfiles, as the current folder, on a machine without any tool."""
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
    """Have registries that hold these images, by their address, and nothing else."""

    def answer(request: httpx.Request) -> httpx.Response:
        place = f"{request.url.host}{request.url.path}"
        if place in images:
            body = {"config": {"digest": "sha256:config"}, "layers": [{"size": 3 << 20}]}
            return httpx.Response(200, json=body, headers={"Docker-Content-Digest": images[place]})
        if place.endswith("/blobs/sha256:config"):
            return httpx.Response(200, json={"os": "linux", "architecture": "amd64"})
        return httpx.Response(404)

    for module in (command, unserved_images):
        made = Registries({}, transport=httpx.MockTransport(answer))
        monkeypatch.setattr(module, "Registries", lambda *_, made=made, **__: made)


def without_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no host name resolve."""

    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("unknown") from socket.gaierror(-2, "unknown")

    made = Registries({}, transport=httpx.MockTransport(answer))
    monkeypatch.setattr(unserved_images, "Registries", lambda *_, **__: made)


def unserved() -> tuple[UnservedImage, ...]:
    """The images that the registries do not serve."""
    session = Session.open("lab")
    return unserved_images.unserved_images(session, unserved_images.images_of_runs(session), None)


def run(*words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["image", *words, "-s", "lab"], env={"COLUMNS": "200"})


def calls(root: Path) -> list[str]:
    """What the tools were asked for, without the names of temporary folders."""
    return re.sub(r"/\S*/(digest|trainstack-context-\w+)", r"TEMPORARY", (root / "calls").read_text()).splitlines()


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
    """What is not built yet is built before it is pushed; the digest is printed, and who pins is reminded."""
    install(root, *installed)
    serve(monkeypatch, {})
    done = run("push", "hello")
    assert (done.exit_code, done.stdout) == (0, f"{HELLO}@{DIGEST}\n"), done.output
    assert "lab pins its images: run `trainstack pin -s lab`" in done.stderr
    folder = root / "workloads" / "hello"
    build = f"build --file {folder}/Dockerfile --tag {HELLO} {folder}"
    assert calls(root) == [f"{tool} {words}" for words in (inspect, build, push)]
    assert run("push", "hello").exit_code == 0
    assert calls(root)[3:] == [f"{tool} {words}" for words in (inspect, push)]


def test_without_a_tool_the_message_names_all_three(root: Path) -> None:
    """And how one is installed."""
    done = run("build", "hello")
    assert done.exit_code == 1
    assert "install buildah, podman or docker (on Debian: apt-get install buildah)" in done.output


def test_build_arguments_go_to_the_tool(root: Path) -> None:
    """A base that has no default must be given."""
    install(root, "podman")
    folder = root / "workloads" / "hello"
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    done = run("build", "hello")
    assert done.exit_code == 1
    assert "workloads/hello/Dockerfile: ARG BASE has no value; run `trainstack image build` with" in done.output
    assert not (root / "calls").exists()
    done = run("build", "hello", "--build-arg", "BASE=python:3", "--build-arg", "A=1")
    assert (done.exit_code, done.stdout) == (0, f"{HELLO}\n")
    arguments = "--build-arg A=1 --build-arg BASE=python:3"
    assert calls(root) == [f"podman build --file {folder}/Dockerfile --tag {HELLO} {arguments} {folder}"]
    assert "--build-arg BASE: must be KEY=VALUE" in run("build", "hello", "--build-arg", "BASE").output


def test_an_image_named_by_content_is_built_from_that_content_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the registry it is once and for all: it is neither built nor pushed again, which could change its digest."""
    install(root, "docker")
    reference = workload_reference(root / "workloads" / "built", "r.example.org")
    assert run("build", "built").stdout == f"{reference}\n"
    context = f"--file TEMPORARY/Dockerfile --tag {reference} TEMPORARY"
    assert calls(root) == [f"docker build {context}"]
    tag = reference.rpartition(":")[2]
    serve(monkeypatch, {f"r.example.org/v2/trainstack/built/manifests/{tag}": DIGEST})
    done = run("push", "built")
    assert (done.exit_code, done.stdout) == (0, f"{reference}@{DIGEST}\n")
    assert "is already in its registry" in done.stderr
    assert len(calls(root)) == 1
    done = run("build", "built", "--build-arg", "A=1")
    assert "workloads/built: the tag of an image with `image.build` is a digest of the folder" in done.output


def test_the_base_of_this_project_needs_buildah(root: Path) -> None:
    """No registry has it."""
    install(root, "docker")
    (root / "workloads" / "built" / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    done = run("build", "built")
    assert done.exit_code == 1
    assert "ARG BASE is this project's base image, which requires buildah; install it, or write `FROM" in done.output


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
    """With the tool's own words, the command, and what to do."""
    install(root, "docker")
    serve(monkeypatch, {})
    (root / "refuses").write_text(f"{printed}\n")
    done = run("push", "hello")
    assert (done.exit_code, done.stdout) == (1, "")
    assert printed in done.stderr
    assert f"error: `docker push {HELLO}` exited with 125: {reason}\n" in done.stderr


def test_a_buildah_without_netavark_is_explained(root: Path) -> None:
    """Debian 13's package does not depend on it, and buildah starts only with it."""
    install(root, "buildah")
    (root / "breaks").write_text('Error: could not find "netavark" in one of [/usr/lib/podman].\n')
    done = run("build", "hello")
    assert done.exit_code == 1
    assert "a program that it only recommends is missing; install it, on Debian with `apt-get install netavark`" in (
        done.stderr
    )


def test_a_workload_that_cannot_be_built_is_named(root: Path) -> None:
    """Before anything is built."""
    install(root, "docker")
    assert "lab has no run or sweep hallo; did you mean hello?" in run("build", "hallo").output
    done = run("build", "hello", "theirs")
    assert "workloads/theirs/Dockerfile does not exist" in done.output
    assert not (root / "calls").exists()


def test_the_list_has_every_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built here or not, in its registry or not, and the command for what is missing."""
    install(root, "docker")
    serve(monkeypatch, {"example.org/v2/theirs/manifests/1": DIGEST})
    (root / "built").touch()
    done = run("list", "--json")
    assert done.exit_code == 0, done.output
    listed = {line["workloads"][0]: line for line in json.loads(done.stdout)}
    keys = ("image", "folders", "built", "registry", "digest", "sizeBytes", "platforms")
    assert [listed["theirs"][key] for key in keys] == [
        *("example.org/theirs:1", [], False, "pushed", DIGEST, 3 << 20, ["linux/amd64"]),
    ]
    assert [listed["hello"][key] for key in keys] == [HELLO, ["workloads/hello"], True, "missing", None, None, []]
    done = run("list")
    assert f"to push {HELLO}: trainstack image push hello -s lab" in done.stderr
    (line,) = (line.split() for line in done.stdout.splitlines() if line.startswith("theirs"))
    assert line == ["theirs", "example.org/theirs:1", "-", "-", "pushed", DIGEST, "linux/amd64", "3.0", "MiB", "-"]


def test_a_table_in_a_file_is_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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
    """With the exact command; a run that was launched already needs its image no more."""
    serve(monkeypatch, {})
    launched: list[Any] = []
    monkeypatch.setattr(unserved_images, "read_runs", lambda _: SimpleNamespace(ledgers=launched))
    session = Session.open("lab")
    with pytest.raises(typer.Exit):
        unserved_images.ensure_pushed(session)
    printed = capsys.readouterr().err
    assert f"the registry does not have {HELLO}; run `trainstack image push hello -s lab`" in printed
    assert "trainstack image push built -s lab" in printed
    assert "theirs" not in printed
    planned = Declared(session.settings, read_inputs(session.settings, root, commit="")).runs
    launched += [SimpleNamespace(run_id=planned[0].launch.run_id, trials=())]
    # As the ledger of a batch of trials has them.
    launched += [SimpleNamespace(run_id="batch", trials=[run.launch.run_id for run in planned[1:]])]
    unserved_images.ensure_pushed(session)
    del launched[0]
    with pytest.raises(typer.Exit):
        unserved_images.ensure_pushed(session)
    printed = capsys.readouterr().err
    assert "image push hello" in printed
    assert "image push built" not in printed


SILENCE = """\
  trainstack:checks:
    silenced: [{rule: image-missing, path: workloads.runs, reason: The nodes have a mirror.}]
"""


@pytest.mark.parametrize(
    "environment", [ENVIRONMENT + SILENCE, ENVIRONMENT.replace("kind: Job,", "kind: Job, imagePullPolicy: Never,")]
)
def test_up_goes_on_where_the_nodes_need_no_registry(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], environment: str
) -> None:
    """By a silence, or because the images are never pulled."""
    serve(monkeypatch, {})
    monkeypatch.setattr(unserved_images, "read_runs", lambda _: SimpleNamespace(ledgers=[]))
    (root / "Pulumi.lab.yaml").write_text(environment)
    unserved_images.ensure_pushed(Session.open("lab"))
    assert "image-missing" not in capsys.readouterr().err


def test_a_pinned_image_is_asked_for_by_its_digest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tag may be gone, or be another image's."""
    digest = f"sha256:{'d' * 64}"
    (root / "pins").mkdir()
    (root / "pins" / "lab.yaml").write_text(f"{HELLO}: {digest}\n")
    serve(monkeypatch, {f"r.example.org/v2/lab/hello/manifests/{digest}": digest})
    assert HELLO not in {image.reference for image in unserved()}


def test_up_goes_on_where_the_registry_cannot_be_asked(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The nodes may be let in where this machine is not."""

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(401)

    made = Registries({}, transport=httpx.MockTransport(answer))
    monkeypatch.setattr(unserved_images, "Registries", lambda *_, **__: made)
    unserved_images.ensure_pushed(Session.open("lab"))
    assert f"whether the registry has {HELLO} is unknown" in capsys.readouterr().err


def test_a_registry_without_an_address_is_told_where_its_host_is_set(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the image's name, or in `cluster.registry`."""
    without_addresses(monkeypatch)
    found = {image.workloads: image.host_path for image in unserved()}
    assert found == {("hello",): "workloads.runs[hello].image.name", ("built",): "cluster.registry"}


def test_up_stops_before_a_run_whose_registry_has_no_address(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A placeholder in the files is a finding of them; a launched run needs its image no more; a silence counts."""
    without_addresses(monkeypatch)
    launched: list[Any] = []
    monkeypatch.setattr(unserved_images, "read_runs", lambda _: SimpleNamespace(ledgers=launched))
    session = Session.open("lab")
    with pytest.raises(typer.Exit) as ended:
        unserved_images.ensure_pushed(session)
    assert ended.value.exit_code == ExitCode.FINDINGS
    printed = capsys.readouterr().err
    assert "error [registry-unreachable] " in printed
    assert f": workloads.runs[hello].image.name: {HELLO}: host r.example.org has no address (unknown)" in printed
    assert ": cluster.registry: r.example.org/" in printed
    planned = Declared(session.settings, read_inputs(session.settings, root, commit="")).runs
    launched.extend(SimpleNamespace(run_id=run.launch.run_id, trials=()) for run in planned)
    unserved_images.ensure_pushed(session)
    assert "registry-unreachable" not in capsys.readouterr().err
    launched.clear()
    (root / "Pulumi.lab.yaml").write_text(ENVIRONMENT + SILENCE.replace("image-missing", "registry-unreachable"))
    with pytest.raises(typer.Exit):
        # The silence of the run's path does not cover `cluster.registry`.
        unserved_images.ensure_pushed(Session.open("lab"))
    printed = capsys.readouterr().err
    assert (": cluster.registry: " in printed, HELLO in printed) == (True, False)


def test_an_image_of_the_local_cluster_needs_that_cluster(root: Path) -> None:
    """Or another registry in the settings."""
    install(root, "docker")
    file = root / "Pulumi.lab.yaml"
    file.write_text(file.read_text().replace("  trainstack:cluster: {registry: r.example.org}\n", ""))
    done = run("push", "built")
    assert done.exit_code == 1
    assert "run `trainstack cluster up`, or set your registry: `trainstack:cluster: {registry: …}`" in done.output
