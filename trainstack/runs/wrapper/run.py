"""Runs a training command as one attempt at a run, and keeps the run's record: `python3 run.py -- COMMAND…`.

The standard library of Python 3.8 is all it needs: it is mounted into images that people bring. It is one file,
however long: one key of a ConfigMap named after this text, which a launch keeps, and which tests and people run alone.

Record of a run, `$TRAINSTACK_RECORD/<run-id>/` (of an indexed Job: `<run-id>/<completion index>/`; of a sweep's, whose
indices are runs of their own, see class Trial, `<run-id>/`):

    run.json       what runs; replaced at the end by the completed one (times, attempts, files with hashes)
    result/        what the command wrote to $TRAINSTACK_OUTPUT (metrics.jsonl, model): all at once, on success, as
                   regular files and folders: a link is replaced by a copy of what it points to
    logs/          rank-<rank>.<pod>-<n>.log: the output of each attempt of each pod
    checkpoints/   $TRAINSTACK_CHECKPOINT, the same for all attempts: the command writes there by rename
    attempts/      <pod>-<n>/output: what is not published; <pod>-<n>/failure.json: exit code and last lines
    claims/        who works, see class Claim
    _SUCCESS       last of all: the run is finished; its JSON has the sha256 of run.json

Only rank 0 (RANK, else PET_NODE_RANK, else 0) reads and writes the record. Other ranks write their log and see the
checkpoints if they have the volume (TRAINSTACK_RECORD is set and can be written), else get folders of their own.

In COMMAND, $TRAINSTACK_OUTPUT, $TRAINSTACK_CHECKPOINT, $TRAINSTACK_RESUME, $TRAINSTACK_RUN_ID and, if there is one,
$TRAINSTACK_SEED are replaced, also as ${...} and $(...) (Kubernetes expands no variable that comes to be in the pod);
any other $TRAINSTACK_... is an error. The command has them in its environment too. TRAINSTACK_RESUME is 1 where
checkpoints/ has a file, else 0.

The image's STOPSIGNAL, which is sent to this process when the pod is deleted, may be any signal that ends a program.
The command gets it if it catches it, else SIGTERM. Processes that the command leaves behind, daemons too, are ended
before the record is completed: they have a second to end by themselves, then get SIGTERM, and later SIGKILL.

Environment:
    TRAINSTACK_RUN_ID, TRAINSTACK_LAUNCH, TRAINSTACK_RECORD
    TRAINSTACK_RUN                JSON object, copied into run.json as "definition"; null in its "command", "args" and
                                  "env" is what the pod has there
    TRAINSTACK_RUN_PART_2, ...    the rest of it, if it is too long for one variable
    TRAINSTACK_SEED               the workload's seed, if it has one
    TRAINSTACK_POD                name of the attempt folders; default: the host name
    TRAINSTACK_DATA               JSON {"path": folder, "manifest": sha256 of its manifest.json}: wait for that data,
    TRAINSTACK_DATA_TIMEOUT       this many seconds at most; default 1800
    TRAINSTACK_HEARTBEAT_SECONDS  between two signs of life of the holder; default 5
    TRAINSTACK_STALE_SECONDS      of silence until another pod takes over; default 60
    TRAINSTACK_TRIALS             of a sweep's indexed Job: the file that tells which run each index is, see class Trial
    TRAINSTACK_SWEEP              with it: the sweep's name
    JOB_COMPLETION_INDEX          set by indexed Jobs; counts where there is no rank

Exit code: the command's (128+n for signal n; 127 if it cannot be started); 0 if the run was finished before; 143 if
a stop signal came before the command ran; 64 wrong environment or arguments; 65 the output cannot be published; 66 data
did not come; 73 the record cannot be written; 75 another pod took the run over; 79 the trial is finished and has not
reached its sweep's target. A trial that is withdrawn ends with 0, or with 79 where its sweep has a target.
"""

from __future__ import annotations  # Python 3.8 cannot evaluate list[str]

import collections
import contextlib
import errno
import hashlib
import json
import math
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

TOKENS = ("TRAINSTACK_OUTPUT", "TRAINSTACK_CHECKPOINT", "TRAINSTACK_RESUME", "TRAINSTACK_RUN_ID")
SEED = "TRAINSTACK_SEED"
TOKEN = re.compile(r"\$(?:\{(TRAINSTACK_\w*)\}|\((TRAINSTACK_\w*)\)|(TRAINSTACK_\w*))", re.ASCII)
"""A variable of ours as a shell or Kubernetes spells it; with an operator of a shell it is left to the shell."""
USAGE, BAD_OUTPUT, NO_DATA, NO_RECORD, TAKEN_OVER, NOT_REACHED, STOPPED = 64, 65, 66, 73, 75, 79, 128 + signal.SIGTERM
LOST = "another pod took this run over while this one was silent: nothing is published here"
WITHDRAWN = "this run is withdrawn, and the change that did so names it to be stopped"
LAST_LINES, LINE_BYTES = 50, 4096
PR_SET_CHILD_SUBREAPER = 36
SAY_EVERY_SECONDS = 30
GRACE_SECONDS = 30
"""From SIGTERM to SIGKILL for a command whose run another pod took over, and for what a stopped command leaves running,
which may be writing a checkpoint. (Of the command of a deleted pod the kubelet takes care.)"""
LEFT_OWN_SECONDS, LEFT_SECONDS, KILLED_SECONDS = 1, 5, 20
"""How long what an ended command leaves running has to end by itself; then after SIGTERM; then after SIGKILL."""
MOST_FAULTS = 10
"""Of those that one message names."""
HASH_ROUNDS = 5
"""How often files that change while they are hashed are hashed again."""
NO_STOP_SIGNALS = {
    *("SIGKILL", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT"),  # not to be caught, or of job control
    *("SIGCHLD", "SIGURG", "SIGWINCH"),  # end no program
    *("SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"),  # faults of this program
}

terminated = threading.Event()
"""Set by a stop signal: SIGTERM, or another one that ends a program, which an image may have as its STOPSIGNAL."""
stop_signals: collections.deque[int] = collections.deque()
"""The stop signals that are not passed on yet."""


class WrapperError(Exception):
    """Ends the wrapper with an exit code and a message that says what, where and how to put it right."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def say(message: str) -> None:
    print(f"trainstack: {message}", flush=True)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def pause(seconds: float) -> None:
    """Waits; raises WrapperError when a stop signal comes meanwhile."""
    reap()  # Process 1 gets the orphans of `kubectl exec` too.
    if terminated.wait(seconds):
        raise WrapperError(STOPPED, f"stopped by {signal_name(stop_signals[0])} before the command ran")


def handle_signals() -> None:
    """Notes stop signals instead of ending. One that is ignored, as SIGHUP under nohup, stays so."""

    def note(number: int, _: object) -> None:
        stop_signals.append(number)
        terminated.set()

    for number in signal.valid_signals():
        if signal_name(number) not in NO_STOP_SIGNALS and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, note)
    # Where it is ignored, the kernel discards exit codes, and subprocess takes every command for a successful one.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # A real-time signal.
        return f"signal {number}"


class Trial:
    """One run of a sweep's indexed Job: the entry that has this pod's completion index in $TRAINSTACK_TRIALS.

    {"objective": {"metric", "direction", "epoch", "target"} or null,
     "trials": [{"run_id", "number", "id", "parameters", "args", "env"}, ...]}

    The entry's args come after the command, its env and JOB_ID, the number, into the command's environment. Beside that
    file may come, while the Job runs, lists of run ids: withdrawn.json, of those that train no more, and stopped.json,
    of those among them whose command is to end.
    """

    def __init__(self, sweep: str, file: Path, index: int | None) -> None:
        self.file = file
        self.stopped = threading.Event()
        try:
            content = json.loads(file.read_bytes())
            entries, self.objective = content["trials"], content["objective"]
            if index is None or index >= len(entries):
                raise WrapperError(USAGE, f"JOB_COMPLETION_INDEX is {index}, and {file} has {len(entries)} trials")
            entry = entries[index]
            self.run_id, self.args = str(entry["run_id"]), list(entry["args"])
            self.env = {**entry["env"], "JOB_ID": str(entry["number"])}
            known = {"number": entry["number"], "id": entry["id"], "parameters": entry["parameters"]}
        except OSError as error:
            raise WrapperError(USAGE, f"TRAINSTACK_TRIALS: {error.strerror}: {file}; the stack mounts it") from None
        except (ValueError, KeyError, TypeError) as error:
            raise WrapperError(USAGE, f"TRAINSTACK_TRIALS: {file} is not as the stack makes it: {error!r}") from None
        self.definition = {"name": sweep, **known}

    def define(self, shared: dict[str, Any]) -> dict[str, Any]:
        """What ran, from what all indices of the Job share."""
        env = {name: value for name, value in self.env.items() if name != "JOB_ID"}
        whole = {"args": [*shared.get("args", ()), *self.args], "env": {**shared.get("env", {}), **env}}
        return {**shared, **whole, "sweep": self.definition}

    def is_in(self, name: str) -> bool:
        """Whether a list beside the file names this run."""
        try:
            return self.run_id in json.loads((self.file.parent / name).read_bytes())
        except (OSError, ValueError, TypeError):
            return False

    def watch(self, seconds: float) -> None:
        """Have `stopped` set once the run is to end, looked for this often."""

        def look() -> None:
            while not self.is_in("stopped.json"):
                time.sleep(seconds)
            self.stopped.set()

        threading.Thread(target=look, daemon=True).start()

    @property
    def aimless(self) -> int:
        """The exit code of a run that trained nothing: the one that reaches a target stops the others."""
        return 0 if self._target is None else NOT_REACHED

    def judge(self, metrics: Path) -> int:
        """The exit code of a finished run, by what it wrote: 79 if it has not reached the target."""
        if self._target is None:
            return 0
        value = objective_value(metrics, self.objective)
        sign = 1 if self.objective["direction"] == "maximize" else -1
        if value is not None and sign * value >= sign * self._target:
            say(f"{self.objective['metric']} {value:g} reaches the target {self._target:g}: no other trial is needed")
            return 0
        reached = "is not told" if value is None else f"{value:g}"
        say(f"{self.objective['metric']} {reached}: not the target {self._target:g}, so others are tried")
        return NOT_REACHED

    @property
    def _target(self) -> float | None:
        return self.objective["target"] if self.objective else None


def objective_value(metrics: Path, objective: Mapping[str, Any]) -> float | None:
    """What a metrics.jsonl tells of the objective; None where it tells nothing. NaN and infinities are nothing."""
    told = []
    try:
        lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError, RecursionError) as error:
        say(f"cannot read {metrics}: {error}")
        lines = []
    for line in lines:
        value = as_finite(line.get(objective["metric"])) if isinstance(line, dict) else None
        if value is not None:
            told.append((line.get("epoch"), value))
    if objective["epoch"] == "best":
        best = max if objective["direction"] == "maximize" else min
        return best((value for _, value in told), default=None)
    if objective["epoch"] == "last":
        return told[-1][1] if told else None
    return next((value for epoch, value in told if epoch == objective["epoch"]), None)


def as_finite(value: Any) -> float | None:
    """The value as a float; None for NaN, infinities, whole numbers beyond a float, and what is no number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


class Settings:
    """The environment, read and checked."""

    def __init__(self, environment: Mapping[str, str], command: Sequence[str] = ()) -> None:
        self.environment = environment
        self.launch = environment.get("TRAINSTACK_LAUNCH", "")
        self.pod = environment.get("TRAINSTACK_POD") or socket.gethostname()
        rank = environment.get("RANK") or environment.get("PET_NODE_RANK")
        self.rank = self._index("the rank", rank or "0")
        # A TrainJob's pods have an index too, but are ranks of one run: an index counts only where there is no rank.
        index = "" if rank else environment.get("JOB_COMPLETION_INDEX", "")
        self.index = self._index("JOB_COMPLETION_INDEX", index) if index else None
        trials = environment.get("TRAINSTACK_TRIALS")
        self.trial = Trial(self._text("TRAINSTACK_SWEEP"), Path(trials), self.index) if trials else None
        self.run_id = self.trial.run_id if self.trial else self._text("TRAINSTACK_RUN_ID")
        names = {"TRAINSTACK_RUN_ID": self.run_id, "TRAINSTACK_POD": self.pod, "JOB_COMPLETION_INDEX": index or "0"}
        for name, value in names.items():
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
                raise WrapperError(USAGE, f"{name} is {value!r}: it names a folder, of letters, digits, '.', '_', '-'")
        root = environment.get("TRAINSTACK_RECORD") or (None if self.rank else self._text("TRAINSTACK_RECORD"))
        self.record = Path(root) / self.run_id / ("" if self.trial else index) if root else None
        try:
            self.definition = completed(self._json("TRAINSTACK_RUN", {}), command, environment)
        except (TypeError, AttributeError) as error:
            raise WrapperError(USAGE, f"TRAINSTACK_RUN is not as the stack makes it: {error!r}") from None
        if self.trial:
            self.definition = self.trial.define(self.definition)
            self.environment = {**environment, **self.trial.env}
            self.index = None  # The run is a run like any other: its record tells nothing of the index.
        self.data = self._json("TRAINSTACK_DATA", None)
        if self.data is not None and not all(isinstance(self.data.get(key), str) for key in ("path", "manifest")):
            raise WrapperError(
                USAGE, 'TRAINSTACK_DATA must be {"path": folder, "manifest": sha256 of its manifest.json}'
            )
        self.data_timeout = self._seconds("TRAINSTACK_DATA_TIMEOUT", "1800")
        self.heartbeat = self._seconds("TRAINSTACK_HEARTBEAT_SECONDS", "5")
        self.stale = self._seconds("TRAINSTACK_STALE_SECONDS", "60")

    def _text(self, name: str) -> str:
        if not self.environment.get(name):
            raise WrapperError(USAGE, f"the variable {name} is not set: the stack sets it for managed workloads")
        return self.environment[name]

    def _index(self, name: str, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise WrapperError(USAGE, f"{name} is {text!a}: it must be a whole number of at most 9 digits")
        return int(text)

    def _seconds(self, name: str, unset: str) -> float:
        text = self.environment.get(name) or unset
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        # Waiting longer than a year at a time overflows.
        if not 0 <= seconds <= 365 * 86400:
            raise WrapperError(USAGE, f"{name} is {text!a}: it must be a number of seconds, of a year at most")
        return seconds

    def _json(self, name: str, unset: Any) -> Any:
        text, part = self.environment.get(name, ""), 2
        while f"{name}_PART_{part}" in self.environment:
            text, part = text + self.environment[f"{name}_PART_{part}"], part + 1
        try:
            value = json.loads(text) if text else unset
        except (ValueError, RecursionError) as error:
            raise WrapperError(USAGE, f"the variable {name} is not JSON: {error}") from None
        if value is not None and not isinstance(value, dict):
            raise WrapperError(USAGE, f"the variable {name} must be a JSON object")
        return value


def completed(definition: dict[str, Any], command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The definition with the texts that it leaves out, because the pod has them as they were declared."""

    def text(declared: str | None, own: str) -> str:
        # Whatever the locale, they are UTF-8.
        return os.fsencode(own).decode(errors="replace") if declared is None else declared

    count = len(definition.get("command", ()))
    parts = {"command": command[:count], "args": command[count:]}
    listed = {key: list(map(text, definition[key], parts[key])) for key in parts if None in definition.get(key, ())}
    env = {name: text(value, environment.get(name, "")) for name, value in definition.get("env", {}).items()}
    return {**definition, **listed, **({"env": env} if env else {})}


def write_file(path: Path, content: bytes) -> None:
    """Writes a file that appears whole or not at all, over an existing one."""
    with temporary_file(path, content) as temporary:
        temporary.replace(path)


def create_file(path: Path, content: bytes) -> bool:
    """Like write_file, but False when the file exists: of many callers, on any node, one creates it."""
    with temporary_file(path, content) as temporary:
        try:
            os.link(str(temporary), str(path))
        except FileExistsError:
            # Over NFS a link may be made and the answer lost; the repeated call finds it. Two names: it is ours.
            return temporary.stat().st_nlink > 1
    return True


@contextlib.contextmanager
def temporary_file(path: Path, content: bytes) -> Iterator[Path]:
    """A file beside `path` with the content, on the disk for good; gone afterwards if it was not renamed."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=str(path.parent))
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises OSError, and ValueError with the reason."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "there is no file", str(path))
    try:
        value = json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 (callers handle damage of any kind alike)
    return value


class Claim:
    """Who works on a run: files claims/<generation>, of which the highest counts.

    A generation is created exclusively and never deleted, so of many that see a dead holder one gets the next. The
    holder touches its file every few seconds; one whose file did not change for the stale time, by the observer's own
    clock, counts as dead. `<generation>.released` gives it back. A holder that was taken over notices by the next
    generation; `renew`, before it publishes, takes the next generation itself, which fails if another has it.
    """

    def __init__(self, settings: Settings, record: Path) -> None:
        self.settings = settings
        self.record = record
        self.folder = record / "claims"
        self.generation = 0
        self.lost = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def acquire(self) -> bool:
        """Waits until the run is ours (True) or finished by another (False)."""
        said = seen_since = 0.0
        seen: Any = None
        self.folder.mkdir(exist_ok=True)
        while not (self.record / "_SUCCESS").exists():
            latest = max((int(entry.name) for entry in self.folder.iterdir() if entry.name.isdecimal()), default=0)
            path = self._path(latest)
            if latest and not (path.parent / f"{path.name}.released").exists():
                # Opened, because NFS keeps what a plain stat returns for up to a minute.
                with path.open(errors="replace") as file:
                    state = (latest, os.fstat(file.fileno()).st_mtime_ns)
                    holder = file.read().strip()
                if state != seen:
                    seen, seen_since = state, time.monotonic()
                if time.monotonic() - seen_since < self.settings.stale:
                    if time.monotonic() - said > SAY_EVERY_SECONDS or not said:
                        said = time.monotonic()
                        say(f"{holder} works on this run: waiting for its end, or {self.settings.stale:g} s of silence")
                    pause(min(1.0, self.settings.heartbeat))
                    continue
                say(f"{holder} has been silent for {self.settings.stale:g} s: taking the run over")
            if self._take(latest + 1):
                threading.Thread(target=self._beat, daemon=True).start()
                return True
        return False

    def renew(self) -> None:
        """Makes sure that the run is still ours. Raises WrapperError if not."""
        with self._lock:
            if self.lost.is_set() or not self._take(self.generation + 1):
                self.lost.set()
                raise WrapperError(TAKEN_OVER, LOST)

    def release(self) -> None:
        """Gives the run back, so that the next attempt need not wait for the stale time."""
        self._closed.set()
        with self._lock, contextlib.suppress(OSError):
            path = self._path(self.generation)
            (path.parent / f"{path.name}.released").touch()

    def _take(self, generation: int) -> bool:
        holder = f"{self.settings.pod} (launch {self.settings.launch or 'unknown'}, since {now()})\n"
        if not create_file(self._path(generation), holder.encode()):
            return False
        self.generation = generation
        return True

    def _path(self, generation: int) -> Path:
        return self.folder / f"{generation:06d}"

    def _beat(self) -> None:
        while not self._closed.wait(self.settings.heartbeat):
            with self._lock:
                try:
                    os.utime(str(self._path(self.generation)))
                    taken = self._path(self.generation + 1).exists()
                except FileNotFoundError:
                    taken = True  # The record was deleted under us.
                except OSError as error:
                    say(f"cannot refresh the claim in {self.folder}: {error}; trying on")
                    continue
                if taken:
                    self.lost.set()
                    return


def reap(command: int = 0) -> bool:
    """Collects ended orphans of the command, but not the command itself. Whether this process has children left."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if ended is None or ended.si_pid == command:
            return True
        os.waitpid(ended.si_pid, 0)


def adopt_orphans() -> None:
    """Has the kernel make orphans of the command children of this process, as they are of process 1."""
    if os.getpid() == 1:
        return
    try:
        import ctypes  # noqa: PLC0415 (missing from some builds of Python, and not needed by process 1)

        failed = ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        failed = True
    if failed:
        say("this is not process 1, and this system gives it no orphans: daemons of the command are not ended with it")


def descendants() -> dict[int, str]:
    """The names of the processes below this one, by their numbers."""
    parents, names = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, text = file.read_text(errors="replace").partition(" (")
        except OSError:  # It has ended.
            continue
        name, _, rest = text.rpartition(") ")
        state, parent = rest.split()[:2]
        if state != "Z":
            parents[int(number)], names[int(number)] = int(parent), name
    found: set[int] = set()
    above = {os.getpid()}
    while above:
        above = {process for process, parent in parents.items() if parent in above} - found
        found |= above
    return {process: names[process] for process in sorted(found)}


def end_descendants(own: float, grace: float) -> dict[int, str]:
    """Ends all processes below this one; returns those that do not end.

    `own`: the seconds that they have to end by themselves. `grace`: those from SIGTERM to SIGKILL.
    """
    began = time.monotonic()
    told: set[int] = set()
    while reap():
        left, late = descendants(), time.monotonic() - began - own
        if late > grace + KILLED_SECONDS:
            return left or {0: "a process that /proc does not show"}
        if late > 0 and not told:
            say(f"the command has left processes running, which are ended now: {listed(left)}")
        for process in left:
            number = signal.SIGKILL if late > grace else signal.SIGTERM
            if late > grace or (late > 0 and process not in told):
                told.add(process)
                with contextlib.suppress(OSError):
                    os.kill(process, number)
        time.sleep(0.02)
    return {}


def listed(processes: Mapping[int, str]) -> str:
    return ", ".join(f"{name!a} ({process})" for process, name in processes.items())


def catches(process: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    try:
        status = Path(f"/proc/{process}/status").read_text(errors="replace")
    except OSError:
        return False
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(caught and int(caught.group(1), 16) >> (number - 1) & 1)


class Child:
    """The command: its output goes to our own output at once and to the log; stop signals are passed on to it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path | None) -> None:
        self.tail: collections.deque[bytes] = collections.deque([b""], maxlen=LAST_LINES)
        self.left: dict[int, str] = {}
        """Processes that could not be ended after the command."""
        self.log: Any = None
        self._log_lock = threading.Lock()
        if log:
            try:
                log.parent.mkdir(parents=True, exist_ok=True)
                self.log = log.open("xb", buffering=0)
            except OSError as error:
                say(f"cannot write {log}: {error}; the log is in the pod's output only")
        adopt_orphans()
        self.process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.pipe: int = self.process.stdout.fileno() if self.process.stdout else -1
        self.reader = threading.Thread(target=self._copy, daemon=True)
        self.reader.start()

    def wait(self, *ends: tuple[threading.Event, str]) -> int:
        """The exit code as a shell gives it, once all processes of the command have ended and its log is complete.

        `ends`: events, with what they mean, that end the command as SIGTERM does. A command that was told to stop has
        not finished, even if it ends with 0 once its checkpoint is written.
        """
        told_at = 0.0
        while self.process.poll() is None:
            reap(self.process.pid)
            reason = next((meaning for event, meaning in ends if event.is_set()), "")
            if told_at and reason and time.monotonic() - told_at > GRACE_SECONDS:
                self.process.kill()
            if reason and not told_at:
                say(f"{reason}; stopping the command")
                self.process.terminate()
            if stop_signals:
                self._pass_on(stop_signals.popleft())
            if reason or terminated.is_set():
                told_at = told_at or time.monotonic()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
        self.left = end_descendants(0, GRACE_SECONDS) if told_at else end_descendants(LEFT_OWN_SECONDS, LEFT_SECONDS)
        self.reader.join(5)  # Not for ever: a process of another container may hold the pipe.
        self._close_log()
        code = self.process.returncode
        if told_at and code == 0:
            return STOPPED
        return code if code >= 0 else 128 - code

    def last_lines(self) -> list[str]:
        return [line.decode(errors="replace") for line in list(self.tail) if line]

    def _pass_on(self, number: int) -> None:
        # Python catches SIGINT in every program, so that says less than a handler of SIGTERM.
        by_default = number == signal.SIGINT and catches(self.process.pid, signal.SIGTERM)
        sent = number if catches(self.process.pid, number) and not by_default else signal.SIGTERM
        came = "" if sent == number else f" for {signal_name(number)}"
        say(f"passing {signal_name(sent)} on{came}")
        self.process.send_signal(sent)

    def _copy(self) -> None:
        while chunk := os.read(self.pipe, 65536):
            with contextlib.suppress(OSError):
                os.write(1, chunk)
            first, *rest = chunk.split(b"\n")
            self.tail[-1] = (self.tail[-1] + first)[-LINE_BYTES:]
            self.tail.extend(rest)
            try:
                with self._log_lock:
                    if self.log:
                        self.log.write(chunk)
            except OSError as error:
                say(f"cannot write the log any more: {error}; the rest is in the pod's output only")
                self.log = None

    def _close_log(self) -> None:
        """Puts the log on the disk for good; whatever comes later is in the pod's output only."""
        with self._log_lock, contextlib.suppress(OSError):
            log, self.log = self.log, None
            if log:
                os.fsync(log.fileno())
                log.close()


def wait_for_data(settings: Settings) -> None:
    """Returns once the data set is there: its manifest with the hash asked for, and every file with its size."""
    if not settings.data:
        return
    folder, deadline, said = Path(settings.data["path"]), time.monotonic() + settings.data_timeout, ""
    began = said_at = time.monotonic()
    while problem := data_problem(folder, settings.data["manifest"]):
        if time.monotonic() > deadline:
            raise WrapperError(
                NO_DATA, f"no data after {settings.data_timeout:g} s: {problem}; did the data loader succeed?"
            )
        if problem != said or time.monotonic() - said_at > SAY_EVERY_SECONDS:
            said, said_at = problem, time.monotonic()
            say(f"waiting for data ({time.monotonic() - began:.0f} of {settings.data_timeout:g} s): {problem}")
        pause(min(1.0, settings.heartbeat))


def data_problem(folder: Path, digest: str) -> str:
    """What is wrong with a data set; empty when it is complete."""
    manifest = folder / "manifest.json"
    try:
        content = manifest.read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            return f"{manifest} has sha256 {hashlib.sha256(content).hexdigest()[:12]}…, this run needs {digest[:12]}…"
        for name, entry in json.loads(content)["files"].items():
            size = (folder / name).stat().st_size
            if size != entry["size"]:
                return f"{folder / name} has {size} of {entry['size']} bytes"
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{manifest} is no manifest: {error!r}"
    return ""


class Attempt:
    """Rank 0's work in one attempt folder, from the claim to the finished record."""

    def __init__(self, settings: Settings, record: Path, claim: Claim) -> None:
        self.settings, self.record, self.claim, self.started = settings, record, claim, now()
        attempts = record / "attempts"
        attempts.mkdir(exist_ok=True)
        number = 1
        while True:
            self.name = f"{settings.pod}-{number}"
            self.folder = attempts / self.name
            try:
                self.folder.mkdir()
                break
            except FileExistsError:
                number += 1
        self.output = self.folder / "output"
        self.output.mkdir()
        self.log = log_path(settings, record, self.name)
        # Created once and not rewritten: a pod that wakes up late must not touch the record that another completed.
        create_file(record / "run.json", as_json({**self._facts(), "state": "started", "started": self.started}))
        self.first_started = self._first_started(record / "run.json")

    def _first_started(self, run_json: Path) -> str:
        """When the first attempt began, as run.json has it. It is read before the command runs: publishing needs it."""
        try:
            started = read_object(run_json).get("started")
        except FileNotFoundError:
            raise WrapperError(NO_RECORD, f"{run_json} is not a file: move it away and start again") from None
        except ValueError as error:
            say(f"{run_json} is damaged ({error}): it is replaced when the run succeeds")
            return self.started
        return started if isinstance(started, str) else self.started

    def _facts(self) -> dict[str, Any]:
        settings = self.settings
        facts = {"run_id": settings.run_id, "launch": settings.launch, "definition": settings.definition}
        world = settings.environment.get("WORLD_SIZE")
        index = {} if settings.index is None else {"index": settings.index}
        return {**facts, **({"world_size": int(world)} if world and world.isdecimal() else {}), **index}

    def fail(self, code: int, last_lines: Sequence[str]) -> None:
        """Leaves failure.json in the attempt's folder."""
        facts = {"exit_code": code, "started": self.started, "finished": now(), "last_lines": list(last_lines)}
        signalled = {"stopped_by_sigterm": True} if terminated.is_set() else {}
        if self.settings.trial and self.settings.trial.stopped.is_set():
            signalled["withdrawn"] = True
        launch = {"launch": self.settings.launch, "pod": self.settings.pod}
        path = self.folder / "failure.json"
        try:
            write_file(path, as_json({**facts, **signalled, **launch}))
        except OSError as error:
            say(f"cannot write {path}: {error}")

    def publish(self, left: Mapping[int, str]) -> None:
        """Makes the output the run's result, with the completed run.json inside, all by one rename.

        The rename fails where there is a result: also a holder that fell asleep after `renew` cannot publish a second.
        `left`: processes of the command that do not end. Raises WrapperError if there are any: they may still write.
        """
        record, finished = self.record, now()
        if left:
            raise WrapperError(
                BAD_OUTPUT, f"nothing is published, because processes of the command do not end: {listed(left)}"
            )
        make_regular(self.output)
        complete = {
            **self._facts(),
            "state": "succeeded",
            "exit_code": 0,
            "started": self.first_started,
            "finished": finished,
            "attempt": self.name,
            "attempt_started": self.started,
            "attempts": len(list((record / "attempts").iterdir())),
            "log": str(self.log.relative_to(record)),
            "files": {f"result/{name}": entry for name, entry in digests(self.output).items()},
        }
        write_file(self.output / ".run.json", as_json(complete))
        self.claim.renew()
        try:
            self.output.rename(record / "result")
        except OSError:
            if not (record / "result").exists():
                raise
            raise WrapperError(
                TAKEN_OVER, f"{record / 'result'} is there already: another pod published this run"
            ) from None


def finish(record: Path) -> None:
    """Completes the record of a published run. Every pod that does so writes the same bytes, so any number may."""
    complete = record / "result" / ".run.json"
    try:
        run_id = read_object(complete)["run_id"]
    except FileNotFoundError:
        raise WrapperError(
            NO_RECORD, f"{record / 'result'} is not of this program: move it away and start again"
        ) from None
    except (ValueError, KeyError) as error:
        raise WrapperError(
            NO_RECORD,
            f"{complete} is damaged ({error}): restore it, or move {record / 'result'} away to run the command again",
        ) from None
    content = complete.read_bytes()
    write_file(record / "run.json", content)
    done = {"run_id": run_id, "run_json_sha256": hashlib.sha256(content).hexdigest()}
    write_file(record / "_SUCCESS", as_json(done))


class Entry(NamedTuple):
    """Something that is to be in the output, at `path`, with the content of `source`."""

    path: Path
    source: Path
    """The same path, or where a link leads to: a real path, so that no copy takes a part of it away."""
    above: Any
    """The folders that it is in, the innermost first: (identity, the others), or None."""


class Copies:
    """What must be copied so that an output has only regular files and folders, none of which others may change.

    Everything is looked at before anything is copied. `faults` says what cannot be published.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self.faults: list[str] = []
        self._folders: list[Path] = []
        """Links to folders, and the folders below these, parents first."""
        self._files: list[Entry] = []
        """What links lead to."""
        self._own: dict[tuple[int, int], tuple[int, list[Path]]] = {}
        """Of each file that no link leads to: the number of its names, and those in the output."""
        above: Any = None
        for folder in reversed(output.resolve().parents):
            above = (identity(folder.stat()), above)
        # Not recursive: folders may be deeper than Python's stack.
        waiting = [Entry(output, output, above)]
        while waiting:
            waiting += self._look(waiting.pop())
        if os.path.lexists(str(output / ".run.json")):
            self.faults.append("'.run.json': the wrapper writes a file of this name, so give yours another one")

    def make(self) -> None:
        for path in self._folders:
            if path.is_symlink():
                path.unlink()
            path.mkdir()
        # Later writes to a name outside of the output, as in the checkpoints, would change the result.
        shared = {key: paths for key, (names, paths) in self._own.items() if names > len(paths)}
        for entry in self._files:
            key = identity(entry.source.stat())
            if key not in self._own or key in shared or not link_file(entry.source, entry.path):
                copy_file(entry.source, entry.path)
        for path in (path for paths in shared.values() for path in paths):
            copy_file(path, path)

    def _look(self, entry: Entry) -> list[Entry]:
        """Looks at an entry; returns those in it."""
        root, link = entry.path == self.output, ""
        name = "the folder itself" if root else ascii(str(entry.path.relative_to(self.output)))
        try:
            if entry.source.is_symlink():
                link = f"a link to {os.readlink(str(entry.source))!a}, "  # noqa: PTH115 (not in Python 3.8)
            found = entry.source.stat()
            kind = kind_of(found.st_mode) or ("a folder that contains it" if is_in(entry.above, found) else "")
            if kind or (root and not stat.S_ISDIR(found.st_mode)):
                self.faults.append(f"{name} is {link}{kind or 'a file'}")
                return []
            if link:
                entry = entry._replace(source=entry.source.resolve(strict=True))
            if stat.S_ISREG(found.st_mode):
                self._add_file(entry, found)
                return []
            self._add_folder(entry, found)
            above = (identity(found), entry.above)
            return [Entry(entry.path / each.name, each, above) for each in entry.source.iterdir()]
        except OSError as error:
            self.faults.append(f"{name} is {link or 'not readable: '}{error.strerror}")
            return []

    def _add_file(self, entry: Entry, found: os.stat_result) -> None:
        if entry.source != entry.path:
            self._files.append(entry)
            return
        allow(entry.path, found.st_mode, stat.S_IRUSR)
        self._own.setdefault(identity(found), (found.st_nlink, []))[1].append(entry.path)

    def _add_folder(self, entry: Entry, found: os.stat_result) -> None:
        if entry.source != entry.path:
            self._folders.append(entry.path)
        else:
            allow(entry.path, found.st_mode, stat.S_IRWXU)


def make_regular(output: Path) -> None:
    """Replaces links in the output by copies. Raises WrapperError if something in it can be no file or folder."""
    copies = Copies(output)
    if copies.faults:
        shown = "; ".join(sorted(copies.faults)[:MOST_FAULTS])
        raise WrapperError(
            BAD_OUTPUT,
            f"nothing is published, because of {len(copies.faults)} entries of the output {output}: {shown}. Have the "
            "command write files there, or links to files that exist when it ends; what it wrote is kept",
        )
    copies.make()


def identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def is_in(above: Any, found: os.stat_result) -> bool:
    """Whether a folder is one of those above an entry."""
    while above:
        folder, above = above
        if folder == identity(found):
            return True
    return False


def kind_of(mode: int) -> str:
    """What an entry is that cannot be published; empty for a file or a folder."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def allow(path: Path, mode: int, needed: int) -> None:
    """Gives the owner these rights to a file or folder, without which its content cannot be published."""
    if mode & needed != needed:
        with contextlib.suppress(PermissionError):
            path.chmod(stat.S_IMODE(mode) | needed)


def link_file(source: Path, path: Path) -> bool:
    """Gives a file of the output a second name, in place of a link. False where the filesystem cannot."""
    if path.is_symlink():
        path.unlink()
    try:
        os.link(str(source), str(path))
    except OSError:
        return False
    return True


def copy_file(source: Path, path: Path) -> None:
    """Copies a file with its time and rights, over an existing one, which may be the same."""
    descriptor, temporary = tempfile.mkstemp(prefix=".trainstack-", dir=str(path.parent))
    with source.open("rb") as content, os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
        found = os.fstat(content.fileno())
        os.fchmod(file.fileno(), found.st_mode & 0o777 | 0o600)
    os.utime(temporary, ns=(found.st_atime_ns, found.st_mtime_ns))
    Path(temporary).replace(path)


def digests(output: Path) -> dict[str, dict[str, Any]]:
    """Size and sha256 of every file, by its path; of one that changes meanwhile, again. Raises WrapperError."""
    states: dict[str, Any] = {}
    found: dict[str, dict[str, Any]] = {}
    changing: list[str] = []
    for _ in range(HASH_ROUNDS):
        before, states = states, file_states(output)
        again = {name: digest(output / name) for name, state in states.items() if before.get(name) != state}
        # A time alone may change later, because the server of a network filesystem sets it.
        changing = [name for name in again if found.get(name) != again[name]]
        if not changing and before.keys() == states.keys():
            return {os.fsencode(name).decode("utf-8", "surrogateescape"): found[name] for name in states}
        found.update(again)
    raise WrapperError(
        BAD_OUTPUT,
        f"nothing is published: {changing!a} in the output {output} is still being written, by a process that is not "
        "of this container",
    )


def file_states(folder: Path) -> dict[str, tuple[int, ...]]:
    """What changes whenever a file does, by its path. Raises WrapperError for what is neither a file nor a folder."""
    states, waiting = {}, [folder]
    while waiting:
        for path in waiting.pop().iterdir():
            found, name = path.lstat(), str(path.relative_to(folder))
            if stat.S_ISDIR(found.st_mode):
                waiting.append(path)
            elif stat.S_ISREG(found.st_mode):
                states[name] = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            else:
                raise WrapperError(BAD_OUTPUT, f"nothing is published: {name!a} in the output is not a file")
    return dict(sorted(states.items()))


def digest(path: Path) -> dict[str, Any]:
    """Size and sha256 of a file, which is on the disk for good afterwards."""
    total, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        os.fsync(file.fileno())
        while chunk := file.read(1 << 20):
            total.update(chunk)
            size += len(chunk)
    return {"sha256": total.hexdigest(), "size": size}


def log_path(settings: Settings, record: Path, attempt: str) -> Path:
    return record / "logs" / f"rank-{settings.rank}.{attempt}.log"


def prepare(
    settings: Settings, command: Sequence[str], output: Path, checkpoint: Path
) -> tuple[list[str], dict[str, str]]:
    """The command with the tokens replaced, and its environment."""
    resume = checkpoint.is_dir() and any(not entry.name.startswith(".") for entry in checkpoint.iterdir())
    texts = (str(output), str(checkpoint), "1" if resume else "0", settings.run_id)
    values = {name: texts[position] for position, name in enumerate(TOKENS)}
    known = {SEED: settings.environment.get(SEED, ""), **values}
    filled = [TOKEN.sub(lambda match: known[match.group(match.lastindex or 0)], argument) for argument in command]
    return filled, {"PYTHONUNBUFFERED": "1", **settings.environment, **values}


def unknown_variables(command: Sequence[str], environment: Collection[str]) -> list[str]:
    """The variables of ours in a command that do not exist; `environment`: the names of those of the pod."""
    used = {match.group(match.lastindex or 0) for argument in command for match in TOKEN.finditer(argument)}
    return sorted(used - {*TOKENS, *({SEED} & {*environment})})


def checked_command(arguments: Sequence[str], environment: Collection[str] = ()) -> Sequence[str]:
    """The command of our command line. Raises WrapperError for a missing one and for unknown variables."""
    command = arguments[1:]
    if not command or arguments[0] != "--":
        raise WrapperError(USAGE, "usage: run.py -- COMMAND [ARGUMENT...]")
    if unknown := unknown_variables(command, environment):
        seed = f" and ${SEED}, which only a workload with a seed has"
        raise WrapperError(
            USAGE, f"unknown in the command: ${', $'.join(unknown)}; known are ${', $'.join(TOKENS)}{seed}"
        )
    return command


def start(command: Sequence[str], environment: Mapping[str, str], log: Path | None) -> Child | None:
    try:
        return Child(command, environment, log)
    except OSError as error:
        say(f"cannot start {command[0]!r}: {error}; is it in the image?")
        return None


def run_first(settings: Settings, record: Path, command: Sequence[str]) -> int:
    """Rank 0: checks, claims, runs, publishes, finishes."""
    record.mkdir(parents=True, exist_ok=True)
    finished = f"run {settings.run_id} is finished (record {record}): nothing to do"
    if (record / "_SUCCESS").exists():
        say(finished)
        return outcome(settings, record)
    trial = settings.trial
    if trial and trial.is_in("withdrawn.json"):
        say(f"run {settings.run_id} is withdrawn: its set was removed before it began")
        return trial.aimless
    wait_for_data(settings)
    claim = Claim(settings, record)
    if not claim.acquire():
        say(finished)
        return outcome(settings, record)
    try:
        if not (record / "result").exists():
            code = attempt_run(settings, record, claim, command)
            if code:
                return trial.aimless if trial and trial.stopped.is_set() else code
        finish(record)
        say(f"run {settings.run_id} succeeded: its record is {record}")
        return outcome(settings, record)
    finally:
        claim.release()


def outcome(settings: Settings, record: Path) -> int:
    """The exit code of a finished run."""
    return settings.trial.judge(record / "result" / "metrics.jsonl") if settings.trial else 0


def attempt_run(settings: Settings, record: Path, claim: Claim, command: Sequence[str]) -> int:
    """One attempt of rank 0 that holds the claim; published if the exit code is 0."""
    attempt = Attempt(settings, record, claim)
    checkpoint = record / "checkpoints"
    checkpoint.mkdir(exist_ok=True)
    filled, environment = prepare(settings, command, attempt.output, checkpoint)
    say(f"run {settings.run_id} attempt {attempt.name} resume {environment['TRAINSTACK_RESUME']}: {' '.join(filled)}")
    child = start(filled, environment, attempt.log)
    ends = [(claim.lost, LOST)]
    if settings.trial:
        settings.trial.watch(settings.heartbeat)
        ends.append((settings.trial.stopped, WITHDRAWN))
    code = child.wait(*ends) if child else 127
    lines = child.last_lines() if child else []
    if child and code == 0:
        publish(attempt, child.left, lines)
        return 0
    attempt.fail(code, lines)
    if claim.lost.is_set():
        raise WrapperError(TAKEN_OVER, LOST)
    say(f"attempt {attempt.name} ended with exit code {code}: see {attempt.folder / 'failure.json'} and {attempt.log}")
    return code


def publish(attempt: Attempt, left: Mapping[int, str], lines: Sequence[str]) -> None:
    """Publishes an attempt, or leaves its failure and raises WrapperError or OSError."""
    try:
        attempt.publish(left)
    except WrapperError as error:
        if error.code == BAD_OUTPUT:
            attempt.fail(BAD_OUTPUT, [*lines, str(error)])
        raise
    except OSError as error:
        attempt.fail(NO_RECORD, [*lines, str(error)])
        raise


def run_other(settings: Settings, command: Sequence[str]) -> int:
    """A rank other than 0: runs the command; the volume may be missing."""
    wait_for_data(settings)
    scratch = tempfile.mkdtemp(prefix="trainstack-")
    try:
        return run_beside(settings, command, Path(scratch))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_beside(settings: Settings, command: Sequence[str], scratch: Path) -> int:
    """The command, with folders in `scratch` for what the record has no place for."""
    output, checkpoint, log = scratch / "output", scratch / "checkpoints", None
    output.mkdir()
    try:
        if settings.record:
            log = own_log(settings, settings.record)
            checkpoint = settings.record / "checkpoints"
        checkpoint.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        say(f"no volume here ({error.strerror}: {error.filename}): the log is in the pod's output only")
        log, checkpoint = None, scratch / "checkpoints"
        checkpoint.mkdir(exist_ok=True)
    filled, environment = prepare(settings, command, output, checkpoint)
    say(f"run {settings.run_id} rank {settings.rank}: {' '.join(filled)}")
    child = start(filled, environment, log)
    return child.wait() if child else 127


def own_log(settings: Settings, record: Path) -> Path:
    """A log of this pod that does not exist yet. Makes its folder."""
    number = 1
    while True:
        path = log_path(settings, record, f"{settings.pod}-{number}")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return path
        number += 1


def fail(code: int, message: str) -> NoReturn:
    print(f"trainstack: error: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """See the top of this file."""
    handle_signals()
    # Names of files may be no text.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        settings = Settings(environment, arguments[1:])
        command = checked_command([*arguments, *(settings.trial.args if settings.trial else ())], environment)
        if settings.rank or not settings.record:
            return run_other(settings, command)
        return run_first(settings, settings.record, command)
    except WrapperError as error:
        fail(error.code, str(error))
    except OSError as error:
        where = error.filename or environment.get("TRAINSTACK_RECORD", "")
        fail(
            NO_RECORD,
            f"cannot write the run's record: {error.strerror or error}: {where}; is the volume mounted, "
            "writable for this pod's user (fsGroup), not full, and on a filesystem with hard links?",
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
