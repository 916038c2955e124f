"""Processes that act as competing pods of one run, and checks of what the run's record contains."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

WRAPPER = Path(__file__).parents[2] / "trainstack" / "runs" / "wrapper" / "run.py"
FAULTY = Path(__file__).with_name("faulty.py")
EPOCHS = 6
DEADLINE_SECONDS = 60
RUN_ID = "digits-0123456789"
TRIAL_ID = "digits-00000000a1"
STALE_SECONDS = "0.4"
"""The time without a heartbeat after which a holder counts as dead."""
NO_HEARTBEATS = {"TRAINSTACK_HEARTBEAT_SECONDS": "1000"}
"""The environment of a holder that works but writes no heartbeats, for example because its volume hangs."""

TRAINING_PROGRAM = """\
import json, os, signal, subprocess, sys, time, zlib
epochs, seconds = int(sys.argv[1]), float(sys.argv[2])
folder, output = os.environ["TRAINSTACK_CHECKPOINT"], os.environ["TRAINSTACK_OUTPUT"]
state = folder + "/state.json"
lines = json.load(open(state)) if os.environ["TRAINSTACK_RESUME"] == "1" and os.path.exists(state) else []
with open(os.path.dirname(output) + "/trains", "w") as attempt:
    attempt.write(str(os.stat(output).st_ino))
while len(lines) < epochs:
    epoch = len(lines) + 1
    with open(folder + "/trained", "a") as journal:
        journal.write("%d\\n" % epoch)
    before = lines[-1]["loss"] if lines else 7
    time.sleep(seconds)
    if os.environ.get("FAULT_EPOCH") == str(epoch):
        os.killpg(0, signal.SIGKILL)
    lines.append({"epoch": epoch, "loss": zlib.crc32(b"%d" % before)})
    with open("%s/.state.%d" % (folder, os.getpid()), "w") as file:
        json.dump(lines, file)
    os.replace(file.name, state)
with open(output + "/metrics.jsonl", "w") as file:
    file.writelines(json.dumps(line) + "\\n" for line in lines)
leaves = os.environ.get("LEAVES", "")
if "links" in leaves:
    os.symlink("metrics.jsonl", output + "/last.jsonl")
    os.symlink(state, output + "/state.json")
if "a process" in leaves:
    writes = "import time\\nfor _ in range(150):\\n    print('.', flush=True)\\n    time.sleep(0.01)"
    with open(output + "/log", "w") as log:
        subprocess.Popen([sys.executable, "-c", writes], stdout=log, stdin=subprocess.DEVNULL, start_new_session=True)
"""
"""A training program: each epoch depends on the one before, each leaves a checkpoint, and all that were begun stand in
the checkpoints' folder; so does, beside each attempt's output, which folder that is. It may leave links in its output,
and a process that goes on to write there."""
COMMAND = [sys.executable, "-S", "-E", "-c", TRAINING_PROGRAM, str(EPOCHS), "0.02"]


@dataclass(frozen=True)
class Kind:
    """The environment of the recording pod, from our manifests and from the controller of its kind."""

    environment: Mapping[str, str]
    record: str = RUN_ID
    """Its folder, below `runs/`."""


KINDS = {
    "Job": Kind({}),
    "Job of many runs": Kind({"JOB_COMPLETION_INDEX": "2"}, f"{RUN_ID}/2"),
    "PyTorchJob": Kind({"RANK": "0", "WORLD_SIZE": "3", "PET_NODE_RANK": "0"}),
    "TrainJob": Kind({"PET_NODE_RANK": "0", "PET_NNODES": "3", "JOB_COMPLETION_INDEX": "0"}),
    "JobSet": Kind({"RANK": "0", "WORLD_SIZE": "3", "JOB_COMPLETION_INDEX": "0"}),
    "trial": Kind({"JOB_ID": "3", "TRAINSTACK_RUN_ID": TRIAL_ID}, TRIAL_ID),
    "trial of a batch": Kind({"JOB_COMPLETION_INDEX": "1", "TRAINSTACK_SWEEP": "digits"}, TRIAL_ID),
}


def batch_file(folder: Path) -> Path:
    """Write the file that the pods of a batch mount; the run is its second trial."""
    entry = {"number": 1, "id": "a", "parameters": {}, "args": [], "env": {}}
    trials = [{**entry, "run_id": "digits-00000000a0"}, {**entry, "run_id": TRIAL_ID, "number": 2}]
    file = folder / "trials.json"
    file.write_text(json.dumps({"objective": None, "trials": trials}))
    return file


class CompetingPods:
    """The pods that compete for one run on one volume."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, KINDS[kind]
        folder.mkdir(parents=True)
        self.record = folder / "runs" / self.kind.record
        self.batch = (
            {"TRAINSTACK_TRIALS": str(batch_file(folder))} if "TRAINSTACK_SWEEP" in self.kind.environment else {}
        )
        self.pods: list[subprocess.Popen[bytes]] = []
        self.deaths = 0
        self.stale_seconds = STALE_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pod in self.pods:
            self.signal(pod, signal.SIGKILL)
            pod.wait(DEADLINE_SECONDS)

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """Start a pod of a new launch."""
        number = len(self.pods) + 1
        own = {
            "PATH": os.environ["PATH"],
            "TRAINSTACK_RUN_ID": RUN_ID,
            "TRAINSTACK_LAUNCH": f"{RUN_ID}-{number:06d}",
            "TRAINSTACK_POD": f"pod-{number}",
            "TRAINSTACK_RECORD": str(self.folder / "runs"),
            "TRAINSTACK_HEARTBEAT_SECONDS": "0.05",
            "TRAINSTACK_STALE_SECONDS": self.stale_seconds,
        }
        with (self.folder / f"pod-{number}.log").open("wb") as log:
            pod = subprocess.Popen(
                [sys.executable, str(FAULTY), str(WRAPPER), "--", *COMMAND],
                env={**own, **self.kind.environment, **self.batch, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pods.append(pod)
        return pod

    def signal(self, pod: subprocess.Popen[bytes], number: int) -> None:
        """Send a signal to the remaining processes of the pod."""
        try:
            os.killpg(pod.pid, number)
        except ProcessLookupError:
            return

    def await_exit(self, pod: subprocess.Popen[bytes]) -> int:
        """Wait for the end of the pod and return its exit code; end the remaining processes of a killed pod."""
        code = pod.wait(DEADLINE_SECONDS)
        if code == -signal.SIGKILL:
            self.signal(pod, signal.SIGKILL)
            self.deaths += 1
        return code

    def assert_next_pod_completes(self) -> None:
        """Check that a last pod completes the run, whatever happened to the others."""
        assert self.await_exit(self.start()) == 0, self.logs()

    def logs(self) -> str:
        """Return the logs of the pods."""
        return "".join(f"{file.name}:\n{file.read_text()}" for file in sorted(self.folder.glob("pod-*.log")))

    def publication_count(self) -> int:
        """Return the number of attempts that have published: their output folder is gone."""
        attempts = [folder for folder in (self.record / "attempts").iterdir() if (folder / "trains").exists()]
        return sum(not (folder / "output").exists() for folder in attempts)

    def started_epochs(self) -> list[int]:
        """Return the started epochs, in order."""
        return [int(line) for line in (self.record / "checkpoints" / "trained").read_text().split()]

    def result(self) -> dict[str, Any]:
        """Return the digests of the published files, and the inode of their folder."""
        files = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.record / "result").iterdir()
        }
        return {"folder": (self.record / "result").stat().st_ino, **files}

    def assert_published_once(self) -> None:
        """Check that exactly one attempt published the result of an undisturbed run, and that the record names it."""
        assert self.publication_count() == 1, self.logs()
        text = (self.record / "run.json").read_bytes()
        run_record = json.loads(text)
        assert run_record["state"] == "succeeded"
        attempt = self.record / "attempts" / run_record["attempt"]
        assert int((attempt / "trains").read_text()) == (self.record / "result").stat().st_ino
        assert (
            json.loads((self.record / "_SUCCESS").read_bytes())["run_json_sha256"] == hashlib.sha256(text).hexdigest()
        )
        metrics = (self.record / "result" / "metrics.jsonl").read_bytes()
        assert metrics == METRICS
        recorded = {name: entry for name, entry in run_record["files"].items() if name.startswith("result/")}
        assert self.published_files() == recorded.keys(), self.logs()
        for name, entry in recorded.items():
            file = self.record / name
            assert not file.is_symlink(), f"{name} is a link"
            assert entry["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest(), f"{name} differs"

    def published_files(self) -> set[str]:
        """Return the names of the command's published files, as run.json has them."""
        result = self.record / "result"
        files = [str(path.relative_to(result)) for path in result.rglob("*") if not path.is_dir()]
        return {f"result/{name}" for name in files if name != ".run.json"}


def expected_metrics(epochs: int) -> bytes:
    """Return the metrics that the training program writes in an undisturbed run."""
    lines, loss = [], 7
    for epoch in range(1, epochs + 1):
        loss = zlib.crc32(str(loss).encode())
        lines.append(json.dumps({"epoch": epoch, "loss": loss}) + "\n")
    return "".join(lines).encode()


METRICS = expected_metrics(EPOCHS)


def wait_for(condition: Callable[[], object]) -> None:
    """Wait for a condition, and fail after the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def is_stopped(pod: subprocess.Popen[bytes]) -> bool:
    """Return whether a pod's wrapper is stopped, or has ended before."""
    if pod.poll() is not None:
        return True
    return Path(f"/proc/{pod.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
