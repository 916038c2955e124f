"""A data loader: a pod that waits, so that files can be copied through it to and from a volume.

It is a Job in a queue, like all pods of a tenant, and it is deleted afterwards, also on Ctrl-C and SIGTERM. If the
command is killed, its guard deletes the loader. If that fails too, for example because the machine crashed, a running
loader exits when it is idle, and one whose pod cannot start exits at its deadline. A loader that a queue holds back
remains until it is admitted; `doctor` reports it, and a later command deletes it.
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

from trainstack.lifecycle.recovery.loaders import QUEUE_SECONDS, START_SECONDS, find_waiting_loaders
from trainstack.live.client import FORBIDDEN, NOT_FOUND, ClusterError, reach, read
from trainstack.live.loaders import read_loaders
from trainstack.live.private_kubeconfig import new_copy
from trainstack.live.run_views import describe_pod
from trainstack.objects.labels import LAUNCH, QUEUE, RUN, Manifest
from trainstack.runs.identity import Facts
from trainstack.runs.launch import Launch
from trainstack.runs.launches import utc_now
from trainstack.runs.manifests.build import manifest
from trainstack.runs.manifests.data_loader import LOADER_CONTAINER, temporary_loader
from trainstack.runs.status.waiting import conditions_by_type
from trainstack.settings.model import Settings
from trainstack.toolchain import tools
from trainstack.transfer.errors import TransferError
from trainstack.transfer.kubectl import kubectl_command, run_kubectl
from trainstack.transfer.loader_guard import LoaderGuard, end_guard, start_guard
from trainstack.transfer.progress import TransferProgress
from trainstack.transfer.volume_nodes import nodes_of_volume

MOUNT = "/mnt/volume"
"""The path of the volume in the pod."""
IDLE_SECONDS = 600
"""How long a loader without a running script waits before it exits."""
IDLE_CHECK_SECONDS = 5
"""The interval at which a loader checks whether a script runs."""
_DEADLINE_SECONDS = 6 * 3600
"""The Job's deadline: the end of a loader that a failure left behind."""
_POLL_SECONDS = 0.5
"""The interval at which a starting loader's pod is read."""
_QUIET_SECONDS = 5
"""How long a command waits before it reports the state of a starting loader."""
_FINISH_SECONDS = 10
"""How long a stopped loader waits for its scripts: less than the grace period of 30 s, which ends with SIGKILL."""
_REJECTED = re.compile(r"Error from server \((AlreadyExists|BadRequest|Forbidden|Invalid|NotFound|Unauthorized)\)")
"""kubectl's message if the API server rejected the Job, so that it was not created."""
# The script is idle if the only processes of the container are the shell (PID 1) and its sleep. On SIGTERM it waits for
# the scripts that notice their closed connection and release their incomplete files; otherwise the next command would
# consider these in use. Exit code 143, that of a process ended by SIGTERM: a stopped loader has not completed.
_WAIT_SCRIPT = f"""end() {{
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
limit=$1 interval=$2 idle=0
while [ $idle -lt "$limit" ]; do
  sleep "$interval" & wait $!
  idle=$((idle + interval))
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
    progress: TransferProgress
    container: str = LOADER_CONTAINER
    restart: Callable[[], str] | None = None
    """A function that creates a replacement and returns its pod's name; None if the loader cannot be replaced."""

    def command(self, script: str, folder: str, *arguments: str) -> list[str]:
        """Return the command that runs a shell script in the pod: $1 is the path of a folder of the volume.

        Raises TransferError for a path that is not valid UTF-8 or not inside the volume.
        """
        try:
            folder.encode()
        except UnicodeEncodeError:
            raise TransferError(
                f"{folder!r}: the path after the colon must be valid UTF-8; the names of files in it need not be"
            ) from None
        if ".." in folder.split("/"):
            raise TransferError(f"{folder!r}: the path after the colon must not contain `..`")
        path = f"{MOUNT}/{folder.strip('/')}"
        pod = ("-n", self.namespace, self.pod, "-c", self.container)
        return kubectl_command(
            "exec", "-i", *pod, "--", "sh", "-c", script, "sh", path, *arguments, context=self.context
        )

    def ensure_running(self) -> None:
        """Replace the pod if it no longer runs. Does nothing if the cluster does not respond."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}"
        try:
            pod = read([path], self.context)[path]
        except ClusterError:
            return
        if not _is_running(pod.body) and self.restart:
            self.pod = self.restart()


@contextmanager
def data_loader(settings: Settings, namespace: str, volume: str, progress: TransferProgress) -> Iterator[Loader]:
    """Run a data loader, with the volume at MOUNT, for the duration of the block.

    Raises ClusterError if the cluster cannot be reached, TransferError if no loader starts, and KeyboardInterrupt, with
    the signal's number, on SIGTERM and SIGHUP.
    """
    context = settings.cluster.context
    reach(context)
    guards: dict[str, LoaderGuard] = {}
    _delete_abandoned(settings, namespace, progress)

    def create() -> str:
        nodes = nodes_of_volume(settings, namespace, volume)
        launch = f"{settings.cluster.loader.name}-{secrets.token_hex(4)}"
        # Before the Job is created, since an interruption in between requires its deletion.
        guards[launch] = start_guard(
            [str(tools.kubectl()), *_deletion_arguments(namespace, [launch])], new_copy(context)
        )
        job = loader_job(settings, namespace, volume, launch, nodes)
        result = run_kubectl("create", "-o", "json", "-f", "-", context=context, stdin=json.dumps(job).encode())
        if result.returncode:
            message = result.stderr.decode(errors="replace").strip()
            # After any other failure the Job may exist, so its guard stays.
            if _REJECTED.search(message):
                end_guard(guards.pop(launch))
            raise TransferError(f"cannot create a data loader in {namespace}: {message}")
        live_job = json.loads(result.stdout)
        name = live_job["metadata"]["name"]
        with progress.step(f"waiting for data loader {namespace}/{name}", "5 s once its queue admits it"):
            return _wait_for_pod(live_job, launch, context, progress)

    with _interrupt_on_signals():
        try:
            yield Loader(namespace, create(), context, progress, restart=create)
        finally:
            _delete_loaders(namespace, guards, context, progress)


@contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP too, so that the loader is deleted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(number)

    # An ignored signal stays ignored, for example under nohup.
    signal_numbers = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN
    ]
    previous_handlers = {number: signal.signal(number, interrupt) for number in signal_numbers}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _delete_loaders(
    namespace: str, guards: Mapping[str, LoaderGuard], context: str | None, progress: TransferProgress
) -> None:
    """Delete loaders by their launch labels: their names may be unknown. The guards retry a failed deletion."""
    if not guards:
        return
    result = run_kubectl(*_deletion_arguments(namespace, [*guards]), context=context)
    if not result.returncode:
        for guard in guards.values():
            end_guard(guard)
        return
    progress.warn(
        f"data loader {namespace}/{[*guards][-1]} could not be deleted: "
        f"{result.stderr.decode(errors='replace').strip()}. The deletion is retried for one minute; a running loader "
        f"exits after {IDLE_SECONDS // 60} idle minutes"
    )


def _deletion_arguments(namespace: str, launches: Sequence[str]) -> tuple[str, ...]:
    """Return kubectl's arguments that delete the loaders of these launches."""
    selector = f"{LAUNCH} in ({', '.join(launches)})"
    return ("delete", "job", "-n", namespace, "-l", selector, "--wait=false", "--ignore-not-found")


def _delete_abandoned(settings: Settings, namespace: str, progress: TransferProgress) -> None:
    """Delete the stack's loaders that have been queued longer than any command waits."""
    context = settings.cluster.context
    try:
        jobs = read_loaders(settings.stack, [namespace], context)
    except ClusterError:
        return  # Creating the loader fails in the same way, and reports the cause.
    now = utc_now()
    for loader in find_waiting_loaders(jobs):
        deletion = ("delete", "job", loader.name, "-n", namespace, "--wait=false", "--ignore-not-found")
        if loader.is_abandoned(now) and not run_kubectl(*deletion, context=context).returncode:
            progress.info(f"deleted data loader {namespace}/{loader.name}, which a killed command left behind")


def loader_job(settings: Settings, namespace: str, volume: str, launch: str, nodes: Sequence[str] = ()) -> Manifest:
    """Return the loader's Job. It has no label of a run, so that no guard of runs applies to it.

    `nodes`: the only nodes that can mount the volume; () if every node can.
    """
    workload = temporary_loader(settings, namespace, volume, MOUNT).model_copy(
        update={
            "command": ("sh", "-c", _WAIT_SCRIPT, "sh", str(IDLE_SECONDS), str(IDLE_CHECK_SECONDS)),
            "active_deadline_seconds": _DEADLINE_SECONDS,
        }
    )
    image = settings.pinned_reference(settings.cluster.loader.image)
    facts = Facts(image=image, data_digest=None, wrapper="", commit="")
    job = manifest(workload, settings.stack, Launch(run_id=launch, name=launch, facts=facts))
    job["metadata"]["labels"].pop(RUN)
    if nodes:
        # By name: the label kubernetes.io/hostname may differ from it, and a tenant cannot read nodes.
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [*nodes]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        job["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
    return job


def _wait_for_pod(job: Mapping[str, Any], launch: str, context: str | None, progress: TransferProgress) -> str:
    """Wait for the loader's pod, report what it waits for, and return its name. Raises TransferError."""
    namespace, name, uid = (job["metadata"][key] for key in ("namespace", "name", "uid"))
    job_path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
    pods_path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(f'{LAUNCH}={launch}')}"
    job_selector = quote(f"kueue.x-k8s.io/job-uid={uid}")
    workloads_path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads?labelSelector={job_selector}"
    queue = job["metadata"]["labels"].get(QUEUE)
    # The controller may delete a failed pod before its Job reports the failure: the last known state is kept.
    started = time.monotonic()
    reported = state = last_pod_states = ""
    while True:
        try:
            responses = read([job_path, pods_path, workloads_path], context)
        except ClusterError as error:
            # The API server may be restarting; a lasting error ends the wait at the limit.
            state, limit = str(error), START_SECONDS
        else:
            if responses[pods_path].status == FORBIDDEN:
                raise TransferError(
                    f"these credentials may not list pods in {namespace}, which data loaders require; request the "
                    "rights to list pods and to create pods/exec from the cluster's administrator"
                )
            pods = responses[pods_path].body.get("items", [])
            for pod in pods:
                if _is_running(pod) and pod["metadata"]["ownerReferences"][0]["uid"] == uid:
                    return str(pod["metadata"]["name"])
            pod_states = ", ".join(describe_pod(pod) for pod in pods)
            last_pod_states = pod_states or last_pod_states
            live_job = responses[job_path].body
            if reason := "deleted" if responses[job_path].status == NOT_FOUND else _end_reason(live_job):
                raise TransferError(
                    f"data loader {namespace}/{name} ended: {reason}; last state of its pod: "
                    f"{last_pod_states or 'unknown'}. To find the cause, run `kubectl get events -n {namespace}`"
                )
            suspended = live_job.get("spec", {}).get("suspend", False)
            workloads = responses[workloads_path].body.get("items", [])
            queue_reason = "" if pods else _queue_reason(workloads, queue, suspended=suspended)
            state = queue_reason or pod_states or "no pod has been created yet"
            limit = QUEUE_SECONDS if queue_reason else START_SECONDS
        waited = time.monotonic() - started
        if state != reported and waited > _QUIET_SECONDS:
            progress.info(state)
            reported = state
        if waited > limit:
            raise TransferError(
                f"data loader {namespace}/{name} did not start within {limit} s: {state}. To find the cause, run "
                f"`kubectl describe job -n {namespace} {name}` and `kubectl get workloads -n {namespace}`"
            )
        time.sleep(_POLL_SECONDS)


def _is_running(pod: Mapping[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _end_reason(job: Mapping[str, Any]) -> str:
    """Return the reason why a Job ended, as its controller reports it; "" if it has not ended."""
    for condition in map(conditions_by_type(job).get, ("Failed", "Complete")):
        if condition and condition["status"] == "True":
            return f"{condition['type']}, {condition.get('reason', '')} {condition.get('message', '')}".strip(", ")
    return ""


def _queue_reason(workloads: Sequence[Mapping[str, Any]], queue: str | None, *, suspended: bool) -> str:
    """Return Kueue's reason for not admitting the loader; "" if it is admitted or not managed by Kueue."""
    conditions = {name: condition for workload in workloads for name, condition in conditions_by_type(workload).items()}
    if queue is None or not (workloads or suspended) or conditions.get("Admitted", {}).get("status") == "True":
        return ""
    reason = conditions.get("QuotaReserved", {}).get("message", "Kueue reports no reason yet")
    return f"queued in {queue}: {reason}"
