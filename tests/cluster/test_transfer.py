"""Files through real loaders: what kubectl's streams and the image's programs do to them, and what breaks."""

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
from trainstack.cli.transfers import data_loader
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.toolchain import tools
from trainstack.lifecycle.recovery.loaders import loader_troubles, waiting_loaders
from trainstack.live.loaders import read_loaders
from trainstack.runs.manifests.data_loader import CONTAINER
from trainstack.settings.model import Cluster as ClusterSection
from trainstack.settings.model import Loader as LoaderSection
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Resources
from trainstack.transfer import loader as loader_module
from trainstack.transfer.chunks import CHUNK
from trainstack.transfer.fetch import fetch
from trainstack.transfer.kubectl import kubectl
from trainstack.transfer.loader import Loader, loader_job
from trainstack.transfer.local_files import PARTIAL
from trainstack.transfer.upload import upload
from trainstack.transfer.volume_files import list_files

pytestmark = pytest.mark.cluster

NAMESPACE = VOLUME = "transfer"
WHOLE = {"cpu": "1", "memory": "1Gi"}
SETTINGS = Settings(
    stack="transfer",
    # A core of its own: else whoever else is on the machine decides how fast the far side hashes.
    cluster=ClusterSection(loader=LoaderSection(resources=Resources(requests=WHOLE, limits=WHOLE))),
)
SMALL = Settings(stack="transfer")
"""A loader as it is by default: beside the other one here, and what else runs, the node has no whole core left."""
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


def run(*words: str, given: Any = None) -> bytes:
    """Plain kubectl, which has to succeed."""
    done = kubectl(*words, stdin=None if given is None else json.dumps(given).encode())
    assert done.returncode == 0, done.stderr
    return done.stdout


def create(kind: str, name: str, spec: dict[str, Any], version: str = "v1", **metadata: str) -> None:
    """An object of this name."""
    run(
        "create",
        "-f",
        "-",
        given={
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        },
    )


def jobs() -> list[str]:
    """The loaders that there are."""
    found = reader(Path(os.environ["KUBECONFIG"])).list("jobs", NAMESPACE)
    return [f"job.batch/{body['metadata']['name']}" for body in found]


@pytest.fixture(scope="module")
def volume(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder behind the claim `data`."""
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    folder = tmp_path_factory.mktemp("volume")
    folder.chmod(0o777)
    modes = {"accessModes": ["ReadWriteMany"], "storageClassName": "manual"}
    asked = {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": VOLUME}
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
    create("PersistentVolumeClaim", "data", {**modes, **asked}, namespace=NAMESPACE)
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
    """A loader in front of it; no queue has to let it in."""
    with data_loader(SETTINGS, NAMESPACE, "data") as made:
        yield made


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one big file."""
    folder = tmp_path_factory.mktemp("big")
    (folder / "model of -\xe4.pt").write_bytes(os.urandom(SIZE))
    return folder


def contents(folder: Path) -> dict[Path, bytes | None]:
    """What lies in a folder: the content of files, None for folders."""
    return {path.relative_to(folder): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def arrived(folder: Path) -> int:
    """The bytes of a file that is not there whole."""
    try:
        return sum(path.stat().st_size for path in (folder / PARTIAL).iterdir())
    except FileNotFoundError:
        return 0


def kubectl_of_ours() -> int:
    """The process that the bytes go through."""
    for name in Path("/proc").glob("[0-9]*"):
        try:
            words = (name / "cmdline").read_bytes().split(b"\0")
            if b"exec" in words and f"PPid:\t{os.getpid()}\n" in (name / "status").read_text():
                return int(name.name)
        except OSError:
            continue
    raise AssertionError("no kubectl runs")


def first_process(pod: str) -> int:
    """The first process of a loader's container, with which all others in it end."""
    uid = run("get", "pod", "-n", NAMESPACE, pod, "-o", "jsonpath={.metadata.uid}").decode()
    for name in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            of_pod = uid in (name / "cgroup").read_text().replace("_", "-")
            if of_pod and b"trap end TERM" in (name / "cmdline").read_bytes():
                return int(name.name)
    raise AssertionError(f"no process of {pod}")


def until_arrived(folder: Path, size: int, seconds: float = 120) -> None:
    """Wait for so many bytes; looks often, since all of them may be there within two seconds."""
    end = time.monotonic() + seconds
    while arrived(folder) < size:
        assert time.monotonic() < end, f"not within {seconds} s: {size} bytes in {folder}"
        time.sleep(0.02)


@contextmanager
def cutting(folder: Path, cuts: dict[int, Callable[[], None]]) -> Iterator[None]:
    """Do each of these once so many bytes have arrived in the folder, while the block runs."""
    failed: list[BaseException] = []

    def watch() -> None:
        try:
            for size, cut in cuts.items():
                until_arrived(folder, size)
                cut()
        except BaseException as error:  # noqa: BLE001 - it is asserted on in the test's own thread
            failed.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    thread.join()
    assert failed == []


def test_files_survive_both_ways(loader: Loader, volume: Path, tmp_path: Path) -> None:
    """Odd names, also no text and words of ours; empty files and folders; more names than a URL takes.

    A folder lost+found that the loader may not read is left out at the root of the volume alone.
    """
    source = tmp_path / "source"
    (source / "nothing").mkdir(parents=True)
    odd = ["-rf", " two  spaces ", "'\"$(x)`;*", "a\rb\u2028c", "back\\slash", "n" * 250, os.fsdecode(b"caf\xe9")]
    odd += ["list of folders", "log files/", " files\n", "a\nb", "\n folders\n", "lost+found/", "- end\\n"]
    for name in [each for each in odd if each.endswith("/")]:
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


def test_hard_links_and_a_log_that_is_written_to(loader: Loader, volume: Path, tmp_path: Path) -> None:
    """Links of one file arrive as files; what an active run writes meanwhile is told, and is no fault."""
    (volume / "run").mkdir()
    (volume / "run" / "a").write_text("x\n")
    os.link(volume / "run" / "a", volume / "run" / "b")
    with subprocess.Popen(["sh", "-c", "while :; do echo more >> log; done"], cwd=volume / "run") as writer:
        try:
            eventually("a log", (volume / "run" / "log").exists)
            brought = fetch(loader, "run", tmp_path / "run")
        finally:
            writer.kill()
    assert (brought.sent, brought.changed) == (3, ("log",))
    assert (tmp_path / "run" / "a").read_text() == (tmp_path / "run" / "b").read_text() == "x\n"


def survives(loader: Loader, volume: Path, source: Path, target: Path, size: int) -> None:
    """A big file goes both ways; each time kubectl is killed on the way, and later the loader."""

    def kill_kubectl() -> None:
        os.kill(kubectl_of_ours(), signal.SIGKILL)

    def cuts() -> dict[int, Callable[[], None]]:
        # Told to end it would let the transfer finish, where that does not take long.
        process = first_process(loader.pod)
        return {size * 3 // 8: kill_kubectl, size * 3 // 4: lambda: os.kill(process, signal.SIGKILL)}

    first = loader.pod
    with cutting(volume / source.name, cuts()):
        sent = upload(loader, source, source.name)
    second = loader.pod
    with cutting(target, cuts()):
        fetched = fetch(loader, source.name, target)
    assert len({first, second, loader.pod}) == 3
    (file,) = source.iterdir()
    assert filecmp.cmp(file, volume / source.name / file.name, shallow=False)
    assert filecmp.cmp(file, target / file.name, shallow=False)
    for brought in (sent, fetched):
        # Each cut repeats the chunk under way and the one before it at most; a cut between chunks repeats none.
        assert size <= brought.sent_bytes <= size + 2 * 2 * CHUNK


def test_a_connection_that_is_cut_goes_on_behind_the_last_whole_chunk(
    loader: Loader, volume: Path, big: Path, tmp_path: Path
) -> None:
    """By itself, both ways."""
    survives(loader, volume, big, tmp_path / "target", SIZE)


@pytest.mark.slow
@pytest.mark.parametrize("arms", [uploads, fetches])
def test_two_gigabytes_are_at_least_half_as_fast_as_kubectl_cp(
    arms: Callable[..., AbstractContextManager[Sequence[Arm]]], loader: Loader, tmp_path: Path
) -> None:
    """Though every byte is hashed on both sides."""
    path = f"{tools.kubectl().parent}:{os.environ['PATH']}"
    scene = Scene(folder=ROOT, environment={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}, scratch=tmp_path)
    case = Case(
        id="large",
        title="2 GiB",
        place="cluster",
        arms=partial(arms, loader=loader, count=1, size=2 << 30),
        measure="wall",
        rounds=3,
        warm_up=False,
    )
    assert measured(case, scene, print).ratios["kubectl cp"] <= 2


@pytest.mark.slow
def test_two_gigabytes_survive_the_same_cuts(loader: Loader, volume: Path, tmp_path: Path) -> None:
    """A file of many chunks."""
    write_files(tmp_path / "source", 1, 2 << 30)
    survives(loader, volume, tmp_path / "source" / "part-0", tmp_path / "target", 2 << 30)


def upload_command(folder: Path, environment: str, source: Path, place: str) -> tuple[list[str], dict[str, str]]:
    """The words and the variables of `trainstack upload` in a project of this environment in a folder."""
    for name in ("Pulumi.yaml", "defaults.yaml", "workloads", "trainstack"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "Pulumi.transfer.yaml").write_text(environment)
    words = [sys.executable, "-m", "trainstack.cli", "upload", str(source), f"data:{place}", "-s", "transfer", "--json"]
    return words, {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("stop", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_command_that_is_stopped_leaves_no_loader_and_the_next_goes_on(
    volume: Path, big: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    """By Ctrl-C, or from outside."""
    place = f"stopped-{stop.name.lower()}"
    words, environment = upload_command(tmp_path, ENVIRONMENT, big, place)
    started = len(jobs())
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        until_arrived(volume / place, 2 * CHUNK)
        process.send_signal(stop)
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(30) == 128 + stop, said
    assert "the same command resumes the transfer" in said
    eventually("no loader of it", lambda: len(jobs()) == started)

    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["resumed_bytes"] >= CHUNK
    assert result["resumed_bytes"] + result["sent_bytes"] == SIZE
    assert contents(volume / place) == contents(big)


def test_a_loader_whose_command_was_killed_while_it_waited_is_deleted(volume: Path, tmp_path: Path) -> None:
    """Its guard does it, within seconds; where it cannot, `doctor` names the loader, which waits for a queue."""
    (tmp_path / "file").write_text("content")
    words, environment = upload_command(tmp_path, ENVIRONMENT + UNSCHEDULABLE, tmp_path / "file", "killed")
    before = {*jobs()}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as process:
        eventually("a loader that waits", lambda: {*jobs()} - before)
        (made,) = {*jobs()} - before
        # As a queue holds it back: no deadline of a suspended Job counts.
        run("patch", "-n", NAMESPACE, made, "--type=merge", "-p", '{"spec": {"suspend": true}}')
        process.kill()
    eventually("no loader of it", lambda: not {*jobs()} - before)

    left = loader_job(SMALL, NAMESPACE, "data", "loader-held")
    left["spec"]["suspend"] = True
    run("create", "-f", "-", given=left)
    try:
        (held,) = waiting_loaders(read_loaders("transfer", [NAMESPACE], None))
        (trouble,) = loader_troubles([held], held.created + timedelta(minutes=1))
        assert (trouble.id, trouble.what) == ("loader-waiting", f"Job {NAMESPACE}/loader-held")
    finally:
        run("delete", "job", "-n", NAMESPACE, "loader-held")


def test_a_loader_that_is_told_to_end_lets_what_runs_in_it_finish(volume: Path) -> None:
    """For a few seconds: what gives back its part of a file has to come to that."""
    with data_loader(SMALL, NAMESPACE, "data") as ending:
        script = 'cd "$1"; : > begun; while [ ! -e told ]; do sleep 0.1; done; sleep 2; : > finished'
        with subprocess.Popen(ending.command(script, ".")) as process:
            eventually("a program in it", (volume / "begun").exists)
            run("delete", "pod", "-n", NAMESPACE, ending.pod, "--wait=false")
            (volume / "told").touch()
            process.wait(60)
    assert (volume / "finished").exists()


def test_a_loader_that_is_left_behind_ends_by_itself(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while something goes through it; and it is one that a service's admission rules accept."""
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
    monkeypatch.setattr(loader_module, "LOOK_SECONDS", 1)
    plain, tenant = (loader_job(each, NAMESPACE, "data", "loader-left") for each in (SMALL, settings))
    try:
        eventually(
            "the rules",
            lambda: kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(plain).encode()).returncode,
        )
        accepted = json.loads(run("create", "--dry-run=server", "-o", "json", "-f", "-", given=tenant))
    finally:
        run("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "transfer-jobs")
    assert accepted["metadata"]["name"].startswith("lightweight-job-")
    # The one without a queue: where Kueue is, it would hold the other back, since there is no such queue.
    dry = ("create", "--dry-run=server", "-f", "-")
    eventually("no rules", lambda: kubectl(*dry, stdin=json.dumps(plain).encode()).returncode == 0)
    job = json.loads(run("create", "-o", "json", "-f", "-", given=plain))["metadata"]["name"]
    run("wait", "-n", NAMESPACE, f"job/{job}", "--for=jsonpath={.status.ready}=1", "--timeout=60s")
    began = time.monotonic()
    run("exec", "-n", NAMESPACE, f"job/{job}", "-c", CONTAINER, "--", "sleep", "13")
    assert time.monotonic() - began >= 13
    eventually("the loader's end", lambda: f"job.batch/{job}" not in jobs(), 60)
