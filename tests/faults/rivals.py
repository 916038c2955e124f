"""Pods that want the same run, as processes: who trains what, who publishes, by the record itself."""

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
"""Of silence, until a holder counts as dead."""
SILENT = {"TRAINSTACK_HEARTBEAT_SECONDS": "1000"}
"""Of a holder that gives no sign of life, though it works: its volume hangs, say."""

TRAINS = """\
import json, os, signal, sys, time, zlib
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
"""
"""A training program: each epoch depends on the one before, each leaves a checkpoint, and all that were begun stand in
the checkpoints' folder; so does, beside each attempt's output, which folder that is."""
COMMAND = [sys.executable, "-S", "-E", "-c", TRAINS, str(EPOCHS), "0.02"]


@dataclass(frozen=True)
class Kind:
    """What the pod that records is told, by our manifests and by the controllers of its kind."""

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
    """What the pods of a batch mount: the second trial is the run."""
    entry = {"number": 1, "id": "a", "parameters": {}, "args": [], "env": {}}
    trials = [{**entry, "run_id": "digits-00000000a0"}, {**entry, "run_id": TRIAL_ID, "number": 2}]
    file = folder / "trials.json"
    file.write_text(json.dumps({"objective": None, "trials": trials}))
    return file


class Rivals:
    """Everybody who wants one run, on one volume."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, KINDS[kind]
        folder.mkdir(parents=True)
        self.record = folder / "runs" / self.kind.record
        self.batch = (
            {"TRAINSTACK_TRIALS": str(batch_file(folder))} if "TRAINSTACK_SWEEP" in self.kind.environment else {}
        )
        self.pods: list[subprocess.Popen[bytes]] = []
        self.deaths = 0
        self.patience = STALE_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pod in self.pods:
            self.signal(pod, signal.SIGKILL)
            pod.wait(DEADLINE_SECONDS)

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """One more pod of one more launch."""
        number = len(self.pods) + 1
        own = {
            "PATH": os.environ["PATH"],
            "TRAINSTACK_RUN_ID": RUN_ID,
            "TRAINSTACK_LAUNCH": f"{RUN_ID}-{number:06d}",
            "TRAINSTACK_POD": f"pod-{number}",
            "TRAINSTACK_RECORD": str(self.folder / "runs"),
            "TRAINSTACK_HEARTBEAT_SECONDS": "0.05",
            "TRAINSTACK_STALE_SECONDS": self.patience,
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
        """To the pod's processes, all at once, as far as there still are any."""
        try:
            os.killpg(pod.pid, number)
        except ProcessLookupError:
            return

    def ended(self, pod: subprocess.Popen[bytes]) -> int:
        """Its exit code. What a pod that was killed leaves of its processes is gone then."""
        code = pod.wait(DEADLINE_SECONDS)
        if code == -signal.SIGKILL:
            self.signal(pod, signal.SIGKILL)
            self.deaths += 1
        return code

    def finish(self) -> None:
        """The pod that Kubernetes starts in the end, whatever has become of the others, comes to the end of the run."""
        assert self.ended(self.start()) == 0, self.told()

    def told(self) -> str:
        """What the pods have said."""
        return "".join(f"{file.name}:\n{file.read_text()}" for file in sorted(self.folder.glob("pod-*.log")))

    def publications(self) -> int:
        """How many attempts have published: those whose output is not theirs any more."""
        attempts = [folder for folder in (self.record / "attempts").iterdir() if (folder / "trains").exists()]
        return sum(not (folder / "output").exists() for folder in attempts)

    def trained(self) -> list[int]:
        """The epochs that were begun, in order."""
        return [int(line) for line in (self.record / "checkpoints" / "trained").read_text().split()]

    def result(self) -> dict[str, Any]:
        """What is published, with its folder's identity."""
        files = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.record / "result").iterdir()
        }
        return {"folder": (self.record / "result").stat().st_ino, **files}

    def check(self) -> None:
        """One attempt published, whole, what an undisturbed run would have; and the record says which."""
        assert self.publications() == 1, self.told()
        text = (self.record / "run.json").read_bytes()
        told = json.loads(text)
        assert told["state"] == "succeeded"
        attempt = self.record / "attempts" / told["attempt"]
        assert int((attempt / "trains").read_text()) == (self.record / "result").stat().st_ino
        assert (
            json.loads((self.record / "_SUCCESS").read_bytes())["run_json_sha256"] == hashlib.sha256(text).hexdigest()
        )
        metrics = (self.record / "result" / "metrics.jsonl").read_bytes()
        assert metrics == METRICS
        assert told["files"]["result/metrics.jsonl"]["sha256"] == hashlib.sha256(metrics).hexdigest()


def undisturbed(epochs: int) -> bytes:
    """What the training program writes when nothing comes in between, worked out here."""
    lines, loss = [], 7
    for epoch in range(1, epochs + 1):
        loss = zlib.crc32(str(loss).encode())
        lines.append(json.dumps({"epoch": epoch, "loss": loss}) + "\n")
    return "".join(lines).encode()


METRICS = undisturbed(EPOCHS)


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; fails after the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def stopped(pod: subprocess.Popen[bytes]) -> bool:
    """Whether a pod's wrapper is stopped, or has ended before it could be."""
    if pod.poll() is not None:
        return True
    return Path(f"/proc/{pod.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
