"""Runs a training command as one attempt at a run, and keeps the run's record: `python3 run.py -- COMMAND…`.

The standard library of Python 3.8 is all it needs: it is mounted into images that people bring. It is one file,
however long: one key of a ConfigMap named after this text, which a launch keeps, and which tests and people run alone.

Record of a run, `$TRAINSTACK_RECORD/<run-id>/` (of an indexed Job: `<run-id>/<completion index>/`; of a sweep's, whose
indices are runs of their own, see class Trial, `<run-id>/`):

    run.json       what runs; replaced at the end by the completed one (times, attempts, files with hashes)
    result/        what the command wrote to $TRAINSTACK_OUTPUT (metrics.jsonl, model): all at once, on success
    logs/          rank-<rank>.<pod>-<n>.log: the output of each attempt of each pod
    checkpoints/   $TRAINSTACK_CHECKPOINT, the same for all attempts: the command writes there by rename
    attempts/      <pod>-<n>/output: what is not published; <pod>-<n>/failure.json: exit code and last lines
    claims/        who works, see class Claim
    _SUCCESS       last of all: the run is finished; its JSON has the sha256 of run.json

Only rank 0 (RANK, else PET_NODE_RANK, else 0) reads and writes the record. Other ranks write their log and see the
checkpoints if they have the volume (TRAINSTACK_RECORD is set and can be written), else get folders of their own.

In COMMAND, $TRAINSTACK_OUTPUT, $TRAINSTACK_CHECKPOINT, $TRAINSTACK_RESUME and $TRAINSTACK_RUN_ID are replaced
(Kubernetes expands no variable that comes to be in the pod); any other $TRAINSTACK_... is an error. The command has
them in its environment too. TRAINSTACK_RESUME is 1 where checkpoints/ has a file, else 0.

Environment:
    TRAINSTACK_RUN_ID, TRAINSTACK_LAUNCH, TRAINSTACK_RECORD
    TRAINSTACK_RUN                JSON object, copied into run.json as "definition"
    TRAINSTACK_POD                name of the attempt folders; default: the host name
    TRAINSTACK_DATA               JSON {"path": folder, "manifest": sha256 of its manifest.json}: wait for that data,
    TRAINSTACK_DATA_TIMEOUT       this many seconds at most; default 1800
    TRAINSTACK_HEARTBEAT_SECONDS  between two signs of life of the holder; default 5
    TRAINSTACK_STALE_SECONDS      of silence until another pod takes over; default 60
    TRAINSTACK_TRIALS             of a sweep's indexed Job: the file that tells which run each index is, see class Trial
    TRAINSTACK_SWEEP              with it: the sweep's name
    JOB_COMPLETION_INDEX          set by indexed Jobs; counts where there is no rank

Exit code: the command's (128+n for signal n; 127 if it cannot be started); 0 if the run was finished before; 143 if
SIGTERM came before the command ran; 64 wrong environment or arguments; 66 data did not come; 73 the record cannot be
written; 75 another pod took the run over; 79 the trial is finished and has not reached its sweep's target. A trial that
is withdrawn ends with 0, or with 79 where its sweep has a target.
"""

from __future__ import annotations  # Python 3.8 cannot evaluate list[str]

import collections
import contextlib
import hashlib
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

TOKENS = ("TRAINSTACK_OUTPUT", "TRAINSTACK_CHECKPOINT", "TRAINSTACK_RESUME", "TRAINSTACK_RUN_ID")
USAGE, NO_DATA, NO_RECORD, TAKEN_OVER, NOT_REACHED, STOPPED = 64, 66, 73, 75, 79, 128 + signal.SIGTERM
LOST = "another pod took this run over while this one was silent: nothing is published here"
WITHDRAWN = "this run is withdrawn, and the change that did so names it to be stopped"
LAST_LINES, LINE_BYTES = 50, 4096
SAY_EVERY_SECONDS = 30
GRACE_SECONDS = 30
"""From SIGTERM to SIGKILL for a command whose run another pod took over. (Of a deleted pod the kubelet takes care.)"""

terminated = threading.Event()
"""Set by SIGTERM."""


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
    """Waits; raises WrapperError when SIGTERM comes meanwhile."""
    if terminated.wait(seconds):
        raise WrapperError(STOPPED, "stopped by SIGTERM before the command ran")


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
    except (OSError, ValueError) as error:
        say(f"cannot read {metrics}: {error}")
        lines = []
    for line in lines:
        value = line.get(objective["metric"]) if isinstance(line, dict) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            told.append((line.get("epoch"), float(value)))
    if objective["epoch"] == "best":
        best = max if objective["direction"] == "maximize" else min
        return best((value for _, value in told), default=None)
    if objective["epoch"] == "last":
        return told[-1][1] if told else None
    return next((value for epoch, value in told if epoch == objective["epoch"]), None)


class Settings:
    """The environment, read and checked."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.launch = environment.get("TRAINSTACK_LAUNCH", "")
        self.pod = environment.get("TRAINSTACK_POD") or socket.gethostname()
        rank = environment.get("RANK") or environment.get("PET_NODE_RANK")
        self.rank = int(self._number("the rank", rank or "0"))
        # A TrainJob's pods have an index too, but are ranks of one run: an index counts only where there is no rank.
        index = "" if rank else environment.get("JOB_COMPLETION_INDEX", "")
        self.index = int(self._number("JOB_COMPLETION_INDEX", index)) if index else None
        trials = environment.get("TRAINSTACK_TRIALS")
        self.trial = Trial(self._text("TRAINSTACK_SWEEP"), Path(trials), self.index) if trials else None
        self.run_id = self.trial.run_id if self.trial else self._text("TRAINSTACK_RUN_ID")
        names = {"TRAINSTACK_RUN_ID": self.run_id, "TRAINSTACK_POD": self.pod, "JOB_COMPLETION_INDEX": index or "0"}
        for name, value in names.items():
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
                raise WrapperError(USAGE, f"{name} is {value!r}: it names a folder, of letters, digits, '.', '_', '-'")
        root = environment.get("TRAINSTACK_RECORD") or (None if self.rank else self._text("TRAINSTACK_RECORD"))
        self.record = Path(root) / self.run_id / ("" if self.trial else index) if root else None
        self.definition = self._json("TRAINSTACK_RUN", {})
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

    def _number(self, name: str, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise WrapperError(USAGE, f"{name} is {text!r}: it must be a number") from None

    def _seconds(self, name: str, unset: str) -> float:
        return self._number(name, self.environment.get(name) or unset)

    def _json(self, name: str, unset: Any) -> Any:
        try:
            value = json.loads(self.environment[name]) if self.environment.get(name) else unset
        except ValueError as error:
            raise WrapperError(USAGE, f"the variable {name} is not JSON: {error}") from None
        if value is not None and not isinstance(value, dict):
            raise WrapperError(USAGE, f"the variable {name} must be a JSON object")
        return value


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
                with path.open() as file:  # Opened, because NFS keeps what a plain stat returns for up to a minute.
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


class Child:
    """The command: its output goes to our own output at once and to the log; SIGTERM is passed on to it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path | None) -> None:
        self.tail: collections.deque[bytes] = collections.deque([b""], maxlen=LAST_LINES)
        self.log: Any = None
        if log:
            try:
                log.parent.mkdir(parents=True, exist_ok=True)
                self.log = log.open("xb", buffering=0)
            except OSError as error:
                say(f"cannot write {log}: {error}; the log is in the pod's output only")
        self.process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.pipe: int = self.process.stdout.fileno() if self.process.stdout else -1
        self.reader = threading.Thread(target=self._copy, daemon=True)
        self.reader.start()

    def wait(self, *ends: tuple[threading.Event, str]) -> int:
        """The exit code as a shell gives it. `ends`: events, with what they mean, that end the command as SIGTERM does.

        A command that was told to stop has not finished, even if it ends with 0 once its checkpoint is written.
        """
        told_at = 0.0
        while self.process.poll() is None:
            reason = next((meaning for event, meaning in ends if event.is_set()), "")
            if told_at and reason and time.monotonic() - told_at > GRACE_SECONDS:
                self.process.kill()
            if not told_at and (terminated.is_set() or reason):
                told_at = time.monotonic()
                say("passing SIGTERM on" if terminated.is_set() else f"{reason}; stopping the command")
                self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)
        self.reader.join(5)  # Not for ever: a grandchild may still hold the pipe.
        code = self.process.returncode
        if told_at and code == 0:
            return STOPPED
        return code if code >= 0 else 128 - code

    def last_lines(self) -> list[str]:
        return [line.decode(errors="replace") for line in list(self.tail) if line]

    def _copy(self) -> None:
        while chunk := os.read(self.pipe, 65536):
            with contextlib.suppress(OSError):
                os.write(1, chunk)
            first, *rest = chunk.split(b"\n")
            self.tail[-1] = (self.tail[-1] + first)[-LINE_BYTES:]
            self.tail.extend(rest)
            try:
                if self.log:
                    self.log.write(chunk)
            except OSError as error:
                say(f"cannot write the log any more: {error}; the rest is in the pod's output only")
                self.log = None


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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
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
        write_file(self.folder / "failure.json", as_json({**facts, **signalled, **launch}))

    def publish(self) -> None:
        """Makes the output the run's result, with the completed run.json inside, all by one rename.

        The rename fails where there is a result: also a holder that fell asleep after `renew` cannot publish a second.
        """
        record = self.record
        first = json.loads((record / "run.json").read_bytes())
        complete = {
            **self._facts(),
            "state": "succeeded",
            "exit_code": 0,
            "started": first["started"],
            "finished": now(),
            "attempt": self.name,
            "attempt_started": self.started,
            "attempts": len(list((record / "attempts").iterdir())),
            "log": str(self.log.relative_to(record)),
            "files": {f"result/{path.relative_to(self.output)}": digest(path) for path in files_below(self.output)},
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
    try:
        content = (record / "result" / ".run.json").read_bytes()
    except FileNotFoundError:
        raise WrapperError(
            NO_RECORD, f"{record / 'result'} is not of this program: move it away and start again"
        ) from None
    write_file(record / "run.json", content)
    done = {"run_id": json.loads(content)["run_id"], "run_json_sha256": hashlib.sha256(content).hexdigest()}
    write_file(record / "_SUCCESS", as_json(done))


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


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
    filled = [re.sub(r"\$(TRAINSTACK_\w*)", lambda match: values[match.group(1)], argument) for argument in command]
    return filled, {"PYTHONUNBUFFERED": "1", **settings.environment, **values}


def checked_command(arguments: Sequence[str]) -> Sequence[str]:
    """The command of our command line. Raises WrapperError for a missing one and for unknown tokens."""
    command = arguments[1:]
    if not command or arguments[0] != "--":
        raise WrapperError(USAGE, "usage: run.py -- COMMAND [ARGUMENT...]")
    used = {name for argument in command for name in re.findall(r"\$(TRAINSTACK_\w*)", argument)}
    if unknown := sorted(used - set(TOKENS)):
        raise WrapperError(USAGE, f"unknown in the command: ${', $'.join(unknown)}; known are ${', $'.join(TOKENS)}")
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
    if code == 0:
        attempt.publish()
        return 0
    try:
        attempt.fail(code, child.last_lines() if child else [])
    except OSError as error:
        say(f"cannot write {attempt.folder / 'failure.json'}: {error}")
    if claim.lost.is_set():
        raise WrapperError(TAKEN_OVER, LOST)
    say(f"attempt {attempt.name} ended with exit code {code}: see {attempt.folder / 'failure.json'} and {attempt.log}")
    return code


def run_other(settings: Settings, command: Sequence[str]) -> int:
    """A rank other than 0: runs the command; the volume may be missing."""
    wait_for_data(settings)
    with tempfile.TemporaryDirectory(prefix="trainstack-") as scratch:
        return run_beside(settings, command, Path(scratch))


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
    signal.signal(signal.SIGTERM, lambda *_: terminated.set())
    try:
        settings = Settings(environment)
        command = checked_command([*arguments, *(settings.trial.args if settings.trial else ())])
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
