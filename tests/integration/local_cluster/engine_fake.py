"""A fake of docker, podman and kind, which records each call and keeps containers in a file.

It accepts only the arguments that the driver uses, and refuses what the real programs refuse: unknown options, a taken
name, the network of a stopped container, the removal of a container that another one depends on. It is a program on
PATH, and `run` does the same without a process, whose start takes longer than all else.
"""

import base64
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import argparse

FIRST: dict[str, Any] = {
    "calls": [],
    "containers": {},
    "images": [],
    "kind": "v0.30.0",
    "info": {"host": {"security": {"rootless": False}, "cgroupVersion": "v1"}},
    "down": "",
    "create": "",
    "pull": "",
    "start": "",
}
"""`down`, `pull` and `start`: the engine's errors; `create`: kind's error, or `killed`."""


def fail(message: str, code: int = 125) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(code)


def find(state: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in state["containers"]:
        fail(f"Error: no such container {name}")
    container: dict[str, Any] = state["containers"][name]
    return container


def engine(state: dict[str, Any], program: str, arguments: list[str]) -> None:  # noqa: C901, PLR0912 (one case for each command)
    if arguments == ["-v"]:
        sys.stdout.write("Docker version 28.2.2, build e6534b4\n" if program == "docker" else "podman version 4.3.1\n")
        return
    if state["down"]:
        fail(state["down"], 1)
    match arguments:
        case ["info", "--format", _]:
            sys.stdout.write(json.dumps(state["info"]))
        case ["container", "inspect", name]:
            sys.stdout.write(json.dumps([find(state, name)]))
        case ["image", "inspect", name]:
            sys.exit(name not in state["images"])
        case ["pull", _] if state["pull"]:
            fail(state["pull"])
        case ["pull", name]:
            state["images"].append(name)
        case ["start", name] if state["start"]:
            fail(state["start"])
        case ["start", name]:
            set_running(find(state, name), running=True)
        case ["stop", "-t", seconds, name] if seconds.isdigit():
            set_running(find(state, name), running=False)
        case ["rm", "--force", name]:
            remove(state, name)
        case ["exec", name, "sh", "-c", _]:
            if find(state, name)["State"]["Status"] != "running":
                fail("Error: can only create exec sessions on running containers")
        case ["run", "--detach", *options]:
            run_container(state, options)
        case _:
            fail(f"Error: unrecognized command `{program} {' '.join(arguments)}`")


def make_parser() -> "argparse.ArgumentParser":
    import argparse  # noqa: PLC0415 (most calls do not need it)

    return argparse.ArgumentParser(allow_abbrev=False)


def run_container(state: dict[str, Any], options: list[str]) -> None:
    parser = make_parser()
    for option in ("--name", "--network"):
        parser.add_argument(option, required=True)
    parser.add_argument("--volume", action="append")
    parser.add_argument("image")
    parser.add_argument("command", nargs="*")
    options_of = parser.parse_args(options)
    if options_of.name in state["containers"]:
        fail(f'Error: the container name "{options_of.name}" is already in use')
    target = find(state, options_of.network.removeprefix("container:"))
    if target["State"]["Status"] != "running":
        fail("Error: cannot join the network of a container that is not running")
    for volume in options_of.volume:
        source = volume.split(":")[0]
        if source.startswith("/") and not Path(source).is_dir():
            fail(f"Error: statfs {source}: no such file or directory")
    if options_of.image not in state["images"]:
        fail(f"Error: {options_of.image}: image not known")
    state["containers"][options_of.name] = {**new(), "network": options_of.network, "command": options_of.command}


def remove(state: dict[str, Any], name: str) -> None:
    find(state, name)
    dependents = [
        other for other, container_ in state["containers"].items() if container_.get("network") == f"container:{name}"
    ]
    if dependents:
        fail(f"Error: container {name} has dependent containers which must be removed before it: {dependents}")
    del state["containers"][name]


def new() -> dict[str, Any]:
    container: dict[str, Any] = {"Id": os.urandom(32).hex(), "State": {}}
    set_running(container, running=True)
    return container


def set_running(container: dict[str, Any], *, running: bool) -> None:
    status = "running" if running else "exited"
    container["State"] = {"Status": status, "Pid": 4711 if running else 0, "ExitCode": 0 if running else 130}


def kind(state: dict[str, Any], arguments: list[str], environment: Mapping[str, str]) -> None:
    if arguments == ["version"]:
        sys.stdout.write(f"kind {state['kind']} go1.24.6 linux/amd64\n")
        return
    if environment.get("KIND_EXPERIMENTAL_PROVIDER") not in ("docker", "podman"):
        fail("ERROR: the engine is left to chance", 1)
    nodes = [name for name in state["containers"] if name.endswith("-control-plane")]
    if arguments == ["get", "clusters"]:
        sys.stdout.write("".join(f"{name.removesuffix('-control-plane')}\n" for name in nodes))
    elif arguments[:2] == ["create", "cluster"]:
        create(state, arguments[2:], Path(environment["FAKE_STATE"]))
    elif arguments[:2] == ["delete", "cluster"]:
        parser = make_parser()
        parser.add_argument("--name", required=True)
        parser.add_argument("--kubeconfig", required=True)
        node = f"{parser.parse_args(arguments[2:]).name}-control-plane"
        if node in nodes:
            remove(state, node)
    else:
        fail(f"ERROR: unknown command {arguments}", 1)


def create(state: dict[str, Any], arguments: list[str], place: Path) -> None:
    parser = make_parser()
    for option in ("--config", "--kubeconfig"):
        parser.add_argument(option, required=True, type=Path)
    parser.add_argument("--image", default="kindest/node:v1.34.0")
    options = parser.parse_args(arguments)
    config = json.loads(options.config.read_text())
    known = {"kind", "apiVersion", "name", "networking", "nodes", "containerdConfigPatches", "kubeadmConfigPatches"}
    if unknown := {*config} - known:
        fail(f"ERROR: failed to create cluster: unable to decode config: unknown field {unknown}", 1)
    node = f"{config['name']}-control-plane"
    if node in state["containers"]:
        fail("ERROR: failed to create cluster: node(s) already exist for a cluster with the name", 1)
    if state["create"] not in ("", "killed"):
        fail(state["create"], 1)
    sys.stderr.write(f" • Ensuring node image ({options.image}) 🖼  ...\n ✓ Ensuring node image ({options.image}) 🖼\n")
    state["containers"][node] = new()
    if state["create"] == "killed":
        place.write_text(json.dumps(state))
        os.kill(os.getpid(), signal.SIGKILL)
    text = {key: base64.b64encode(key.encode()).decode() for key in ("ca", "crt", "key")}
    cluster = {"server": "https://127.0.0.1:41111", "certificate-authority-data": text["ca"]}
    user = {"client-certificate-data": text["crt"], "client-key-data": text["key"]}
    content = {"clusters": [{"name": "kind-x", "cluster": cluster}], "users": [{"name": "kind-x", "user": user}]}
    options.kubeconfig.write_text(json.dumps(content))


def run(program: str, arguments: list[str], environment: Mapping[str, str]) -> None:
    """Write the output of the program to stdout and stderr. Raise SystemExit if it fails."""
    place = Path(environment["FAKE_STATE"])
    state = json.loads(json.dumps(FIRST)) | (json.loads(place.read_text()) if place.exists() else {})
    state["calls"].append([program, *arguments])
    place.write_text(json.dumps(state))
    try:
        if program == "kind":
            kind(state, arguments, environment)
        else:
            engine(state, program, arguments)
    finally:
        place.write_text(json.dumps(state))


if __name__ == "__main__":
    run(Path(sys.argv[0]).name, sys.argv[1:], os.environ)
