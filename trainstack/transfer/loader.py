"""A data loader: a pod that only waits, started so that files can go through it to and from a volume.

It is a Job on a queue, as every pod of a tenant has to be, and it is deleted afterwards, also on Ctrl-C and SIGTERM.
When the command is killed, its guard deletes the loader. If that is not possible either, for instance because the
machine died, a loader that runs ends by itself, and so does one whose pod cannot start. One that a queue holds back
stays until it is let in; `doctor` names it, and a later command removes it.
"""

import json
import re
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import quote

import typer

from trainstack.cli.console import err, fail, step
from trainstack.lifecycle.recovery.loaders import QUEUE_SECONDS, START_SECONDS, waiting_loaders
from trainstack.live.client import FORBIDDEN, NOT_FOUND, ClusterError, reach, read
from trainstack.live.loaders import read_loaders
from trainstack.live.private_kubeconfig import private_copy
from trainstack.live.progress import describe_pod
from trainstack.objects.labels import LAUNCH, QUEUE, RUN, Manifest
from trainstack.runs.identity import Facts
from trainstack.runs.launch import Launch
from trainstack.runs.launches import utc_now
from trainstack.runs.manifests.build import manifest
from trainstack.runs.manifests.data_loader import CONTAINER, temporary_loader
from trainstack.settings.model import Settings
from trainstack.transfer.kubectl import command, exec_words, kubectl, program
from trainstack.transfer.loader_guard import Guard, dismiss, set_guard

MOUNT = "/mnt/volume"
IDLE_SECONDS = 600
"""How long a loader waits for the next thing to do before it takes itself for left behind."""
LOOK_SECONDS = 5
_LIFE_SECONDS = 6 * 3600
_PAUSE_SECONDS = 0.5
_SILENT_SECONDS = 5
_STOPPED = 128
_FINISH_SECONDS = 10
"""Less than the 30 s after which the kubelet kills what has been told to end."""
_REFUSED = re.compile(r"Error from server \((AlreadyExists|BadRequest|Forbidden|Invalid|NotFound|Unauthorized)\)")
"""The cluster has said no: nothing was made."""
# As the first process of its container it alone, and the sleep that it waits with, means that nothing is done in it.
# Told to end, it lets what notices that its connection is gone give back what it had: else the next command would take
# that for somebody else's. 143, the status of a process that SIGTERM ended: one that was stopped has not completed.
_WAIT = f"""end() {{
  kill $!
  wait $!
  left={10 * _FINISH_SECONDS}
  while set -- /proc/[0-9]*; [ $# -gt 1 ] && [ $left -gt 0 ]; do
    left=$((left - 1))
    sleep 0.1
  done
  exit 143
}}
trap end TERM
limit=$1 look=$2 idle=0
while [ $idle -lt "$limit" ]; do
  sleep "$look" & wait $!
  idle=$((idle + look))
  set -- /proc/[0-9]*
  if [ $# -gt 1 ]; then idle=0; fi
done
"""


@dataclass
class Loader:
    """A running data loader."""

    namespace: str
    pod: str
    context: str | None
    container: str = CONTAINER
    start: Callable[[], str] | None = None
    """Starts another in its place, and returns that one's pod."""

    def words(self, script: str, folder: str, *arguments: str) -> list[str]:
        """The words that run a shell script in its pod; its $1 is a path of the volume there, then the arguments."""
        try:
            folder.encode()
        except UnicodeEncodeError:
            fail(f"{folder!r} is no UTF-8, which the path after the colon has to be; what lies in it need not")
        if ".." in folder.split("/"):
            fail(f"{folder!r} may leave the volume; write the path after the colon without `..`")
        path = f"{MOUNT}/{folder.strip('/')}"
        words = exec_words(self.namespace, self.pod, self.container, script, path, *arguments)
        return command(*words, context=self.context)

    def revive(self) -> None:
        """Have a running pod again, where this one is gone. A cluster that does not answer leaves it as it is."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}"
        try:
            pod = read([path], self.context)[path]
        except ClusterError:
            return
        if not _runs(pod.body) and self.start:
            self.pod = self.start()


@contextmanager
def data_loader(settings: Settings, namespace: str, volume: str) -> Iterator[Loader]:
    """A data loader with the volume at MOUNT, for as long as the block runs.

    Raises through `fail` when the cluster cannot be reached, and when no loader starts.
    """
    context = settings.cluster.context
    try:
        reach(context)
    except ClusterError as error:
        fail(str(error))
    marks: dict[str, Guard] = {}
    _remove_abandoned(settings, namespace)

    def start() -> str:
        mark = f"{settings.cluster.loader.name}-{secrets.token_hex(4)}"
        # Before it is made: what is interrupted in between has to be removed too.
        marks[mark] = set_guard([str(program()), *_deletion(namespace, [mark])], private_copy(context))
        job = loader_job(settings, namespace, volume, mark)
        made = kubectl("create", "-o", "json", "-f", "-", context=context, stdin=json.dumps(job).encode())
        if made.returncode:
            said = made.stderr.decode(errors="replace").strip()
            if _REFUSED.search(said):
                dismiss(marks.pop(mark))
            fail(f"no data loader can be started in {namespace}: {said}")
        live = json.loads(made.stdout)
        with step(f"waiting for data loader {namespace}/{live['metadata']['name']}", "5 s once the queue lets it in"):
            return _running_pod(live, mark, context)

    with _stoppable():
        try:
            yield Loader(namespace, start(), context, start=start)
        except KeyboardInterrupt as stopped:
            err.print("stopped; what arrived whole stays, and the same command goes on from there", style="yellow")
            raise typer.Exit(_STOPPED + (stopped.args or (signal.SIGINT,))[0]) from None
        finally:
            _remove(namespace, marks, context)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let the signals that end a command do what Ctrl-C does, so that what has to be removed is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(number)

    # One that is ignored stays so: by nohup, for one.
    ends = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _remove(namespace: str, marks: Mapping[str, Guard], context: str | None) -> None:
    """Delete loaders by their marks: their names may not be known. What cannot be deleted is left to its guard."""
    if not marks:
        return
    done = kubectl(*_deletion(namespace, [*marks]), context=context)
    if not done.returncode:
        for guard in marks.values():
            dismiss(guard)
        return
    said = done.stderr.decode(errors="replace").strip()
    err.print(
        f"data loader {namespace}/{[*marks][-1]} could not be deleted ({said}); it is retried for a minute, and "
        f"a running loader ends by itself after {IDLE_SECONDS // 60} minutes",
        style="yellow",
        markup=False,
    )


def _deletion(namespace: str, marks: Sequence[str]) -> tuple[str, ...]:
    """The words of kubectl that delete loaders by their marks."""
    chosen = f"{LAUNCH} in ({', '.join(marks)})"
    return ("delete", "job", "-n", namespace, "-l", chosen, "--wait=false", "--ignore-not-found")


def _remove_abandoned(settings: Settings, namespace: str) -> None:
    """Delete loaders of this stack that wait for longer than any command does."""
    context = settings.cluster.context
    try:
        jobs = read_loaders(settings.stack, [namespace], context)
    except ClusterError:
        return  # the loader's own start fails in the same way, and reports the cause
    now = utc_now()
    for each in waiting_loaders(jobs):
        words = ("delete", "job", each.name, "-n", namespace, "--wait=false", "--ignore-not-found")
        if each.abandoned(now) and not kubectl(*words, context=context).returncode:
            err.print(f"removed data loader {namespace}/{each.name}, left by a killed command", markup=False)


def loader_job(settings: Settings, namespace: str, volume: str, mark: str) -> Manifest:
    """The loader's Job. It carries no run's label: it is no run, and no guard of runs stands before it."""
    workload = temporary_loader(settings, namespace, volume, MOUNT).model_copy(
        update={
            "command": ("sh", "-c", _WAIT, "sh", str(IDLE_SECONDS), str(LOOK_SECONDS)),
            "active_deadline_seconds": _LIFE_SECONDS,
        }
    )
    image = settings.pinned(settings.cluster.loader.image)
    facts = Facts(image=image, data_digest=None, wrapper="", commit="")
    job = manifest(workload, settings.stack, Launch(run_id=mark, name=mark, facts=facts))
    job["metadata"]["labels"].pop(RUN)
    return job


def _running_pod(job: Mapping[str, Any], mark: str, context: str | None) -> str:
    """The loader's pod, once it runs; why it does not yet is said as it changes."""
    namespace, name, uid = (job["metadata"][key] for key in ("namespace", "name", "uid"))
    itself = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
    pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(f'{LAUNCH}={mark}')}"
    of_job = quote(f"kueue.x-k8s.io/job-uid={uid}")
    held = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads?labelSelector={of_job}"
    queue = job["metadata"]["labels"].get(QUEUE)
    began = time.monotonic()
    said = state = seen = ""
    while True:
        try:
            answers = read([itself, pods, held], context)
        except ClusterError as error:
            state, limit = str(error), START_SECONDS
        else:
            if answers[pods].status == FORBIDDEN:
                return fail(
                    f"these credentials may not list pods in {namespace}, which a data loader needs; ask "
                    "who manages the cluster for that right, and for the one to create pods/exec"
                )
            found = answers[pods].body.get("items", [])
            running = [pod for pod in found if _runs(pod) and pod["metadata"]["ownerReferences"][0]["uid"] == uid]
            if running:
                return str(running[0]["metadata"]["name"])
            seen = ", ".join(describe_pod(pod) for pod in found) or seen
            live = answers[itself].body
            if ended := "deleted" if answers[itself].status == NOT_FOUND else _failed(live):
                return fail(
                    f"data loader {namespace}/{name} has ended: {ended}; its pod at last: {seen or 'none was seen'}. "
                    f"See why: kubectl get events -n {namespace}"
                )
            suspended = live.get("spec", {}).get("suspend", False)
            waits = "" if found else _waits(answers[held].body.get("items", []), queue, suspended=suspended)
            state = waits or ", ".join(describe_pod(pod) for pod in found) or "it has no pod yet"
            limit = QUEUE_SECONDS if waits else START_SECONDS
        if state != said and time.monotonic() - began > _SILENT_SECONDS:
            err.print(f"  {state}", markup=False)
            said = state
        if time.monotonic() - began > limit:
            return fail(
                f"data loader {namespace}/{name} did not start within {limit} s: {state}. See why: "
                f"kubectl describe job -n {namespace} {name}; kubectl get workloads -n {namespace}"
            )
        time.sleep(_PAUSE_SECONDS)


def _runs(pod: Mapping[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _failed(job: Mapping[str, Any]) -> str:
    """Why a Job has failed, or ended otherwise, in its controller's words; "" where it has not."""
    for each in job.get("status", {}).get("conditions", ()):
        if each["type"] in ("Failed", "Complete") and each["status"] == "True":
            return f"{each['type']}, {each.get('reason', '')} {each.get('message', '')}".strip(", ")
    return ""


def _waits(workloads: Sequence[Mapping[str, Any]], queue: str | None, *, suspended: bool) -> str:
    """Why Kueue holds the loader back, in its words; "" where it does not, or has nothing to do with it."""
    conditions = {each["type"]: each for one in workloads for each in one.get("status", {}).get("conditions", ())}
    if queue is None or not (workloads or suspended) or conditions.get("Admitted", {}).get("status") == "True":
        return ""
    reason = conditions.get("QuotaReserved", {}).get("message", "Kueue has not said why")
    return f"queued in {queue}: {reason}"
