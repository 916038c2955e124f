"""The kind driver with recorded programs: its calls, its state, and its errors."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fnmatch import fnmatch
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.integration.local_cluster import engine_fake
from trainstack.cli.app import app
from trainstack.local_cluster import drivers
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.kind import cluster, cluster_objects, engine
from trainstack.local_cluster.kind.engine import PROVIDER_VARIABLE, rootless_problems
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout

PROGRAM = f"#!{sys.executable} -IS\n".encode() + Path(engine_fake.__file__).read_bytes()
RUN = subprocess.run
DELEGATED = ["cpu", "memory", "pids"]


@dataclass
class Machine:
    """A machine with recorded programs on PATH, and a state folder."""

    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "cluster"

    @property
    def node(self) -> str:
        return f"{Layout.of(self.state).cgroup}-control-plane"

    @property
    def registry(self) -> str:
        return f"{Layout.of(self.state).cgroup}-registry"

    def read(self) -> dict[str, Any]:
        place = self.folder / "state.json"
        return engine_fake.FIRST | (json.loads(place.read_text()) if place.exists() else {})

    def write(self, **changes: Any) -> None:
        (self.folder / "state.json").write_text(json.dumps(self.read() | changes))

    def install(self, *names: str) -> None:
        """Install programs on PATH, which has no others."""
        programs = self.folder / "bin"
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir()
        for name in names:
            # A link would not do: the program depends on the name by which it is called.
            (programs / name).write_bytes(PROGRAM)
            (programs / name).chmod(0o755)

    def calls(self, program: str, *words: str) -> list[list[str]]:
        return [call for call in self.read()["calls"] if call[: len(words) + 1] == [program, *words]]


def run_in_process(command: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any) -> Any:
    """Run a command like `subprocess.run`, without a process if it is the unchanged program."""
    program = shutil.which(command[0])
    if program is None or Path(program).read_bytes() != PROGRAM:
        return RUN(command, env=env, **options)
    code, stdout, stderr = 0, StringIO(), StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            engine_fake.run(command[0], [*command[1:]], os.environ if env is None else env)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(command, code, stdout.getvalue(), stderr.getvalue())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Provide a machine with podman and kind, whose API server is ready at once.

    Only `kind create cluster`, whose output the driver follows, is a process.
    """
    result = Machine(tmp_path)
    result.install("podman", "kind")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("FAKE_STATE", str(tmp_path / "state.json"))
    monkeypatch.delenv(PROVIDER_VARIABLE, raising=False)
    monkeypatch.setattr(subprocess, "run", run_in_process)
    monkeypatch.setattr(cluster_objects, "reconcile", lambda *_: "")
    monkeypatch.setattr(cluster_objects, "readiness_problem", lambda *_: "")
    return result


def make_hang(machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str, case: str) -> list[float | None]:
    """Let a program hang in a command, and shorten its time limit. Return the limits that the driver set."""
    program = machine.folder / "bin" / name
    program.rename(machine.folder / name)
    program.write_text(f'#!/bin/sh\ncase "$*" in {case}) exec sleep 600;; esac\nexec "{machine.folder}/{name}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{machine.folder}/bin{os.pathsep}/bin")
    limits: list[float | None] = []
    run = subprocess.run

    def impatient(command: Sequence[str], **options: Any) -> Any:
        if command[0] == name and fnmatch(" ".join(command[1:]), case):
            limits.append(options.get("timeout"))
            options["timeout"] = 0.2
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", impatient)
    return limits


def refused(machine: Machine, **options: Any) -> str:
    with pytest.raises(LocalClusterError) as error:
        drivers.up(machine.state, driver="kind", **options)
    return str(error.value)


def test_a_new_cluster(machine: Machine) -> None:
    """One node, a registry in its network namespace, and a kubeconfig like the native cluster's."""
    lines: list[str] = []
    running = drivers.up(machine.state, None, lines.append, driver="kind", node_image="example.org/node:1")
    (created,) = machine.calls("kind", "create")
    assert "--image=example.org/node:1" in created
    assert any("Ensuring node image (example.org/node:1)" in line for line in lines)
    config = json.loads((machine.state / "config" / "kind.json").read_text())
    (node,) = config["nodes"]
    assert node["extraPortMappings"] == [
        {"containerPort": 5000, "hostPort": int(running.registry.address.split(":")[1]), "listenAddress": "127.0.0.1"}
    ]
    (mount,) = node["extraMounts"]
    hosts = Path(mount["hostPath"], "_default", "hosts.toml").read_text()
    assert 'ca = "/etc/containerd/certs.d/_default/registry-ca.crt"' in hosts
    assert '[host."https://127.0.0.1:5000"]' in hosts
    (started,) = machine.calls("podman", "run")
    assert f"--network=container:{machine.node}" in started
    assert started[-3:] == [cluster.REGISTRY_IMAGE, "serve", "/trainstack/registry.yaml"]
    assert (running.node, running.server) == (machine.node, "https://127.0.0.1:41111")
    kubeconfig = json.loads((machine.state / "kubeconfig").read_text())
    assert (kubeconfig["current-context"], kubeconfig["clusters"][0]["cluster"]["server"]) == (
        "trainstack-local",
        "https://127.0.0.1:41111",
    )
    assert (machine.state / "kubeconfig").stat().st_mode & 0o777 == 0o600
    assert not (machine.state / "config" / "kind.kubeconfig").exists()


def test_the_registry_has_only_the_keys_that_it_needs(machine: Machine) -> None:
    """The node has the client's pair, the registry its own; neither has the administrator's."""
    drivers.up(machine.state, driver="kind")
    config = machine.state / "config"
    assert {file.name for file in (config / "registry").iterdir()} == {
        "registry-ca.crt", "registry.crt", "registry.key", "registry.yaml",
    }  # fmt: skip
    assert {file.name for file in (config / "registries" / "_default").iterdir()} == {
        "hosts.toml", "registry-ca.crt", "registry-client.crt", "registry-client.key",
    }  # fmt: skip


def test_a_cluster_is_stopped_and_started_again(machine: Machine) -> None:
    """`up` without options uses the same driver, and creates nothing but the registry's container."""
    first = drivers.up(machine.state, driver="kind")
    drivers.up(machine.state)
    assert len(machine.calls("podman", "run")) == 1
    drivers.down(machine.state)
    assert {container["State"]["Status"] for container in machine.read()["containers"].values()} == {"exited"}
    assert drivers.status(machine.state).problem == "it is stopped"
    restarted = drivers.up(machine.state)
    assert (restarted.server, restarted.registry) == (first.server, first.registry)
    assert len(machine.calls("kind", "create")) == 1
    assert drivers.status(machine.state).ready
    script = machine.calls("podman", "exec", machine.node)[-1][-1]
    assert "ip route replace unreachable 10.244.0.0/16; " in script
    assert "iptables --insert OUTPUT --destination 10.96.0.0/16 --jump REJECT" in script


def test_wipe_deletes_the_containers_and_the_folder(machine: Machine) -> None:
    """The order is one that podman accepts."""
    drivers.up(machine.state, driver="kind")
    drivers.down(machine.state, keep_data=False)
    assert machine.read()["containers"] == {}
    assert not machine.state.exists()


def test_without_kind_nothing_is_wiped(machine: Machine) -> None:
    """kind may be off PATH by now; the containers are kept, and the error has the remedy."""
    drivers.up(machine.state, driver="kind")
    machine.install("podman")
    with pytest.raises(LocalClusterError, match="kind is not on PATH; install kind"):
        drivers.down(machine.state, keep_data=False)
    assert len(machine.read()["containers"]) == 2
    drivers.down(machine.state)


def test_reset_keeps_the_images_names(machine: Machine) -> None:
    """A second cluster has the options of the first."""
    drivers.up(machine.state, driver="kind", node_image="example.org/node:1", registry_image="example.org/registry:1")
    drivers.reset(machine.state)
    assert all("--image=example.org/node:1" in call for call in machine.calls("kind", "create"))
    assert all("example.org/registry:1" in call for call in machine.calls("podman", "run"))
    assert len(machine.calls("kind", "create")) == 2


def test_a_cluster_of_the_same_name_is_not_touched(machine: Machine) -> None:
    """Its creator may be a user, or a state folder that was deleted."""
    foreign = {machine.node: engine_fake.new()}
    machine.write(containers=foreign)
    assert "has no record of" in refused(machine)
    assert machine.read()["containers"] == foreign
    assert machine.calls("kind", "delete") == []


def test_a_node_that_was_created_again_by_hand_is_not_touched(machine: Machine) -> None:
    """The id of its container is not the recorded one."""
    drivers.up(machine.state, driver="kind")
    containers = machine.read()["containers"]
    machine.write(containers=containers | {machine.node: engine_fake.new()})
    before = machine.read()["containers"]
    assert "is not the one that this folder created" in refused(machine)
    for keep_data in (True, False):
        with pytest.raises(LocalClusterError, match="is not the one that this folder created"):
            drivers.down(machine.state, keep_data=keep_data)
    assert "was deleted" in drivers.status(machine.state).problem
    assert machine.read()["containers"] == before


def test_a_deleted_node_is_created_again(machine: Machine) -> None:
    """The user ran `kind delete cluster`; the registry of the old node is deleted too."""
    drivers.up(machine.state, driver="kind")
    registry = machine.read()["containers"][machine.registry]
    machine.write(containers={machine.registry: registry | {"network": ""}})
    drivers.up(machine.state)
    assert machine.read()["containers"][machine.registry]["Id"] != registry["Id"]


def test_a_killed_creation_is_repeated(machine: Machine) -> None:
    """A killed kind leaves a node."""
    machine.write(create="killed")
    assert "kind could not create the cluster" in refused(machine)
    assert machine.node in machine.read()["containers"]
    assert "its creation failed" in drivers.status(machine.state).problem
    machine.write(create="")
    assert drivers.up(machine.state).node == machine.node
    assert drivers.status(machine.state).ready


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        ('ERROR: failed to create cluster: failed to pull image "kindest/node"', "--node-image"),
        ("Error: rootlessport listen tcp 127.0.0.1:5000: bind: address already in use", "chooses other ports"),
        ("Failed to create control group inotify object: too many open files", "fs.inotify.max_user_instances"),
        ("ERROR: something else", "kind.log"),
    ],
)
def test_a_failed_creation_can_be_repeated_and_wiped(machine: Machine, output: str, remedy: str) -> None:
    """The error has the last lines of kind's output, and the remedy for known causes."""
    machine.write(create=output)
    message = refused(machine)
    assert output in message
    assert remedy in message
    assert "its creation failed" in drivers.status(machine.state).problem
    drivers.down(machine.state, keep_data=False)
    assert not machine.state.exists()


def test_a_failed_download_leaves_a_folder_of_kind(machine: Machine) -> None:
    """`up` of root would create a native cluster in another one, and `down --wipe` refuse it."""
    machine.write(pull="Error: initializing source docker://registry:2.8.3: dial tcp: no route to host")
    assert "no route to host" in refused(machine)
    assert drivers.default_driver(machine.state) == "kind"
    assert "its creation failed" in drivers.status(machine.state).problem
    drivers.down(machine.state, keep_data=False)
    assert not machine.state.exists()
    refused(machine, spec=ClusterSpec(gpus=2))
    machine.write(pull="")
    drivers.up(machine.state)
    current = drivers.status(machine.state)
    assert current.ready
    assert current.spec == ClusterSpec(gpus=2)


def test_a_taken_port_of_a_stopped_cluster(machine: Machine) -> None:
    """Ports are chosen with the node: another program may use them by now."""
    drivers.up(machine.state, driver="kind")
    drivers.down(machine.state)
    machine.write(start="Error: driver failed: Bind for 127.0.0.1:41111 failed: port is already allocated")
    assert "trainstack cluster reset" in refused(machine)


def test_what_a_machine_lacks(machine: Machine) -> None:
    """Each fault has its remedy, and nothing is created."""
    machine.write(kind="v0.20.0")
    assert "install kind v0.24 or later" in refused(machine)
    machine.install("podman")
    assert "kind is not on PATH" in refused(machine)
    machine.install("kind")
    machine.write(kind="v0.30.0")
    assert "docker or nerdctl or podman is not on PATH" in refused(machine)
    machine.install("kind", "podman")
    machine.write(down="Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
    assert "start it, for example with `sudo systemctl start podman`" in refused(machine)
    machine.write(down="permission denied while trying to connect to the Docker daemon socket")
    assert "give your account access" in refused(machine)
    assert not (machine.state / "driver.json").exists()
    assert machine.calls("kind", "create") == []


def test_an_engine_that_does_not_respond_is_skipped(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """kind would use docker, which many machines have on PATH without its daemon."""
    machine.install("docker", "kind", "podman")
    (machine.folder / "bin" / "docker").write_text(
        '#!/bin/sh\n[ "$1" = -v ] && echo "Docker version 28.2.2" && exit 0\necho "Cannot connect" >&2; exit 1\n'
    )
    monkeypatch.setenv("PATH", f"{machine.folder}/bin{os.pathsep}/bin")
    drivers.up(machine.state, driver="kind")
    assert json.loads((machine.state / "driver.json").read_text())["engine"] == "podman"


@pytest.mark.parametrize("case", ["-v", "info*"])
def test_an_engine_that_hangs_is_skipped(machine: Machine, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """If no other engine is installed, the error names it."""
    machine.install("docker", "kind", "podman")
    make_hang(machine, monkeypatch, "docker", case)
    drivers.up(machine.state, driver="kind")
    assert json.loads((machine.state / "driver.json").read_text())["engine"] == "podman"
    (machine.folder / "bin" / "podman").unlink()
    (machine.folder / "bin" / "podman").symlink_to("/bin/false")
    with pytest.raises(
        LocalClusterError, match=rf"No container engine can run kind:\n  - `docker {case[:4]}.*timed out"
    ):
        engine.find_engine()


@pytest.mark.parametrize("case", ["version", "get*"])
def test_a_kind_that_hangs_is_an_error(machine: Machine, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """There is no traceback."""
    make_hang(machine, monkeypatch, "kind", case)
    assert "timed out" in refused(machine)


def test_a_deletion_may_take_minutes(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's pods end slowly on a busy machine."""
    drivers.up(machine.state, driver="kind")
    limits = make_hang(machine, monkeypatch, "kind", "delete*")
    with pytest.raises(LocalClusterError, match=r"`kind delete cluster .*timed out"):
        drivers.down(machine.state, keep_data=False)
    assert limits == [300]
    assert machine.state.exists()


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"host": {"security": {"rootless": True}, "cgroupVersion": "v1"}}, "requires cgroup v2"),
        (
            {"host": {"security": {"rootless": True}, "cgroupVersion": "v2", "cgroupControllers": ["memory", "pids"]}},
            "Delegate=yes",
        ),
        ({"host": {"security": {"rootless": True}, "cgroupVersion": "v2", "cgroupControllers": DELEGATED}}, ""),
        ({"host": {"security": {"rootless": False}, "cgroupVersion": "v1"}}, ""),
    ],
)  # fmt: skip
def test_rootless_podman(info: dict[str, Any], expected: str) -> None:
    """It needs cgroup v2 with delegated controllers, like kind."""
    problems = "".join(rootless_problems("podman", info))
    assert expected in problems
    assert bool(expected) == bool(problems)


def test_rootless_docker() -> None:
    """Docker reports the limits, not the controllers."""
    limits = {"MemoryLimit": True, "PidsLimit": True, "CPUShares": False}
    info = {"SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"], "CgroupVersion": "2", **limits}
    assert "Delegate=yes" in "".join(rootless_problems("docker", info))
    assert list(rootless_problems("docker", info | {"CPUShares": True})) == []
    assert list(rootless_problems("docker", limits)) == []


def test_settings_of_the_native_driver_are_refused(machine: Machine) -> None:
    """Nothing is created."""
    message = refused(machine, spec=ClusterSpec(simulated_nodes=2, audit=True))
    assert "does not support simulated nodes, audit" in message
    assert machine.calls("kind", "create") == []


def test_other_images_need_another_node(machine: Machine) -> None:
    """A running cluster keeps the images of its creation."""
    drivers.up(machine.state, driver="kind")
    assert "node image: the default of kind → example.org/node:2" in refused(machine, node_image="example.org/node:2")
    assert "max_pods: 250 → 10" in refused(machine, spec=ClusterSpec(max_pods=10))
    drivers.up(machine.state, ClusterSpec(gpus=2))
    current = drivers.status(machine.state).spec
    assert current is not None
    assert current.gpus == 2


def test_foreign_files_keep_the_folder(machine: Machine) -> None:
    """Nothing is deleted."""
    drivers.up(machine.state, driver="kind")
    (machine.state / "thesis.tex").touch()
    with pytest.raises(LocalClusterError, match=r"contains thesis\.tex"):
        drivers.down(machine.state, keep_data=False)
    assert len(machine.read()["containers"]) == 2


def test_the_commands(machine: Machine) -> None:
    """The output of `cluster` has the same form for each driver; `down` prints the place of the data."""
    run = CliRunner()
    started = run.invoke(app, ["cluster", "up", "--driver", "kind", "--state", str(machine.state), "--json"])
    assert json.loads(started.stdout)["node"] == machine.node
    result = run.invoke(app, ["cluster", "status", "--state", str(machine.state), "--json"])
    assert result.exit_code == 0
    assert [component["name"] for component in json.loads(result.stdout)["components"]] == ["node", "registry"]
    stopped = run.invoke(app, ["cluster", "down", "--state", str(machine.state)])
    assert "its data is kept in its containers" in stopped.stdout
    assert run.invoke(app, ["cluster", "status", "--state", str(machine.state)]).exit_code == 4
    native = run.invoke(app, ["cluster", "up", "--driver", "native", "--state", str(machine.state)])
    assert native.exit_code == 1
    assert "has a kind cluster, which a native cluster cannot continue" in " ".join(native.stderr.split())


def test_logs(machine: Machine) -> None:
    """Logs are those of both containers, and of the node's services."""
    drivers.up(machine.state, driver="kind")
    assert cluster.logs(machine.state, "registry", follow=True) == ["podman", "logs", "--follow", machine.registry]
    assert "--unit=kubelet" in cluster.logs(machine.state, "kubelet", follow=False)
    with pytest.raises(LocalClusterError, match="components with a log: containerd, kubelet, node, registry"):
        cluster.logs(machine.state, "etcd", follow=False)
