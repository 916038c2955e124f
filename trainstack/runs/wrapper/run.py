"""Run a training command as one attempt of a run, and keep the run's record: `python3 run.py -- COMMAND…`.

The program requires only Python 3.8 and its standard library, because it is mounted into users' images. It is a single
file because it is one key of a ConfigMap, whose name is derived from this text, and which a launch keeps. Tests and
users also run it directly.

Record of a run, in `$TRAINSTACK_RECORD/<run-id>/`. Each index of an indexed Job has a record of its own, in
`<run-id>/<completion index>/`. In the indexed Job of a sweep, each index is a run with its own run id (see
IndexedTrial), and its record is in `<run-id>/`.

    run.json       definition of the run; at the end replaced by the complete one (times, attempts, hashes of files)
    result/        the content of $TRAINSTACK_OUTPUT (metrics.jsonl, model), published atomically on success as regular
                   files and folders: each link is replaced by a copy of its target
    logs/          rank-<rank>.<pod>-<n>.log: the output of each attempt of each pod
    checkpoints/   $TRAINSTACK_CHECKPOINT, shared by all attempts: the command must write files there by rename
    attempts/      <pod>-<n>/output: output that is not published; <pod>-<n>/failure.json: exit code and last lines
    claims/        which pod works on the run, see WorkClaim
    _SUCCESS       written last: the run is finished; its JSON has the sha256 of run.json

Only rank 0 (RANK, else PET_NODE_RANK, else 0) reads and writes the record. Other ranks write their log and use the
checkpoints if they have the volume (TRAINSTACK_RECORD is set and writable), else they get temporary folders.

In COMMAND, $TRAINSTACK_OUTPUT, $TRAINSTACK_CHECKPOINT, $TRAINSTACK_RESUME, $TRAINSTACK_RUN_ID and, if it is set,
$TRAINSTACK_SEED are replaced, also as ${...} and $(...), because Kubernetes cannot expand variables that are set inside
the pod. Any other $TRAINSTACK_... is an error. The command also has these variables in its environment.
TRAINSTACK_RESUME is 1 if checkpoints/ has a file, else 0.

When the pod is deleted, this process gets the image's STOPSIGNAL, which may be any signal that terminates a program.
The command gets the same signal if it has a handler for it, else SIGTERM. Processes that the command leaves running,
including daemons, are terminated before the record is completed: they have one second to exit, then get SIGTERM, and
later SIGKILL.

Environment:
    TRAINSTACK_RUN_ID, TRAINSTACK_LAUNCH, TRAINSTACK_RECORD
    TRAINSTACK_RUN                JSON object that is copied to run.json as "definition"; each null in its "command",
                                  "args" and "env" is replaced by the pod's value
    TRAINSTACK_RUN_PART_2, ...    its continuation, if it is too long for one variable
    TRAINSTACK_SEED               the workload's seed, if it has one
    TRAINSTACK_POD                prefix of the names of attempt folders; default: the host name
    TRAINSTACK_DATA               JSON {"path": folder, "manifest": sha256 of its manifest.json}: wait for this data set
    TRAINSTACK_DATA_TIMEOUT       maximum wait for the data set in seconds; default 1800
    TRAINSTACK_HEARTBEAT_SECONDS  interval between heartbeats of the claim's holder; default 5
    TRAINSTACK_STALE_SECONDS      time without a heartbeat until another pod takes over; default 60
    TRAINSTACK_TRIALS             in the indexed Job of a sweep: the file with the run of each index, see IndexedTrial
    TRAINSTACK_SWEEP              set with TRAINSTACK_TRIALS: the sweep's name
    JOB_COMPLETION_INDEX          set by indexed Jobs; ignored if there is a rank

Exit codes: the command's (128+n for signal n; 127 if it cannot be started); 0 if the run was finished before; 143 if a
stop signal arrived before the command started; 64 invalid environment or arguments; 65 the output cannot be published;
66 the data set is not available; 73 the record cannot be written; 75 another pod took over the run; 79 the trial is
finished and has not reached the target of its sweep. A withdrawn trial exits with 0, or with 79 if its sweep has a
target.
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

VARIABLES = ("TRAINSTACK_OUTPUT", "TRAINSTACK_CHECKPOINT", "TRAINSTACK_RESUME", "TRAINSTACK_RUN_ID")
SEED_VARIABLE = "TRAINSTACK_SEED"
VARIABLE_REFERENCE = re.compile(r"\$(?:\{(TRAINSTACK_\w*)\}|\((TRAINSTACK_\w*)\)|(TRAINSTACK_\w*))", re.ASCII)
"""A reference in the syntax of a shell or of Kubernetes. References with shell operators are left to the shell."""
EXIT_USAGE = 64
EXIT_BAD_OUTPUT = 65
EXIT_NO_DATA = 66
EXIT_NO_RECORD = 73
EXIT_TAKEN_OVER = 75
EXIT_TARGET_MISSED = 79
EXIT_STOPPED = 128 + signal.SIGTERM
TAKEN_OVER_MESSAGE = "another pod took over this run, because this pod sent no heartbeat: this pod publishes nothing"
WITHDRAWN_MESSAGE = "this run is withdrawn, and the change that withdrew it also requested that it be stopped"
LAST_LINE_COUNT, MAX_LINE_BYTES = 50, 4096
PR_SET_CHILD_SUBREAPER = 36
PROGRESS_INTERVAL_SECONDS = 30
GRACE_SECONDS = 30
"""Time from SIGTERM to SIGKILL for a command whose run another pod took over, and for processes that a stopped command
leaves running, which may be writing a checkpoint. (The kubelet kills the command of a deleted pod.)"""
LEFTOVER_EXIT_SECONDS, LEFTOVER_GRACE_SECONDS, KILL_TIMEOUT_SECONDS = 1, 5, 20
"""Time limits for processes that a command leaves running: to exit without a signal, after SIGTERM, after SIGKILL."""
MAX_LISTED_FAULTS = 10
"""The maximum number of faults in one message."""
MAX_HASH_ROUNDS = 5
"""The maximum number of times that the files are hashed while some of them change."""
NON_STOP_SIGNALS = {
    *("SIGKILL", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT"),  # cannot be caught, or are for job control
    *("SIGCHLD", "SIGURG", "SIGWINCH"),  # do not terminate a program
    *("SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"),  # faults of this program
}

stop_requested = threading.Event()
"""Set by a stop signal: SIGTERM, or another signal that terminates a program and may be the image's STOPSIGNAL."""
pending_stop_signals: collections.deque[int] = collections.deque()
"""The stop signals that have not been forwarded to the command yet."""


class WrapperError(Exception):
    """An error that ends the wrapper, with the exit code and a message with the problem, the place and the remedy."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def print_message(message: str) -> None:
    print(f"trainstack: {message}", flush=True)


def utc_timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def sleep_unless_stopped(seconds: float) -> None:
    """Sleep. Raise WrapperError if a stop signal arrives."""
    reap_orphans()  # Process 1 also gets the orphans of `kubectl exec`.
    if stop_requested.wait(seconds):
        raise WrapperError(
            EXIT_STOPPED, f"stopped by {signal_name(pending_stop_signals[0])} before the command started"
        )


def install_signal_handlers() -> None:
    """Record stop signals instead of ending. An ignored signal, such as SIGHUP under nohup, stays ignored."""

    def record_signal(number: int, _: object) -> None:
        pending_stop_signals.append(number)
        stop_requested.set()

    for number in signal.valid_signals():
        if signal_name(number) not in NON_STOP_SIGNALS and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, record_signal)
    # If SIGCHLD is ignored, the kernel discards exit codes, and subprocess reports success for every command.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # A real-time signal.
        return f"signal {number}"


class IndexedTrial:
    """A run in the indexed Job of a sweep: the entry in $TRAINSTACK_TRIALS at this pod's completion index.

    {"objective": {"metric", "direction", "epoch", "target"} or null,
     "trials": [{"run_id", "number", "id", "parameters", "args", "env"}, ...]}

    The entry's args are appended to the command. Its env, and its number as JOB_ID, are added to the command's
    environment. While the Job runs, two lists of run ids may appear in the folder of that file: withdrawn.json has the
    runs that must not start, and stopped.json those of them whose command must be stopped.
    """

    def __init__(self, sweep: str, file: Path, index: int | None) -> None:
        self.file = file
        self.stopped = threading.Event()
        try:
            content = json.loads(file.read_bytes())
            entries, self.objective = content["trials"], content["objective"]
            if index is None or index >= len(entries):
                raise WrapperError(EXIT_USAGE, f"JOB_COMPLETION_INDEX is {index}, and {file} has {len(entries)} trials")
            entry = entries[index]
            self.run_id, self.args = str(entry["run_id"]), list(entry["args"])
            self.env = {**entry["env"], "JOB_ID": str(entry["number"])}
            identity = {"number": entry["number"], "id": entry["id"], "parameters": entry["parameters"]}
        except OSError as error:
            raise WrapperError(
                EXIT_USAGE, f"TRAINSTACK_TRIALS: {error.strerror}: {file}; the stack must mount this file"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise WrapperError(
                EXIT_USAGE, f"TRAINSTACK_TRIALS: {file} is not in the stack's format: {error!r}"
            ) from None
        self.definition = {"name": sweep, **identity}

    def extend_definition(self, shared: dict[str, Any]) -> dict[str, Any]:
        """Return the definition of this run, based on the definition that all indices of the Job share."""
        env = {name: value for name, value in self.env.items() if name != "JOB_ID"}
        extended = {"args": [*shared.get("args", ()), *self.args], "env": {**shared.get("env", {}), **env}}
        return {**shared, **extended, "sweep": self.definition}

    def is_listed_in(self, name: str) -> bool:
        """Return whether a list in the folder of the trials' file contains this run."""
        try:
            return self.run_id in json.loads((self.file.parent / name).read_bytes())
        except (OSError, ValueError, TypeError):
            return False

    def watch_for_stop(self, interval_seconds: float) -> None:
        """Start a thread that sets `stopped` once the run must stop; the list is polled at this interval."""

        def poll() -> None:
            while not self.is_listed_in("stopped.json"):
                time.sleep(interval_seconds)
            self.stopped.set()

        threading.Thread(target=poll, daemon=True).start()

    @property
    def exit_code_without_training(self) -> int:
        """The exit code of a run that did not train. With a target, an exit code of 0 would stop the other trials."""
        return 0 if self._target is None else EXIT_TARGET_MISSED

    def exit_code_of_metrics(self, metrics: Path) -> int:
        """Return the exit code of a finished run, by its metrics: 79 if it has not reached the target."""
        if self._target is None:
            return 0
        value = objective_value(metrics, self.objective)
        sign = 1 if self.objective["direction"] == "maximize" else -1
        if value is not None and sign * value >= sign * self._target:
            print_message(
                f"{self.objective['metric']} {value:g} reaches the target {self._target:g}: no other trial is needed"
            )
            return 0
        shown_value = "has no value" if value is None else f"{value:g}"
        print_message(
            f"{self.objective['metric']} {shown_value}: the target {self._target:g} is not reached, so other trials run"
        )
        return EXIT_TARGET_MISSED

    @property
    def _target(self) -> float | None:
        return self.objective["target"] if self.objective else None


def objective_value(metrics: Path, objective: Mapping[str, Any]) -> float | None:
    """Return the objective's value from metrics.jsonl, or None if it has none. NaN and infinities do not count."""
    values_by_epoch = []
    try:
        lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError, RecursionError) as error:
        print_message(f"cannot read {metrics}: {error}")
        lines = []
    for line in lines:
        value = finite_float(line.get(objective["metric"])) if isinstance(line, dict) else None
        if value is not None:
            values_by_epoch.append((line.get("epoch"), value))
    if objective["epoch"] == "best":
        best = max if objective["direction"] == "maximize" else min
        return best((value for _, value in values_by_epoch), default=None)
    if objective["epoch"] == "last":
        return values_by_epoch[-1][1] if values_by_epoch else None
    return next((value for epoch, value in values_by_epoch if epoch == objective["epoch"]), None)


def finite_float(value: Any) -> float | None:
    """Return the value as a float, or None if it is not a number, not finite, or too large for a float."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


class WrapperSettings:
    """The validated settings from the environment."""

    def __init__(self, environment: Mapping[str, str], command: Sequence[str] = ()) -> None:
        self.environment = environment
        self.launch = environment.get("TRAINSTACK_LAUNCH", "")
        self.pod = environment.get("TRAINSTACK_POD") or socket.gethostname()
        rank = environment.get("RANK") or environment.get("PET_NODE_RANK")
        self.rank = self._parse_index("the rank", rank or "0")
        # The pods of a TrainJob have an index and a rank, and are one run: an index counts only without a rank.
        index = "" if rank else environment.get("JOB_COMPLETION_INDEX", "")
        self.index = self._parse_index("JOB_COMPLETION_INDEX", index) if index else None
        trials = environment.get("TRAINSTACK_TRIALS")
        self.trial = IndexedTrial(self._require("TRAINSTACK_SWEEP"), Path(trials), self.index) if trials else None
        self.run_id = self.trial.run_id if self.trial else self._require("TRAINSTACK_RUN_ID")
        names = {"TRAINSTACK_RUN_ID": self.run_id, "TRAINSTACK_POD": self.pod, "JOB_COMPLETION_INDEX": index or "0"}
        for name, value in names.items():
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
                raise WrapperError(
                    EXIT_USAGE,
                    f"{name} is {value!r}: as a folder name it may have letters, digits, '.', '_' and '-' only, and "
                    "must start with a letter or digit",
                )
        root = environment.get("TRAINSTACK_RECORD") or (None if self.rank else self._require("TRAINSTACK_RECORD"))
        self.record = Path(root) / self.run_id / ("" if self.trial else index) if root else None
        try:
            self.definition = fill_omitted_texts(self._parse_object("TRAINSTACK_RUN", {}), command, environment)
        except (TypeError, AttributeError) as error:
            raise WrapperError(EXIT_USAGE, f"TRAINSTACK_RUN is not in the stack's format: {error!r}") from None
        if self.trial:
            self.definition = self.trial.extend_definition(self.definition)
            self.environment = {**environment, **self.trial.env}
            self.index = None  # A trial is an independent run, so its record has no index.
        self.data = self._parse_object("TRAINSTACK_DATA", None)
        if self.data is not None and not all(isinstance(self.data.get(key), str) for key in ("path", "manifest")):
            raise WrapperError(
                EXIT_USAGE, 'TRAINSTACK_DATA must be {"path": folder, "manifest": sha256 of its manifest.json}'
            )
        self.data_timeout_seconds = self._parse_seconds("TRAINSTACK_DATA_TIMEOUT", "1800")
        self.heartbeat_seconds = self._parse_seconds("TRAINSTACK_HEARTBEAT_SECONDS", "5")
        self.stale_seconds = self._parse_seconds("TRAINSTACK_STALE_SECONDS", "60")

    def _require(self, name: str) -> str:
        if not self.environment.get(name):
            raise WrapperError(EXIT_USAGE, f"the variable {name} is not set: the stack sets it for managed workloads")
        return self.environment[name]

    def _parse_index(self, name: str, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise WrapperError(EXIT_USAGE, f"{name} is {text!a}: it must be a whole number of at most 9 digits")
        return int(text)

    def _parse_seconds(self, name: str, default: str) -> float:
        text = self.environment.get(name) or default
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        # Python's waits overflow for very long times; a year is far below that.
        if not 0 <= seconds <= 365 * 86400:
            raise WrapperError(EXIT_USAGE, f"{name} is {text!a}: it must be a number of seconds between 0 and one year")
        return seconds

    def _parse_object(self, name: str, default: Any) -> Any:
        text, part = self.environment.get(name, ""), 2
        while f"{name}_PART_{part}" in self.environment:
            text, part = text + self.environment[f"{name}_PART_{part}"], part + 1
        try:
            value = json.loads(text) if text else default
        except (ValueError, RecursionError) as error:
            raise WrapperError(EXIT_USAGE, f"the variable {name} is not JSON: {error}") from None
        if value is not None and not isinstance(value, dict):
            raise WrapperError(EXIT_USAGE, f"the variable {name} must be a JSON object")
        return value


def fill_omitted_texts(
    definition: dict[str, Any], command: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the definition with the texts that it omits, because the pod has the same texts."""

    def text(defined: str | None, in_pod: str) -> str:
        # The pod's texts are UTF-8, whatever the locale is.
        return os.fsencode(in_pod).decode(errors="replace") if defined is None else defined

    count = len(definition.get("command", ()))
    parts = {"command": command[:count], "args": command[count:]}
    filled = {key: list(map(text, definition[key], parts[key])) for key in parts if None in definition.get(key, ())}
    env = {name: text(value, environment.get(name, "")) for name, value in definition.get("env", {}).items()}
    return {**definition, **filled, **({"env": env} if env else {})}


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically, replacing an existing one."""
    with temporary_file(path, content) as temporary:
        temporary.replace(path)


def create_file(path: Path, content: bytes) -> bool:
    """Create a file atomically and return True, or False if it exists. Of many callers, on any node, one creates it."""
    with temporary_file(path, content) as temporary:
        try:
            os.link(str(temporary), str(path))
        except FileExistsError:
            # NFS may create a link and lose the response; the retry then fails. A second link means that it succeeded.
            return temporary.stat().st_nlink > 1
    return True


@contextlib.contextmanager
def temporary_file(path: Path, content: bytes) -> Iterator[Path]:
    """Yield a synced file with the content in the folder of `path`, and delete it unless the caller renames it."""
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


def json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raise OSError, or ValueError with the reason."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "not a file", str(path))
    try:
        value = json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 (callers handle damage of any kind alike)
    return value


class WorkClaim:
    """The claim of the pod that works on a run: files claims/<generation>, of which the highest counts.

    A generation is created exclusively and never deleted, so only one of several pods that observe a dead holder gets
    the next generation. The holder touches its file as a heartbeat. It counts as dead if its file has not changed for
    the stale time, by the observer's own clock. `<generation>.released` releases the claim. A holder detects that
    another pod took over by the next generation. `renew`, before publication, creates the next generation itself, which
    fails if another pod has created it.
    """

    def __init__(self, settings: WrapperSettings, record: Path) -> None:
        self.settings = settings
        self.record = record
        self.folder = record / "claims"
        self.generation = 0
        self.lost = threading.Event()
        self._released = threading.Event()
        self._lock = threading.Lock()

    def acquire(self) -> bool:
        """Wait until this pod holds the claim (return True) or another pod has finished the run (return False)."""
        message_time = state_time = 0.0
        last_state: Any = None
        self.folder.mkdir(exist_ok=True)
        while not (self.record / "_SUCCESS").exists():
            latest = max((int(entry.name) for entry in self.folder.iterdir() if entry.name.isdecimal()), default=0)
            path = self._path(latest)
            if latest and not (path.parent / f"{path.name}.released").exists():
                # Open the file: NFS caches the result of a plain stat for up to a minute.
                with path.open(errors="replace") as file:
                    state = (latest, os.fstat(file.fileno()).st_mtime_ns)
                    holder = file.read().strip()
                if state != last_state:
                    last_state, state_time = state, time.monotonic()
                if time.monotonic() - state_time < self.settings.stale_seconds:
                    if time.monotonic() - message_time > PROGRESS_INTERVAL_SECONDS or not message_time:
                        message_time = time.monotonic()
                        print_message(
                            f"{holder} works on this run: waiting until it ends or sends no heartbeat for "
                            f"{self.settings.stale_seconds:g} s"
                        )
                    sleep_unless_stopped(min(1.0, self.settings.heartbeat_seconds))
                    continue
                print_message(
                    f"{holder} has sent no heartbeat for {self.settings.stale_seconds:g} s: taking over the run"
                )
            if self._create_generation(latest + 1):
                threading.Thread(target=self._send_heartbeats, daemon=True).start()
                return True
        return False

    def renew(self) -> None:
        """Ensure that this pod still holds the claim. Raise WrapperError if it does not."""
        with self._lock:
            if self.lost.is_set() or not self._create_generation(self.generation + 1):
                self.lost.set()
                raise WrapperError(EXIT_TAKEN_OVER, TAKEN_OVER_MESSAGE)

    def release(self) -> None:
        """Release the claim, so that the next attempt need not wait for the stale time."""
        self._released.set()
        with self._lock, contextlib.suppress(OSError):
            path = self._path(self.generation)
            (path.parent / f"{path.name}.released").touch()

    def _create_generation(self, generation: int) -> bool:
        holder = f"{self.settings.pod} (launch {self.settings.launch or 'unknown'}, since {utc_timestamp()})\n"
        if not create_file(self._path(generation), holder.encode()):
            return False
        self.generation = generation
        return True

    def _path(self, generation: int) -> Path:
        return self.folder / f"{generation:06d}"

    def _send_heartbeats(self) -> None:
        while not self._released.wait(self.settings.heartbeat_seconds):
            with self._lock:
                try:
                    os.utime(str(self._path(self.generation)))
                    is_lost = self._path(self.generation + 1).exists()
                except FileNotFoundError:
                    is_lost = True  # The record was deleted during the run.
                except OSError as error:
                    print_message(f"cannot send a heartbeat to {self.folder}: {error}; retrying")
                    continue
                if is_lost:
                    self.lost.set()
                    return


def reap_orphans(command: int = 0) -> bool:
    """Reap orphans of the command, but not the command itself. Return whether this process still has children."""
    while True:
        try:
            exited = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if exited is None or exited.si_pid == command:
            return True
        os.waitpid(exited.si_pid, 0)


def adopt_orphans() -> None:
    """Make this process the parent of the command's orphans, as process 1 is by default."""
    if os.getpid() == 1:
        return
    try:
        import ctypes  # noqa: PLC0415 (missing from some builds of Python, and not needed by process 1)

        failed = ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        failed = True
    if failed:
        print_message(
            "the wrapper is not process 1 and cannot become a child subreaper: daemons that the command starts are not "
            "terminated with it"
        )


def descendants() -> dict[int, str]:
    """Return the names of all descendants of this process, by process id."""
    parents, names = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, text = file.read_text(errors="replace").partition(" (")
        except OSError:  # The process has exited.
            continue
        name, _, fields = text.rpartition(") ")
        state, parent = fields.split()[:2]
        if state != "Z":
            parents[int(number)], names[int(number)] = int(parent), name
    processes: set[int] = set()
    generation = {os.getpid()}
    while generation:
        generation = {process for process, parent in parents.items() if parent in generation} - processes
        processes |= generation
    return {process: names[process] for process in sorted(processes)}


def terminate_descendants(exit_seconds: float, grace_seconds: float) -> dict[int, str]:
    """Terminate all descendants of this process, and return those that remain.

    They have `exit_seconds` to exit without a signal, and `grace_seconds` from SIGTERM to SIGKILL.
    """
    start_time = time.monotonic()
    signaled: set[int] = set()
    while reap_orphans():
        remaining, overdue_seconds = descendants(), time.monotonic() - start_time - exit_seconds
        if overdue_seconds > grace_seconds + KILL_TIMEOUT_SECONDS:
            return remaining or {0: "a process that /proc does not show"}
        if overdue_seconds > 0 and not signaled:
            print_message(
                f"the command has left processes running, which are terminated now: {format_processes(remaining)}"
            )
        for process in remaining:
            number = signal.SIGKILL if overdue_seconds > grace_seconds else signal.SIGTERM
            if overdue_seconds > grace_seconds or (overdue_seconds > 0 and process not in signaled):
                signaled.add(process)
                with contextlib.suppress(OSError):
                    os.kill(process, number)
        time.sleep(0.02)
    return {}


def format_processes(processes: Mapping[int, str]) -> str:
    return ", ".join(f"{name!a} ({process})" for process, name in processes.items())


def has_handler(process: int, number: int) -> bool:
    """Return whether a process has a handler for a signal."""
    try:
        status = Path(f"/proc/{process}/status").read_text(errors="replace")
    except OSError:
        return False
    match = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(match and int(match.group(1), 16) >> (number - 1) & 1)


class CommandProcess:
    """The process of the command, whose output is copied to the wrapper's output and to the log without delay."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path | None) -> None:
        self.tail: collections.deque[bytes] = collections.deque([b""], maxlen=LAST_LINE_COUNT)
        self.leftover_processes: dict[int, str] = {}
        """Processes that the command left running and that could not be terminated."""
        self.log: Any = None
        self._log_lock = threading.Lock()
        if log:
            try:
                log.parent.mkdir(parents=True, exist_ok=True)
                self.log = log.open("xb", buffering=0)
            except OSError as error:
                print_message(f"cannot write {log}: {error}; the log is only in the pod's output")
        adopt_orphans()
        self.process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.pipe: int = self.process.stdout.fileno() if self.process.stdout else -1
        self.reader = threading.Thread(target=self._copy_output, daemon=True)
        self.reader.start()

    def wait(self, *stop_conditions: tuple[threading.Event, str]) -> int:
        """Return the exit code as a shell does, once all processes of the command have ended and its log is complete.

        Each stop condition is an event and the reason for the stop. If the event is set, the command is stopped
        with SIGTERM. A stopped command has not finished, even if it writes its checkpoint and exits with 0.
        """
        stop_time = 0.0
        while self.process.poll() is None:
            reap_orphans(self.process.pid)
            stop_reason = next((reason for event, reason in stop_conditions if event.is_set()), "")
            # There is no SIGKILL after a stop signal: the kubelet kills the command of a deleted pod.
            if stop_time and stop_reason and time.monotonic() - stop_time > GRACE_SECONDS:
                self.process.kill()
            if stop_reason and not stop_time:
                print_message(f"{stop_reason}; stopping the command")
                self.process.terminate()
            if pending_stop_signals:
                self._forward_signal(pending_stop_signals.popleft())
            if stop_reason or stop_requested.is_set():
                stop_time = stop_time or time.monotonic()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
        self.leftover_processes = (
            terminate_descendants(0, GRACE_SECONDS)
            if stop_time
            else terminate_descendants(LEFTOVER_EXIT_SECONDS, LEFTOVER_GRACE_SECONDS)
        )
        self.reader.join(5)  # With a timeout, because a process of another container may hold the pipe open.
        self._close_log()
        code = self.process.returncode
        if stop_time and code == 0:
            return EXIT_STOPPED
        return code if code >= 0 else 128 - code

    def last_lines(self) -> list[str]:
        return [line.decode(errors="replace") for line in list(self.tail) if line]

    def _forward_signal(self, number: int) -> None:
        # Every Python program has a handler for SIGINT, so a handler for SIGTERM is the more specific one.
        is_default = number == signal.SIGINT and has_handler(self.process.pid, signal.SIGTERM)
        forwarded = number if has_handler(self.process.pid, number) and not is_default else signal.SIGTERM
        suffix = "" if forwarded == number else f" in place of {signal_name(number)}"
        print_message(f"sending {signal_name(forwarded)} to the command{suffix}")
        self.process.send_signal(forwarded)

    def _copy_output(self) -> None:
        while chunk := os.read(self.pipe, 65536):
            with contextlib.suppress(OSError):
                os.write(1, chunk)
            first_part, *next_parts = chunk.split(b"\n")
            self.tail[-1] = (self.tail[-1] + first_part)[-MAX_LINE_BYTES:]
            self.tail.extend(next_parts)
            try:
                with self._log_lock:
                    if self.log:
                        self.log.write(chunk)
            except OSError as error:
                print_message(f"cannot write to the log: {error}; later output is only in the pod's output")
                self.log = None

    def _close_log(self) -> None:
        """Sync and close the log; later output is only in the pod's output."""
        with self._log_lock, contextlib.suppress(OSError):
            log, self.log = self.log, None
            if log:
                os.fsync(log.fileno())
                log.close()


def wait_for_data(settings: WrapperSettings) -> None:
    """Wait until the data set is complete: its manifest has the expected hash, and every file its size."""
    if not settings.data:
        return
    folder, deadline, last_problem = (
        Path(settings.data["path"]),
        time.monotonic() + settings.data_timeout_seconds,
        "",
    )
    start_time = message_time = time.monotonic()
    while problem := data_problem(folder, settings.data["manifest"]):
        if time.monotonic() > deadline:
            raise WrapperError(
                EXIT_NO_DATA,
                f"no data after {settings.data_timeout_seconds:g} s: {problem}; did the data loader succeed?",
            )
        if problem != last_problem or time.monotonic() - message_time > PROGRESS_INTERVAL_SECONDS:
            last_problem, message_time = problem, time.monotonic()
            print_message(
                f"waiting for data ({time.monotonic() - start_time:.0f} of {settings.data_timeout_seconds:g} s): "
                f"{problem}"
            )
        sleep_unless_stopped(min(1.0, settings.heartbeat_seconds))


def data_problem(folder: Path, manifest_sha256: str) -> str:
    """Return why a data set is not complete, or an empty string if it is."""
    manifest = folder / "manifest.json"
    try:
        content = manifest.read_bytes()
        if hashlib.sha256(content).hexdigest() != manifest_sha256:
            return (
                f"{manifest} has sha256 {hashlib.sha256(content).hexdigest()[:12]}…, this run needs "
                f"{manifest_sha256[:12]}…"
            )
        for name, entry in json.loads(content)["files"].items():
            size = (folder / name).stat().st_size
            if size != entry["size"]:
                return f"{folder / name} has {size} of {entry['size']} bytes"
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{manifest} is not a valid manifest: {error!r}"
    return ""


class Attempt:
    """An attempt of rank 0 with its folder, from the claim to the publication."""

    def __init__(self, settings: WrapperSettings, record: Path, claim: WorkClaim) -> None:
        self.settings, self.record, self.claim, self.started = settings, record, claim, utc_timestamp()
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
        # Create it only if it does not exist: a pod that was suspended must not change a record that another completed.
        create_file(record / "run.json", json_bytes({**self._run_facts(), "state": "started", "started": self.started}))
        self.run_started = self._read_run_started(record / "run.json")

    def _read_run_started(self, run_json: Path) -> str:
        """Return the start time of the first attempt from run.json. A later failure would lose the training."""
        try:
            started = read_json_object(run_json).get("started")
        except FileNotFoundError:
            raise WrapperError(
                EXIT_NO_RECORD, f"{run_json} is not a file: move it away and start the run again"
            ) from None
        except ValueError as error:
            print_message(f"{run_json} is damaged ({error}): it is replaced when the run succeeds")
            return self.started
        return started if isinstance(started, str) else self.started

    def _run_facts(self) -> dict[str, Any]:
        settings = self.settings
        facts = {"run_id": settings.run_id, "launch": settings.launch, "definition": settings.definition}
        world_size = settings.environment.get("WORLD_SIZE")
        index = {} if settings.index is None else {"index": settings.index}
        return {
            **facts,
            **({"world_size": int(world_size)} if world_size and world_size.isdecimal() else {}),
            **index,
        }

    def record_failure(self, code: int, last_lines: Sequence[str]) -> None:
        """Write failure.json to the attempt's folder."""
        facts = {
            "exit_code": code,
            "started": self.started,
            "finished": utc_timestamp(),
            "last_lines": list(last_lines),
        }
        stop_causes = {"stopped_by_sigterm": True} if stop_requested.is_set() else {}
        if self.settings.trial and self.settings.trial.stopped.is_set():
            stop_causes["withdrawn"] = True
        launch = {"launch": self.settings.launch, "pod": self.settings.pod}
        path = self.folder / "failure.json"
        try:
            write_file(path, json_bytes({**facts, **stop_causes, **launch}))
        except OSError as error:
            print_message(f"cannot write {path}: {error}")

    def publish(self, leftover_processes: Mapping[int, str]) -> None:
        """Make the output, including the complete run.json, the run's result by one rename.

        The rename fails if there is a result, so a holder that was suspended after `renew` cannot publish a second one.
        Raise WrapperError if processes of the command could not be terminated, because they may still write.
        """
        record, finished = self.record, utc_timestamp()
        if leftover_processes:
            raise WrapperError(
                EXIT_BAD_OUTPUT,
                "nothing is published, because processes of the command do not end: "
                f"{format_processes(leftover_processes)}",
            )
        replace_links(self.output)
        complete = {
            **self._run_facts(),
            "state": "succeeded",
            "exit_code": 0,
            "started": self.run_started,
            "finished": finished,
            "attempt": self.name,
            "attempt_started": self.started,
            "attempts": len(list((record / "attempts").iterdir())),
            "log": str(self.log.relative_to(record)),
            "files": {f"result/{name}": entry for name, entry in hash_files(self.output).items()},
        }
        write_file(self.output / ".run.json", json_bytes(complete))
        self.claim.renew()
        try:
            self.output.rename(record / "result")
        except OSError:
            if not (record / "result").exists():
                raise
            raise WrapperError(
                EXIT_TAKEN_OVER, f"{record / 'result'} already exists: another pod published this run"
            ) from None


def complete_record(record: Path) -> None:
    """Complete the record of a published run. Several pods may do so, because all of them write the same bytes."""
    complete = record / "result" / ".run.json"
    try:
        run_id = read_json_object(complete)["run_id"]
    except FileNotFoundError:
        raise WrapperError(
            EXIT_NO_RECORD,
            f"{record / 'result'} was not published by the wrapper: move it away and start the run again",
        ) from None
    except (ValueError, KeyError) as error:
        raise WrapperError(
            EXIT_NO_RECORD,
            f"{complete} is damaged ({error}): restore it, or move {record / 'result'} away to run the command again",
        ) from None
    content = complete.read_bytes()
    write_file(record / "run.json", content)
    success = {"run_id": run_id, "run_json_sha256": hashlib.sha256(content).hexdigest()}
    write_file(record / "_SUCCESS", json_bytes(success))


class OutputEntry(NamedTuple):
    """A file or folder of the published output, at `path`, with the content of `source`."""

    path: Path
    source: Path
    """The same path, or the target of a link: resolved, so that replacing another link does not make it dangle."""
    ancestors: Any
    """The folders that contain it: (identity of the innermost, its own ancestors), or None."""


class OutputCopies:
    """The copies that make an output consist of regular files and folders, none of which has a hard link elsewhere.

    The whole output is inspected before anything is copied. `faults` describes what cannot be published.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self.faults: list[str] = []
        self._folders: list[Path] = []
        """Links to folders, and the folders below their targets, parents first."""
        self._linked_files: list[OutputEntry] = []
        """Files that links lead to."""
        self._regular_files: dict[tuple[int, int], tuple[int, list[Path]]] = {}
        """Regular files by identity: the number of their hard links, and their paths in the output."""
        ancestors: Any = None
        for folder in reversed(output.resolve().parents):
            ancestors = (file_identity(folder.stat()), ancestors)
        # Not recursive: folders may be nested deeper than Python's recursion limit.
        queue = [OutputEntry(output, output, ancestors)]
        while queue:
            queue += self._inspect(queue.pop())
        if os.path.lexists(str(output / ".run.json")):
            self.faults.append("'.run.json': the wrapper writes a file of this name, so choose another name")

    def create(self) -> None:
        for path in self._folders:
            if path.is_symlink():
                path.unlink()
            path.mkdir()
        # A file may have a name outside the output, such as in the checkpoints: writes to it would change the result.
        shared = {key: paths for key, (links, paths) in self._regular_files.items() if links > len(paths)}
        for entry in self._linked_files:
            key = file_identity(entry.source.stat())
            if key not in self._regular_files or key in shared or not replace_by_hard_link(entry.source, entry.path):
                copy_file(entry.source, entry.path)
        for path in (path for paths in shared.values() for path in paths):
            copy_file(path, path)

    def _inspect(self, entry: OutputEntry) -> list[OutputEntry]:
        """Inspect an entry and return its children."""
        is_root, link = entry.path == self.output, ""
        name = "the folder itself" if is_root else ascii(str(entry.path.relative_to(self.output)))
        try:
            if entry.source.is_symlink():
                link = f"a link to {os.readlink(str(entry.source))!a}, "  # noqa: PTH115 (not in Python 3.8)
            status = entry.source.stat()
            kind = unpublishable_kind(status.st_mode) or (
                "a folder that contains it" if is_ancestor(entry.ancestors, status) else ""
            )
            if kind or (is_root and not stat.S_ISDIR(status.st_mode)):
                self.faults.append(f"{name} is {link}{kind or 'a file'}")
                return []
            if link:
                entry = entry._replace(source=entry.source.resolve(strict=True))
            if stat.S_ISREG(status.st_mode):
                self._add_file(entry, status)
                return []
            self._add_folder(entry, status)
            ancestors = (file_identity(status), entry.ancestors)
            return [OutputEntry(entry.path / child.name, child, ancestors) for child in entry.source.iterdir()]
        except OSError as error:
            self.faults.append(f"{name} is {link or 'not readable: '}{error.strerror}")
            return []

    def _add_file(self, entry: OutputEntry, status: os.stat_result) -> None:
        if entry.source != entry.path:
            self._linked_files.append(entry)
            return
        grant_to_owner(entry.path, status.st_mode, stat.S_IRUSR)
        self._regular_files.setdefault(file_identity(status), (status.st_nlink, []))[1].append(entry.path)

    def _add_folder(self, entry: OutputEntry, status: os.stat_result) -> None:
        if entry.source != entry.path:
            self._folders.append(entry.path)
        else:
            grant_to_owner(entry.path, status.st_mode, stat.S_IRWXU)


def replace_links(output: Path) -> None:
    """Replace links in the output by copies. Raise WrapperError if it has entries other than files and folders."""
    copies = OutputCopies(output)
    if copies.faults:
        shown_faults = "; ".join(sorted(copies.faults)[:MAX_LISTED_FAULTS])
        raise WrapperError(
            EXIT_BAD_OUTPUT,
            f"nothing is published, because {len(copies.faults)} entries of the output {output} cannot be published: "
            f"{shown_faults}. Have the command write files there, or links to files that exist when it ends; the "
            "unpublished output is kept",
        )
    copies.create()


def file_identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def is_ancestor(ancestors: Any, status: os.stat_result) -> bool:
    """Return whether a folder is one of the ancestors of an entry."""
    while ancestors:
        folder, ancestors = ancestors
        if folder == file_identity(status):
            return True
    return False


def unpublishable_kind(mode: int) -> str:
    """Return the kind of an entry that cannot be published, or an empty string for a file or a folder."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def grant_to_owner(path: Path, mode: int, permissions: int) -> None:
    """Grant the owner of a file or folder the permissions that its publication requires."""
    if mode & permissions != permissions:
        with contextlib.suppress(PermissionError):
            path.chmod(stat.S_IMODE(mode) | permissions)


def replace_by_hard_link(source: Path, path: Path) -> bool:
    """Replace a link by a hard link to a file of the output. Return False if the filesystem does not support it."""
    if path.is_symlink():
        path.unlink()
    try:
        os.link(str(source), str(path))
    except OSError:
        return False
    return True


def copy_file(source: Path, path: Path) -> None:
    """Copy a file with its times and permissions to a path, which may exist and may be the source itself."""
    descriptor, temporary = tempfile.mkstemp(prefix=".trainstack-", dir=str(path.parent))
    with source.open("rb") as content, os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
        status = os.fstat(content.fileno())
        os.fchmod(file.fileno(), status.st_mode & 0o777 | 0o600)
    os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
    Path(temporary).replace(path)


def hash_files(output: Path) -> dict[str, dict[str, Any]]:
    """Return size and sha256 of every file by path. Raise WrapperError if a file does not stop changing."""
    states: dict[str, Any] = {}
    entries: dict[str, dict[str, Any]] = {}
    changing: list[str] = []
    for _ in range(MAX_HASH_ROUNDS):
        previous, states = states, file_states(output)
        updates = {name: hash_file(output / name) for name, state in states.items() if previous.get(name) != state}
        # Compare hashes, because the time alone may change later: the server of a network filesystem sets it.
        changing = [name for name in updates if entries.get(name) != updates[name]]
        if not changing and previous.keys() == states.keys():
            return {os.fsencode(name).decode("utf-8", "surrogateescape"): entries[name] for name in states}
        entries.update(updates)
    raise WrapperError(
        EXIT_BAD_OUTPUT,
        f"nothing is published: {changing!a} in the output {output} is still being written, by a process outside this "
        "container",
    )


def file_states(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return, by path, a state of each file that differs after a change. Raise WrapperError for other entries."""
    states, queue = {}, [folder]
    while queue:
        for path in queue.pop().iterdir():
            status, name = path.lstat(), str(path.relative_to(folder))
            if stat.S_ISDIR(status.st_mode):
                queue.append(path)
            elif stat.S_ISREG(status.st_mode):
                states[name] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            else:
                raise WrapperError(EXIT_BAD_OUTPUT, f"nothing is published: {name!a} in the output is not a file")
    return dict(sorted(states.items()))


def hash_file(path: Path) -> dict[str, Any]:
    """Sync a file, and return its size and sha256."""
    sha256, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        os.fsync(file.fileno())
        while chunk := file.read(1 << 20):
            sha256.update(chunk)
            size += len(chunk)
    return {"sha256": sha256.hexdigest(), "size": size}


def log_path(settings: WrapperSettings, record: Path, attempt: str) -> Path:
    return record / "logs" / f"rank-{settings.rank}.{attempt}.log"


def prepare_command(
    settings: WrapperSettings, command: Sequence[str], output: Path, checkpoint: Path
) -> tuple[list[str], dict[str, str]]:
    """Return the command with its variables replaced, and its environment."""
    has_checkpoint = checkpoint.is_dir() and any(not entry.name.startswith(".") for entry in checkpoint.iterdir())
    texts = (str(output), str(checkpoint), "1" if has_checkpoint else "0", settings.run_id)
    values = {name: texts[position] for position, name in enumerate(VARIABLES)}
    replacements = {SEED_VARIABLE: settings.environment.get(SEED_VARIABLE, ""), **values}
    prepared = [
        VARIABLE_REFERENCE.sub(lambda match: replacements[match.group(match.lastindex or 0)], argument)
        for argument in command
    ]
    return prepared, {"PYTHONUNBUFFERED": "1", **settings.environment, **values}


def unknown_variables(command: Sequence[str], environment: Collection[str]) -> list[str]:
    """Return the unknown `TRAINSTACK_` variables in a command. `environment` has the names of the pod's variables."""
    used = {
        match.group(match.lastindex or 0) for argument in command for match in VARIABLE_REFERENCE.finditer(argument)
    }
    return sorted(used - {*VARIABLES, *({SEED_VARIABLE} & {*environment})})


def parse_command(arguments: Sequence[str], environment: Collection[str] = ()) -> Sequence[str]:
    """Return the command in the wrapper's arguments. Raise WrapperError if it is missing or has unknown variables."""
    command = arguments[1:]
    if not command or arguments[0] != "--":
        raise WrapperError(EXIT_USAGE, "usage: run.py -- COMMAND [ARGUMENT...]")
    if unknown := unknown_variables(command, environment):
        seed = f", and ${SEED_VARIABLE} if the workload has a seed"
        raise WrapperError(
            EXIT_USAGE,
            f"unknown variables in the command: ${', $'.join(unknown)}; valid are ${', $'.join(VARIABLES)}{seed}",
        )
    return command


def start_command(command: Sequence[str], environment: Mapping[str, str], log: Path | None) -> CommandProcess | None:
    try:
        return CommandProcess(command, environment, log)
    except OSError as error:
        print_message(f"cannot start {command[0]!r}: {error}; is it in the image?")
        return None


def run_rank_0(settings: WrapperSettings, record: Path, command: Sequence[str]) -> int:
    """Run rank 0 and return the exit code: claim the run, run the command, publish, and complete the record."""
    record.mkdir(parents=True, exist_ok=True)
    finished_message = f"run {settings.run_id} is finished (record {record}): nothing to do"
    if (record / "_SUCCESS").exists():
        print_message(finished_message)
        return exit_code_of_finished_run(settings, record)
    trial = settings.trial
    if trial and trial.is_listed_in("withdrawn.json"):
        print_message(f"run {settings.run_id} is withdrawn: its parameter set was removed before the run started")
        return trial.exit_code_without_training
    wait_for_data(settings)
    claim = WorkClaim(settings, record)
    if not claim.acquire():
        print_message(finished_message)
        return exit_code_of_finished_run(settings, record)
    try:
        # A pod that published the result may have ended before it completed the record.
        if not (record / "result").exists():
            code = run_attempt(settings, record, claim, command)
            if code:
                return trial.exit_code_without_training if trial and trial.stopped.is_set() else code
        complete_record(record)
        print_message(f"run {settings.run_id} succeeded: its record is {record}")
        return exit_code_of_finished_run(settings, record)
    finally:
        claim.release()


def exit_code_of_finished_run(settings: WrapperSettings, record: Path) -> int:
    return settings.trial.exit_code_of_metrics(record / "result" / "metrics.jsonl") if settings.trial else 0


def run_attempt(settings: WrapperSettings, record: Path, claim: WorkClaim, command: Sequence[str]) -> int:
    """Run one attempt while holding the claim, publish it if the command succeeds, and return the exit code."""
    attempt = Attempt(settings, record, claim)
    checkpoint = record / "checkpoints"
    checkpoint.mkdir(exist_ok=True)
    prepared, environment = prepare_command(settings, command, attempt.output, checkpoint)
    print_message(
        f"run {settings.run_id} attempt {attempt.name} resume {environment['TRAINSTACK_RESUME']}: {' '.join(prepared)}"
    )
    process = start_command(prepared, environment, attempt.log)
    stop_conditions = [(claim.lost, TAKEN_OVER_MESSAGE)]
    if settings.trial:
        settings.trial.watch_for_stop(settings.heartbeat_seconds)
        stop_conditions.append((settings.trial.stopped, WITHDRAWN_MESSAGE))
    code = process.wait(*stop_conditions) if process else 127
    lines = process.last_lines() if process else []
    if process and code == 0:
        publish_attempt(attempt, process.leftover_processes, lines)
        return 0
    attempt.record_failure(code, lines)
    if claim.lost.is_set():
        raise WrapperError(EXIT_TAKEN_OVER, TAKEN_OVER_MESSAGE)
    print_message(
        f"attempt {attempt.name} ended with exit code {code}: see {attempt.folder / 'failure.json'} and {attempt.log}"
    )
    return code


def publish_attempt(attempt: Attempt, leftover_processes: Mapping[int, str], lines: Sequence[str]) -> None:
    """Publish an attempt. If that fails, record the failure and raise WrapperError or OSError."""
    try:
        attempt.publish(leftover_processes)
    except WrapperError as error:
        if error.code == EXIT_BAD_OUTPUT:
            attempt.record_failure(EXIT_BAD_OUTPUT, [*lines, str(error)])
        raise
    except OSError as error:
        attempt.record_failure(EXIT_NO_RECORD, [*lines, str(error)])
        raise


def run_other_rank(settings: WrapperSettings, command: Sequence[str]) -> int:
    """Run the command of a rank other than 0, which may not have the volume, and return the exit code."""
    wait_for_data(settings)
    scratch = tempfile.mkdtemp(prefix="trainstack-")
    try:
        return run_with_scratch(settings, command, Path(scratch))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_with_scratch(settings: WrapperSettings, command: Sequence[str], scratch: Path) -> int:
    """Run the command with its output, and without the volume also its checkpoints, in a scratch folder."""
    output, checkpoint, log = scratch / "output", scratch / "checkpoints", None
    output.mkdir()
    try:
        if settings.record:
            log = create_log_folder(settings, settings.record)
            checkpoint = settings.record / "checkpoints"
        checkpoint.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print_message(
            f"the record's volume is not available ({error.strerror}: {error.filename}): the log is only in the pod's "
            "output"
        )
        log, checkpoint = None, scratch / "checkpoints"
        checkpoint.mkdir(exist_ok=True)
    prepared, environment = prepare_command(settings, command, output, checkpoint)
    print_message(f"run {settings.run_id} rank {settings.rank}: {' '.join(prepared)}")
    process = start_command(prepared, environment, log)
    return process.wait() if process else 127


def create_log_folder(settings: WrapperSettings, record: Path) -> Path:
    """Create the folder of the logs, and return the path of a log that does not exist yet."""
    number = 1
    while True:
        path = log_path(settings, record, f"{settings.pod}-{number}")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return path
        number += 1


def exit_with_error(code: int, message: str) -> NoReturn:
    print(f"trainstack: error: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the wrapper and return the exit code."""
    install_signal_handlers()
    # File names in messages may not be valid text.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        settings = WrapperSettings(environment, arguments[1:])
        command = parse_command([*arguments, *(settings.trial.args if settings.trial else ())], environment)
        if settings.rank or not settings.record:
            return run_other_rank(settings, command)
        return run_rank_0(settings, settings.record, command)
    except WrapperError as error:
        exit_with_error(error.code, str(error))
    except OSError as error:
        path = error.filename or environment.get("TRAINSTACK_RECORD", "")
        exit_with_error(
            EXIT_NO_RECORD,
            f"cannot write the run's record: {error.strerror or error}: {path}; is the volume mounted, "
            "writable for this pod's user (fsGroup), not full, and on a filesystem with hard links?",
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
