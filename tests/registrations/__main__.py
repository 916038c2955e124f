"""Compare the resources that two commits register, for every committed environment: `python -m tests.registrations`.

An environment is previewed on an empty API server, with nothing in the engine's state but its identity. The engine is
Pulumi's mock, which keeps each request. Type, name, parent, inputs, every option and the outputs of components are
compared, but not the order of registration.
"""

import argparse
import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.apiserver import ApiServer, api_server, write_kubeconfig

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests/registrations/recorder.py"
IDENTITY = "a" * 32
"""The identity of the engine's state, which an `up` would otherwise choose at random."""
EXAMPLES = """
examples:
  python -m tests.registrations 48de222              that commit and the files of this checkout
  python -m tests.registrations main HEAD -s dev     two commits, and one environment
"""

Registrations = Mapping[str, Mapping[str, Any]]
"""Registrations by URN."""


def main(words: Sequence[str] | None = None) -> int:
    """Print a unified diff of the registrations. Returns 1 if any differ."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.registrations",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", help="a commit")
    parser.add_argument("new", nargs="?", help="a commit; by default the files of this checkout")
    parser.add_argument("-s", "--stack", action="append", help="an environment; by default all that both commits have")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as temporary:
        folders = [
            _checkout(commit, Path(temporary) / name) for name, commit in (("old", given.old), ("new", given.new))
        ]
        both = sorted(_stacks(folders[0]) & _stacks(folders[1]))
        differing = 0
        for stack in given.stack or both:
            old, new = _recorded(folders, stack, Path(temporary) / "api")
            lines = list(differences(old, new))
            differing += bool(lines)
            print(f"{stack}: {len(new)} resources, {'different' if lines else 'equal'}", *lines, sep="\n", flush=True)
    return int(bool(differing))


def differences(old: Registrations, new: Registrations) -> Iterator[str]:
    """Yield the differences as a unified diff of each resource's registration."""
    for urn in sorted({*old, *new}):
        before, after = (_lines(found.get(urn)) for found in (old, new))
        yield from difflib.unified_diff(before, after, f"old {urn}", f"new {urn}", n=2, lineterm="")


def _lines(registration: Mapping[str, Any] | None) -> list[str]:
    return [] if registration is None else json.dumps(registration, indent=1, sort_keys=True).splitlines()


def _checkout(commit: str | None, folder: Path) -> Path:
    """Unpack the files of a commit or of this checkout. Without history, runs are recorded without a commit."""
    folder.mkdir()
    if commit is None:
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=True,
        )
        present = b"\0".join(
            name for name in listed.stdout.split(b"\0") if name and (ROOT / os.fsdecode(name)).exists()
        )
        packed = subprocess.run(
            ["tar", "-C", str(ROOT), "--null", "-T", "-", "-cf", "-"], input=present, capture_output=True, check=True
        )
    else:
        packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True)
    subprocess.run(["tar", "-C", str(folder), "-xf", "-"], input=packed.stdout, check=True)
    (folder / ".trainstack").mkdir()
    # The releases of operators, which the programs only read.
    (folder / ".trainstack/manifests").symlink_to(ROOT / ".trainstack/manifests")
    return folder


def _stacks(folder: Path) -> set[str]:
    return {path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in folder.glob("Pulumi.*.yaml")}


def _recorded(folders: Sequence[Path], stack: str, state: Path) -> list[Registrations]:
    """Return the registrations of each checkout for an environment, on the same cluster."""
    with _cluster(folders, stack, state) as (kubeconfig, uids):
        return [_record(folder, stack, kubeconfig, uids) for folder in folders]


@contextmanager
def _cluster(folders: Sequence[Path], stack: str, state: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Run an API server with the namespaces that the environment expects; yields kubeconfig and namespace UIDs."""
    sections = [yaml.safe_load((folder / f"Pulumi.{stack}.yaml").read_text())["config"] for folder in folders]
    existing = {
        name
        for section in sections
        for name in section.get("trainstack:environment", {}).get("existing", {}).get("namespaces", ())
    }
    contexts = {section.get("trainstack:cluster", {}).get("context") for section in sections} - {None}
    with api_server(state) as server:
        for name in sorted(existing - _namespaces(server).keys()):
            server.make_namespace(name)
        access = server.access()
        names = sorted(contexts) or ["registrations"]
        yield write_kubeconfig(state / "all.kubeconfig", dict.fromkeys(names, access), names[0]), _namespaces(server)


def _namespaces(server: ApiServer) -> dict[str, str]:
    listed = server.get("/api/v1/namespaces")
    assert listed is not None
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in listed["items"]}


def _record(folder: Path, stack: str, kubeconfig: Path, uids: Mapping[str, str]) -> Registrations:
    words = [sys.executable, str(RECORD), str(folder), stack, IDENTITY, json.dumps(uids)]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(folder)}
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the program of {folder.name} failed for {stack}:\n{done.stderr}")
    return {registration["urn"]: registration for registration in json.loads(done.stdout)}


if __name__ == "__main__":
    raise SystemExit(main())
