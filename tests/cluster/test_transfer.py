"""Files through a real pod: what kubectl's streams and the helper image's programs do to them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.kubectl import kubectl
from cli.loader import MOUNT, Loader
from cli.transfer import Fetched, fetch, remote_digests, upload
from devcluster.cluster import Cluster
from tests.cluster.project import eventually
from workloads.data_loader import CONTAINER, WAIT

pytestmark = pytest.mark.cluster

POD = "transfer"
SECURITY = {
    "runAsUser": 1000,
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
def loader(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loader]:
    """A pod like a data loader's, on a volume of its own: no queue has to let it in."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    container = {
        "name": CONTAINER,
        "image": "busybox:1.35",
        "command": list(WAIT),
        "securityContext": SECURITY,
        "volumeMounts": [{"name": "volume", "mountPath": MOUNT}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD, "namespace": "default"},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "volume", "emptyDir": {}}],
            "securityContext": {"fsGroup": 1000},
        },
    }
    try:
        made = kubectl("create", "-f", "-", stdin=json.dumps(pod).encode())
        assert made.returncode == 0, made.stderr
        ready = kubectl("wait", "-n", "default", f"pod/{POD}", "--for=condition=Ready", "--timeout=120s")
        assert ready.returncode == 0, ready.stderr
        yield Loader("default", POD, None)
    finally:
        kubectl("delete", "pod", "-n", "default", POD, "--ignore-not-found")


def contents(folder: Path) -> dict[Path, bytes | None]:
    """What lies in a folder: the content of files, None for folders."""
    return {path.relative_to(folder): None if path.is_dir() else path.read_bytes() for path in folder.iterdir()}


def test_files_survive_both_ways(loader: Loader, tmp_path: Path) -> None:
    """Odd names, also no text; empty files and folders; a big file; more names than a URL takes."""
    source = tmp_path / "source"
    (source / "nothing").mkdir(parents=True)
    odd = ["-rf", " two  spaces ", "'\"$(x)`;*", "a\rb\u2028c", "back\\slash", "n" * 250, os.fsdecode(b"caf\xe9")]
    for name in [*odd, *(f"{'long' * 20}-{number}" for number in range(1_000))]:
        (source / name).write_bytes(os.fsencode(name))
    (source / "empty").touch()
    (source / "big").write_bytes(os.urandom(20_000_000))
    assert upload(loader, source, "data") == 1_009
    assert upload(loader, source, "data") == 0

    target = tmp_path / "target"
    assert fetch(loader, "data", target) == Fetched(sent=1_009)
    assert contents(target) == contents(source)
    assert remote_digests(loader, "nowhere") == {}


def test_hard_links_and_a_log_that_is_written_to(loader: Loader, tmp_path: Path) -> None:
    """Links of one file arrive as files; what an active run writes meanwhile is told, and is no fault."""
    writer = "while :; do echo more >> log; done"
    script = f'set -e; mkdir -p "$1"; cd "$1"; echo x > a; ln a b; ({writer}) </dev/null >/dev/null 2>&1 &'
    done = kubectl("exec", "-n", "default", POD, "--", "sh", "-c", script, "sh", f"{MOUNT}/run")
    assert done.returncode == 0, done.stderr
    eventually("a log", lambda: "log" in remote_digests(loader, "run"))
    assert fetch(loader, "run", tmp_path / "run") == Fetched(sent=3, changed=("log",))
    assert (tmp_path / "run" / "a").read_text() == (tmp_path / "run" / "b").read_text() == "x\n"
