"""A broken API server, or a proxy before it: every command ends with exit 5 and one line, never with a traceback."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from tests.unit.live.fake_cluster import (
    OBJECTS,
    FakeCluster,
    fake_cluster,
    good_answer,
    make_config,
    write_project,
)
from tests.unit.live.odd_answers import BROKEN, UNAVAILABLE, answer
from tests.unit.live.plugins import API, make_output, make_user, printing
from tests.unit.live.plugins import runs as plugin_runs
from trainstack.cli import check_cluster, follow
from trainstack.cli.app import app
from trainstack.cli.commands import doctor
from trainstack.components.removal import hold_and_drain
from trainstack.errors import ExitCode
from trainstack.live import api, kubeconfig
from trainstack.live.client import ClusterError, read, read_lists
from trainstack.live.identity import read_cluster_identity
from trainstack.live.logs import LogSource, follow_log
from trainstack.live.rights import missing_right_errors
from trainstack.live.snapshot import read_metadata
from trainstack.live.teardown import read_live_stack
from trainstack.live.volumes import read_mounts, read_volumes
from trainstack.live.worker_clusters import WorkerClients
from trainstack.objects.labels import FIELD_MANAGER
from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.log_merge import Cursor
from trainstack.settings.loading.load import load

JOB, QUEUE = (body for body in OBJECTS.values() if body["kind"] in ("Job", "ClusterQueue"))
COMMANDS = (
    "status",
    "status digits",
    "wait --timeout 0",
    "logs digits",
    "events digits --json",
    "doctor",
    "check --cluster",
    "forecast --cluster",
    "adopt lab --dry-run",
)
ODD = {**BROKEN, **UNAVAILABLE}
SETTINGS = "lab"
READS: Mapping[str, Callable[[Path], object]] = {
    "cluster": lambda root: read_cluster_identity(load(root, SETTINGS)),
    "volumes": lambda root: read_volumes(load(root, SETTINGS)),
    "mounts": lambda _: read_mounts(["lab"], None),
    "metadata": lambda _: read_metadata([JOB], None),
    "teardown": lambda root: read_live_stack(load(root, SETTINGS), retained=()),
    "rights": lambda _: missing_right_errors([JOB], None),
    "drain": lambda _: hold_and_drain(QUEUE | {"metadata": _owned(QUEUE)}, None),
}
"""What the Pulumi program, its hooks and `destroy` read and write."""


def _owned(body: Mapping[str, dict[str, object]]) -> dict[str, object]:
    return {**body["metadata"], "annotations": {FIELD_MANAGER: "m"}}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the project."""
    return write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def cluster(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Run the fake cluster of the project, which is the current folder."""
    with fake_cluster() as server:
        (root / "kubeconfig").write_text(json.dumps(make_config(server.server_port, {"token": "t"})))
        monkeypatch.setenv("KUBECONFIG", str(root / "kubeconfig"))
        monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{root}")
        monkeypatch.chdir(root)
        monkeypatch.setattr(doctor, "export", lambda _: None)
        for name in ("read_image_users", "unread_images", "unserved_images"):
            monkeypatch.setattr(check_cluster, name, lambda *_: ())
        kubeconfig.clear_cache()
        yield server
        kubeconfig.clear_cache()


def invoke(command: str) -> Result:
    """Run a command."""
    name, *words = command.split()
    return CliRunner().invoke(app, [name, "-s", "lab", *words])


def endpoints(cluster: FakeCluster, run: Callable[[], object]) -> list[str]:
    """Return the paths that are requested."""
    cluster.requests.clear()
    run()
    return sorted(set(cluster.requests))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_is_described(cluster: FakeCluster, name: str) -> None:
    """The message has the server, the path or the network's reason, and a remedy; and no control character."""
    path = "/api/v1/namespaces/lab/pods"
    cluster.odd[f"GET {path}"] = BROKEN[name](good_answer(path, "")[1])
    with pytest.raises(ClusterError) as caught:
        read([path], None)
    error = caught.value
    assert error.exit_code == ExitCode.UNREACHABLE
    assert str(error).isprintable()
    assert f"http://127.0.0.1:{cluster.server_port}" in error.message
    assert error.remedy
    if "login page" in name:
        assert f" to {path} with " in error.message
        assert "log in again" in error.remedy


@pytest.mark.parametrize("command", [*COMMANDS, "preview", "wait digits", "logs digits --follow", "status --watch"])
def test_every_command_ends_with_the_reason_of_a_plugin(cluster: FakeCluster, root: Path, command: str) -> None:
    """Also those that would go on without an answer for minutes: only the user can log in."""
    plugin = {"apiVersion": API, "command": "sh", "args": ["-c", "echo 'Token has expired' >&2; exit 255"]}
    (root / "kubeconfig").write_text(json.dumps(make_config(cluster.server_port, {"exec": plugin})))
    result = invoke(command)
    assert fault_of(command, result, cluster) == ""
    assert "exited with 255: Token has expired; log in again, and check that this succeeds: sh -c" in result.output
    assert cluster.requests == []


def test_a_watch_runs_the_plugin_once(
    cluster: FakeCluster, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its reads opens connections."""
    user = make_user(printing(tmp_path, make_output(expires_in=3600)))
    (root / "kubeconfig").write_text(json.dumps(make_config(cluster.server_port, user)))
    pauses = iter(range(4))

    def sleep(_: float) -> None:
        if next(pauses, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("trainstack.cli.commands.status.time", SimpleNamespace(sleep=sleep))
    assert invoke("status --watch").exit_code == 130
    assert cluster.requests.count("GET /version") > 5
    assert plugin_runs(tmp_path) == 1


def fault_of(command: str, result: Result, cluster: FakeCluster) -> str:
    """Return what is wrong with the end of a command that read an answer in vain."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"ends in {result.exception!r:.300}"
    if result.exit_code != ExitCode.UNREACHABLE:
        return f"ends with {result.exit_code}: {result.output[-300:]}"
    lines = [line for line in result.output.splitlines() if f"127.0.0.1:{cluster.server_port}" in line]
    return "" if len(lines) == 1 else f"has {len(lines)} lines about the server: {result.output[-300:]}"


def is_optional(endpoint: str, name: str) -> bool:
    """Return whether a command ends in another way: it shows the rest, or reports a dry run that failed."""
    unavailable = name in UNAVAILABLE or name in ("401", "407")
    may_be_unavailable = endpoint.endswith(("/pendingworkloads", "/stats/summary")) or endpoint.startswith("POST")
    # Only metadata may be read.
    return endpoint.endswith("/log") or name == "no spec" or (unavailable and may_be_unavailable)


@pytest.mark.parametrize("every", [pytest.param(211, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_no_command_ends_in_a_traceback(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """Each endpoint of the commands gives each odd answer, to one of the commands that read it."""
    monkeypatch.setattr(follow, "RETRY_SECONDS", -1)
    readers: dict[str, list[str]] = {}
    for command in COMMANDS:
        for endpoint in endpoints(cluster, partial(invoke, command)):
            readers.setdefault(endpoint, []).append(command)
    cases = [(endpoint, name) for endpoint in readers for name in ODD]
    wrong = []
    for number, (endpoint, name) in enumerate(cases[::every]):
        command = readers[endpoint][number % len(readers[endpoint])]
        cluster.odd = {endpoint: ODD[name](good_body(endpoint))}
        result = invoke(command)
        if is_optional(endpoint, name):
            fault = "ends in a traceback" if not isinstance(result.exception, SystemExit | None) else ""
        else:
            fault = fault_of(command, result, cluster)
        wrong += [f"`{command}` with {name} of {endpoint} {fault}"] if fault else []
    assert not wrong, "\n".join([f"{len(wrong)} faults, the first of them:", *wrong[:10]])


@pytest.mark.parametrize("every", [pytest.param(37, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_no_change_believes_an_odd_answer(cluster: FakeCluster, root: Path, every: int) -> None:
    """Objects that a broken answer leaves out would be created, launched or deleted again."""
    cases = [
        (change, endpoint, name)
        for change in READS
        for endpoint in endpoints(cluster, partial(READS[change], root))
        for name in ODD
    ]
    wrong = []
    for change, endpoint, name in cases[::every]:
        cluster.odd = {endpoint: ODD[name](good_body(endpoint))}
        is_unavailable_group = endpoint == "GET /apis/batch/v1" and (name in UNAVAILABLE or name in ("401", "407"))
        is_review = endpoint.startswith("POST") and name == "created"
        may_succeed = is_unavailable_group or is_review or name == "no spec"
        try:
            READS[change](root)
        except ClusterError as error:
            is_clear = str(error).isprintable() and error.exit_code == ExitCode.UNREACHABLE
            wrong += [] if is_clear else [f"{change} with {name} of {endpoint} ends with {error!r}"]
        else:
            wrong += [] if may_succeed else [f"{change} believes {name} of {endpoint}"]
    assert not wrong, "\n".join([f"{len(wrong)} faults, the first of them:", *wrong[:10]])


def good_body(endpoint: str) -> bytes:
    """Return the body of a working API server's answer to an endpoint."""
    verb, path = endpoint.split()
    return (
        good_answer(path, "")[1]
        if verb == "GET"
        else b'{"kind": "SelfSubjectAccessReview", "status": {"allowed": true}}'
    )


def test_pages_that_never_end(cluster: FakeCluster) -> None:
    """A proxy may drop the query, which has the next page."""
    page = answer(b'{"metadata": {"continue": "x"}, "items": []}')
    cluster.odd["GET /api/v1/nodes"] = page
    with pytest.raises(ClusterError, match="whose next page is itself"):
        read_lists(["/api/v1/nodes?limit=1"], None)


def test_an_answer_that_arrives_by_single_bytes(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read is in time, and the whole is not."""
    monkeypatch.setattr(api, "_COMPLETE_SECONDS", 0.3)
    cluster.drip = "GET /api/v1/nodes"
    with pytest.raises(ClusterError, match=r"no complete answer to /api/v1/nodes within 0\.3 s"):
        read(["/api/v1/nodes"], None)


def test_a_redirect_to_the_same_path_is_followed(cluster: FakeCluster) -> None:
    """As kubectl does: a gateway may redirect to another host. A write is not repeated as a read."""
    other = f"Location: http://localhost:{cluster.server_port}/api/v1/nodes?limit=1"
    cluster.odd["GET /api/v1/nodes"] = answer(b"", "307 Temporary Redirect", other)
    cluster.once = True
    assert read(["/api/v1/nodes?limit=1"], None)["/api/v1/nodes?limit=1"].is_success
    path = "PATCH /apis/kueue.x-k8s.io/v1beta2/clusterqueues/lab"
    cluster.odd[path] = answer(b"", "302 Found", "Location: /apis/kueue.x-k8s.io/v1beta2/clusterqueues/lab")
    with pytest.raises(ClusterError, match=r"answered 302 to .*clusterqueues/lab"):
        READS["drain"](Path())


def test_a_follower_of_a_log_survives_an_odd_stream(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens the stream again."""
    monkeypatch.setattr("trainstack.live.logs._PAUSE_SECONDS", 0.01)
    log, pod = "GET /api/v1/namespaces/lab/pods/p1/log", OBJECTS["/api/v1/namespaces/lab/pods"]
    source = LogSource("lab", "p1", pod["metadata"]["uid"], "training")

    async def follow(name: str) -> None:
        cluster.odd, cluster.once = {log: ODD[name](b"2026-01-02T03:04:05Z one\n" * 9)}, True
        has_resumed = asyncio.Event()

        def show(_: LogSource, line: LogLine) -> None:
            if line.text == "epoch 1/2 loss 0.5":
                has_resumed.set()

        following = asyncio.create_task(follow_log(WorkerClients(load(Path(), "lab")), source, Cursor(), show))
        await asyncio.wait([following, asyncio.create_task(has_resumed.wait())], return_when=asyncio.FIRST_COMPLETED)
        assert has_resumed.is_set(), name
        following.cancel()

    for name in ("a broken chunk", "half a gzip", "no gzip", "no answer", "503", "an unknown encoding", "bytes"):
        asyncio.run(follow(name))
