"""Transfers through real loaders: odd file names, cut streams, stopped commands and abandoned loaders."""

import filecmp
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.case import Arm, Case, Scene
from bench.cases.transfers import fetches, uploads, write_files
from bench.runner import run as measured
from tests.cluster.project import ROOT, eventually
from tests.cluster.reader import reader
from tests.copies import copy_into
from trainstack.cli.transfers import data_loader
from trainstack.lifecycle.recovery.loaders import find_waiting_loaders, loader_problems
from trainstack.live.loaders import read_loaders
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.runs.manifests.data_loader import LOADER_CONTAINER
from trainstack.settings.model import Cluster as ClusterSection
from trainstack.settings.model import Loader as LoaderSection
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Resources
from trainstack.toolchain import tools
from trainstack.transfer import loader as loader_module
from trainstack.transfer.chunks import CHUNK_BYTES
from trainstack.transfer.fetch import fetch
from trainstack.transfer.kubectl import run_kubectl
from trainstack.transfer.loader import Loader, loader_job
from trainstack.transfer.local_files import PARTIAL
from trainstack.transfer.upload import upload
from trainstack.transfer.volume_files import list_files

pytestmark = pytest.mark.cluster

NAMESPACE = VOLUME = "transfer"
WHOLE = {"cpu": "1", "memory": "1Gi"}
SETTINGS = Settings(
    stack="transfer",
    # A whole core, so that other processes on the machine do not slow down the loader's hashing.
    cluster=ClusterSection(loader=LoaderSection(resources=Resources(requests=WHOLE, limits=WHOLE))),
)
SMALL = Settings(stack="transfer")
"""The default loader: in addition to the loader above and other pods, the node has no whole core."""
SIZE = 128 << 20
ENVIRONMENT = """config:
  trainstack:storage:
    volumes:
      - {name: data, namespace: transfer, storageClass: manual, size: 1Gi, accessModes: [ReadWriteMany]}
"""
UNSCHEDULABLE = """  trainstack:cluster:
    loader: {resources: {requests: {cpu: 1000}, limits: {cpu: 1000}}}
"""
RULES = """
!has(object.metadata.generateName) || !object.metadata.generateName.startsWith('lightweight-job-') ||
!('kueue.x-k8s.io/queue-name' in object.metadata.labels)
"""


def run(*words: str, body: Any = None) -> bytes:
    """Run kubectl, assert that it succeeds, and return its output."""
    done = run_kubectl(*words, stdin=None if body is None else json.dumps(body).encode())
    assert done.returncode == 0, done.stderr
    return done.stdout


def create(kind: str, name: str, spec: dict[str, Any], version: str = "v1", **metadata: str) -> None:
    """Create an object."""
    run(
        "create",
        "-f",
        "-",
        body={
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        },
    )


def jobs() -> list[str]:
    """Return the loaders in the namespace."""
    found = reader(Path(os.environ["KUBECONFIG"])).list("jobs", NAMESPACE)
    return [f"job.batch/{body['metadata']['name']}" for body in found]


@pytest.fixture(scope="module")
def volume(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of the claim `data`."""
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    folder = tmp_path_factory.mktemp("volume")
    folder.chmod(0o777)
    modes = {"accessModes": ["ReadWriteMany"], "storageClassName": "manual"}
    claim = {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": VOLUME}
    create("Namespace", NAMESPACE, {})
    create(
        "PersistentVolume",
        VOLUME,
        {
            **modes,
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": str(folder)},
        },
    )
    create("PersistentVolumeClaim", "data", {**modes, **claim}, namespace=NAMESPACE)
    try:
        yield folder
    finally:
        run("delete", "namespace", NAMESPACE, "--timeout=60s")
        run("delete", "persistentvolume", VOLUME)
        os.environ.pop("KUBECONFIG")
        if before is not None:
            os.environ["KUBECONFIG"] = before


@pytest.fixture(scope="module")
def loader(volume: Path) -> Iterator[Loader]:
    """Yield a loader of the volume, without a queue."""
    with data_loader(SETTINGS, NAMESPACE, "data") as ready:
        yield ready


@pytest.fixture(scope="module")
def large_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one big file."""
    folder = tmp_path_factory.mktemp("big")
    (folder / "model of -\xe4.pt").write_bytes(os.urandom(SIZE))
    return folder


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Return the contents of the files in a folder, and None for its folders."""
    return {path.relative_to(folder): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def partial_bytes(folder: Path) -> int:
    """Return the number of bytes in the partial files of a transfer."""
    try:
        return sum(path.stat().st_size for path in (folder / PARTIAL).iterdir())
    except FileNotFoundError:
        return 0


def kubectl_process() -> int:
    """Return the kubectl process of the current transfer."""
    for name in Path("/proc").glob("[0-9]*"):
        try:
            words = (name / "cmdline").read_bytes().split(b"\0")
            if b"exec" in words and f"PPid:\t{os.getpid()}\n" in (name / "status").read_text():
                return int(name.name)
        except OSError:
            continue
    raise AssertionError("no kubectl runs")


def first_process(pod: str) -> int:
    """Return the first process of a loader's container; all others end with it."""
    uid = run("get", "pod", "-n", NAMESPACE, pod, "-o", "jsonpath={.metadata.uid}").decode()
    for name in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            of_pod = uid in (name / "cgroup").read_text().replace("_", "-")
            if of_pod and b"trap end TERM" in (name / "cmdline").read_bytes():
                return int(name.name)
    raise AssertionError(f"no process of {pod}")


def await_bytes(folder: Path, size: int, seconds: float = 120) -> None:
    """Wait until this many bytes have arrived. It polls often, because a transfer may take only two seconds."""
    end = time.monotonic() + seconds
    while partial_bytes(folder) < size:
        assert time.monotonic() < end, f"not within {seconds} s: {size} bytes in {folder}"
        time.sleep(0.02)


@contextmanager
def connection_cuts(folder: Path, cuts: dict[int, Callable[[], None]]) -> Iterator[None]:
    """While the block runs, call each function once this many bytes have arrived in the folder."""
    failed: list[BaseException] = []

    def watch() -> None:
        try:
            for size, cut in cuts.items():
                await_bytes(folder, size)
                cut()
        except BaseException as error:  # noqa: BLE001 - the test's own thread asserts on it
            failed.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    thread.join()
    assert failed == []


def test_files_survive_upload_and_fetch(loader: Loader, volume: Path, tmp_path: Path) -> None:
    """Odd names, empty files and folders, and more names than fit in a URL.

    Some names are not UTF-8, or look like words of the transfer's protocol. An unreadable folder lost+found is skipped
    only at the root of the volume.
    """
    source = tmp_path / "source"
    (source / "nothing").mkdir(parents=True)
    odd = ["-rf", " two  spaces ", "'\"$(x)`;*", "a\rb\u2028c", "back\\slash", "n" * 250, os.fsdecode(b"caf\xe9")]
    odd += ["list of folders", "log files/", " files\n", "a\nb", "\n folders\n", "lost+found/", "- end\\n"]
    for name in [folder for folder in odd if folder.endswith("/")]:
        (source / name).mkdir()
    odd = [f"{name}a" if name.endswith("/") else name for name in odd]
    for name in [*odd, *(f"{'long' * 20}-{number}" for number in range(1_000))]:
        (source / name).write_bytes(os.fsencode(name))
    (source / "empty").touch()
    (source / "20 MB").write_bytes(os.urandom(20_000_000))
    assert upload(loader, source, "data").sent == 1_016
    assert upload(loader, source, "data").sent == 0

    target = tmp_path / "target"
    assert fetch(loader, "data", target).sent == 1_016
    assert contents(target) == contents(source)
    (volume / "lost+found").mkdir(mode=0o700)
    assert "data/empty" in list_files(loader, ".")
    assert list_files(loader, "nowhere") == {}


def test_hard_links_and_a_growing_log(loader: Loader, volume: Path, tmp_path: Path) -> None:
    """Hard links arrive as files. A file that changes during the transfer is reported without an error."""
    (volume / "run").mkdir()
    (volume / "run" / "a").write_text("x\n")
    os.link(volume / "run" / "a", volume / "run" / "b")
    with subprocess.Popen(["sh", "-c", "while :; do echo more >> log; done"], cwd=volume / "run") as writer:
        try:
            eventually("a log", (volume / "run" / "log").exists)
            fetched = fetch(loader, "run", tmp_path / "run")
        finally:
            writer.kill()
    assert (fetched.sent, fetched.changed) == (3, ("log",))
    assert (tmp_path / "run" / "a").read_text() == (tmp_path / "run" / "b").read_text() == "x\n"


def assert_survives_cuts(loader: Loader, volume: Path, source: Path, target: Path, size: int) -> None:
    """Transfer a big file in both directions; each time, kubectl and later the loader are killed."""

    def kill_kubectl() -> None:
        os.kill(kubectl_process(), signal.SIGKILL)

    def cuts() -> dict[int, Callable[[], None]]:
        # On SIGTERM, the loader would let a short transfer finish.
        process = first_process(loader.pod)
        return {size * 3 // 8: kill_kubectl, size * 3 // 4: lambda: os.kill(process, signal.SIGKILL)}

    first = loader.pod
    with connection_cuts(volume / source.name, cuts()):
        sent = upload(loader, source, source.name)
    second = loader.pod
    with connection_cuts(target, cuts()):
        fetched = fetch(loader, source.name, target)
    assert len({first, second, loader.pod}) == 3
    (file,) = source.iterdir()
    assert filecmp.cmp(file, volume / source.name / file.name, shallow=False)
    assert filecmp.cmp(file, target / file.name, shallow=False)
    for result in (sent, fetched):
        # A cut repeats at most the current chunk and the previous one; a cut between chunks repeats none.
        assert size <= result.sent_bytes <= size + 2 * 2 * CHUNK_BYTES


def test_a_cut_transfer_resumes_after_the_last_complete_chunk(
    loader: Loader, volume: Path, large_folder: Path, tmp_path: Path
) -> None:
    """Uploads and fetches resume without a new command."""
    assert_survives_cuts(loader, volume, large_folder, tmp_path / "target", SIZE)


@pytest.mark.slow
@pytest.mark.parametrize("arms", [uploads, fetches])
def test_two_gigabytes_are_at_least_half_as_fast_as_kubectl_cp(
    arms: Callable[..., AbstractContextManager[Sequence[Arm]]], loader: Loader, tmp_path: Path
) -> None:
    """Both sides also hash every byte."""
    path = f"{tools.kubectl().parent}:{os.environ['PATH']}"
    scene = Scene(folder=ROOT, environment={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}, scratch=tmp_path)
    case = Case(
        id="large",
        title="2 GiB",
        subject="transfers",
        place="cluster",
        arms=partial(arms, loader=loader, count=1, size=2 << 30),
        measure="wall",
        rounds=3,
        warm_up=False,
    )
    assert measured(case, scene, print).ratios["kubectl cp"] <= 2


@pytest.mark.slow
def test_two_gigabytes_survive_the_same_cuts(loader: Loader, volume: Path, tmp_path: Path) -> None:
    """The file has many chunks."""
    write_files(tmp_path / "source", 1, 2 << 30)
    assert_survives_cuts(loader, volume, tmp_path / "source" / "part-0", tmp_path / "target", 2 << 30)


def upload_command(folder: Path, environment: str, source: Path, place: str) -> tuple[list[str], dict[str, str]]:
    """Create a project with this environment, and return the words and variables of `trainstack upload`."""
    copy_into(folder, "Pulumi.yaml", "defaults.yaml", "workloads")
    (folder / "Pulumi.transfer.yaml").write_text(environment)
    words = [sys.executable, "-m", "trainstack.cli", "upload", str(source), f"data:{place}", "-s", "transfer", "--json"]
    return words, {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("stop", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_stopped_command_deletes_its_loader_and_the_next_one_resumes(
    volume: Path, large_folder: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM stop the command."""
    place = f"stopped-{stop.name.lower()}"
    words, environment = upload_command(tmp_path, ENVIRONMENT, large_folder, place)
    started = len(jobs())
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        await_bytes(volume / place, 2 * CHUNK_BYTES)
        process.send_signal(stop)
        assert process.stderr is not None
        stderr = process.stderr.read()
        assert process.wait(30) == 128 + stop, stderr
    assert "the same command resumes the transfer" in stderr
    eventually("no loader of it", lambda: len(jobs()) == started)

    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["resumed_bytes"] >= CHUNK_BYTES
    assert result["resumed_bytes"] + result["sent_bytes"] == SIZE
    assert contents(volume / place) == contents(large_folder)


def test_the_guard_deletes_the_waiting_loader_of_a_killed_command(volume: Path, tmp_path: Path) -> None:
    """It does so within seconds. If it cannot, `doctor` names the loader, which waits in a queue."""
    (tmp_path / "file").write_text("content")
    words, environment = upload_command(tmp_path, ENVIRONMENT + UNSCHEDULABLE, tmp_path / "file", "killed")
    before = {*jobs()}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as process:
        eventually("a loader that waits", lambda: {*jobs()} - before)
        (job,) = {*jobs()} - before
        # As in a queue: the deadlines of a suspended Job do not count.
        run("patch", "-n", NAMESPACE, job, "--type=merge", "-p", '{"spec": {"suspend": true}}')
        process.kill()
    eventually("no loader of it", lambda: not {*jobs()} - before)

    abandoned = loader_job(SMALL, NAMESPACE, "data", "loader-held")
    abandoned["spec"]["suspend"] = True
    run("create", "-f", "-", body=abandoned)
    try:
        (held,) = find_waiting_loaders(read_loaders("transfer", [NAMESPACE], None))
        (problem,) = loader_problems([held], held.created + timedelta(minutes=1))
        assert (problem.id, problem.what) == ("loader-waiting", f"Job {NAMESPACE}/loader-held")
    finally:
        run("delete", "job", "-n", NAMESPACE, "loader-held")


def test_a_terminating_loader_lets_its_program_finish(volume: Path) -> None:
    """It waits for a few seconds, so that a script can release its incomplete file."""
    with data_loader(SMALL, NAMESPACE, "data") as ending:
        script = 'cd "$1"; : > begun; while [ ! -e told ]; do sleep 0.1; done; sleep 2; : > finished'
        with subprocess.Popen(ending.command(script, ".")) as process:
            eventually("a program in it", (volume / "begun").exists)
            run("delete", "pod", "-n", NAMESPACE, ending.pod, "--wait=false")
            (volume / "told").touch()
            process.wait(60)
    assert (volume / "finished").exists()


def test_an_abandoned_loader_ends_by_itself(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not end during a transfer, and the admission rules of a service accept it."""
    create(
        "ValidatingAdmissionPolicy",
        "transfer-jobs",
        {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
                ]
            },
            "validations": [{"expression": f"!({RULES.strip()})", "message": "not as the service wants it"}],
        },
        version="admissionregistration.k8s.io/v1",
    )
    create(
        "ValidatingAdmissionPolicyBinding",
        "transfer-jobs",
        {
            "policyName": "transfer-jobs",
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}},
        },
        version="admissionregistration.k8s.io/v1",
    )
    chosen = LoaderSection(name="lightweight-job", naming="generated", queue="transfer-user-queue")
    settings = Settings(stack="transfer", cluster=ClusterSection(loader=chosen))
    monkeypatch.setattr(loader_module, "IDLE_SECONDS", 10)
    monkeypatch.setattr(loader_module, "IDLE_CHECK_SECONDS", 1)
    plain, tenant = (
        loader_job(loader_settings, NAMESPACE, "data", "loader-left") for loader_settings in (SMALL, settings)
    )
    try:
        eventually(
            "the rules",
            lambda: run_kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(plain).encode()).returncode,
        )
        accepted = json.loads(run("create", "--dry-run=server", "-o", "json", "-f", "-", body=tenant))
    finally:
        run("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "transfer-jobs")
    assert accepted["metadata"]["name"].startswith("lightweight-job-")
    # The loader without a queue: Kueue would hold back the other one, because its queue does not exist.
    dry = ("create", "--dry-run=server", "-f", "-")
    eventually("no rules", lambda: run_kubectl(*dry, stdin=json.dumps(plain).encode()).returncode == 0)
    job = json.loads(run("create", "-o", "json", "-f", "-", body=plain))["metadata"]["name"]
    run("wait", "-n", NAMESPACE, f"job/{job}", "--for=jsonpath={.status.ready}=1", "--timeout=60s")
    began = time.monotonic()
    run("exec", "-n", NAMESPACE, f"job/{job}", "-c", LOADER_CONTAINER, "--", "sleep", "13")
    assert time.monotonic() - began >= 13
    eventually("the loader's end", lambda: f"job.batch/{job}" not in jobs(), 60)
