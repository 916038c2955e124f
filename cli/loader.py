"""A data loader: a pod that only waits, started so that files can go through it to and from a volume.

It is a Job on the run's queue, as every pod of a tenant has to be, and it is deleted afterwards, also on Ctrl-C. What
a broken connection leaves behind, its deadline ends.
"""

import json
import os
import secrets
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO
from urllib.parse import quote

from checks.cluster.client import read
from checks.cluster.progress import describe_pod
from cli.console import fail, step
from cli.kubectl import command, exec_words, kubectl
from manifests.labels import LAUNCH, RUN, Manifest
from settings.model import Settings
from settings.workloads import Image, Mount, Resources, Workload
from workloads.build import manifest
from workloads.data_loader import CONTAINER
from workloads.identity import Facts
from workloads.launch import Launch

MOUNT = "/mnt/volume"
_START_SECONDS = 600
_LIFE_SECONDS = 6 * 3600
_PAUSE_SECONDS = 0.5
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Loader:
    """A running data loader."""

    namespace: str
    pod: str
    context: str | None
    container: str = CONTAINER


@contextmanager
def data_loader(settings: Settings, namespace: str, volume: str) -> Iterator[Loader]:
    """A data loader with the volume at MOUNT, for as long as the block runs."""
    job = loader_job(settings, namespace, volume, f"loader-{secrets.token_hex(4)}")
    name, context = job["metadata"]["name"], settings.cluster.context
    made = kubectl("create", "-f", "-", context=context, stdin=json.dumps(job).encode())
    if made.returncode:
        fail(f"no data loader can be started in {namespace}: {made.stderr.decode().strip()}")
    try:
        with step(f"waiting for data loader {namespace}/{name}", "5 s once the queue lets it in"):
            pod = _running_pod(namespace, name, context)
        yield Loader(namespace, pod, context)
    finally:
        kubectl("delete", "job", "-n", namespace, name, "--wait=false", context=context)


def in_pod(loader: Loader, script: str, folder: str) -> list[str]:
    """The words that run a shell script in a loader's pod; its $1 is the path of a folder of the volume there."""
    try:
        folder.encode()
    except UnicodeEncodeError:
        fail(f"{folder!r} is no UTF-8, which the folder after the colon has to be; what lies in it need not")
    words = exec_words(loader.namespace, loader.pod, loader.container, script, f"{MOUNT}/{folder.strip('/')}")
    return command(*words, context=loader.context)


@contextmanager
def running(
    loader: Loader, what: str, script: str, folder: str, *, stdin: int | IO[bytes], stdout: int | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A script in the loader's pod, for as long as the block runs. It must end well, or the command fails.

    Where the block fails the script is killed first: it may wait for ever to be rid of what nobody reads any more.
    """
    # Errors go into a file, since a full pipe would stop it too.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            in_pod(loader, script, folder), stdin=stdin, stdout=stdout, stderr=errors, env=os.environ
        )
        broken = ""
        try:
            yield process
            while process.stdout and process.stdout.read(_CHUNK):
                pass
        except (tarfile.TarError, BrokenPipeError) as error:
            broken = str(error)
            process.kill()
        except BaseException:
            process.kill()
            raise
        finally:
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError):
                    pipe.close()
            process.wait()
        if process.returncode or broken:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            fail(
                f"the {what} broke off: {said or broken or f'kubectl ended with {process.returncode}'}. What arrived "
                "whole stays; run the same command again and it goes on from there"
            )


def loader_job(settings: Settings, namespace: str, volume: str, name: str) -> Manifest:
    """The loader's Job: on the queue of the runs that mount the volume, and as their user, so that all may write.

    It carries no run's label: it is no run, and no guard of runs stands before it.
    """
    users = [
        run
        for run in settings.workloads.runs
        if run.namespace == namespace and any(mount.volume == volume for mount in run.volumes)
    ]
    queues = [run.queue for run in users if run.queue]
    queues += [queue.name for queue in settings.queues.local_queues if queue.namespace == namespace]
    workload = Workload(
        name="loader",
        kind="DataLoader",
        namespace=namespace,
        queue=queues[0] if queues else None,
        managed=False,
        image=Image(name=settings.cluster.loader_image),
        volumes=(Mount(volume=volume, mount_path=MOUNT),),
        resources=Resources(requests={"cpu": "50m", "memory": "64Mi"}, limits={"cpu": "1", "memory": "256Mi"}),
        run_as_user=users[0].run_as_user if users and users[0].run_as_user else 1000,
        active_deadline_seconds=_LIFE_SECONDS,
        backoff_limit=0,
        ttl_seconds_after_finished=0,
    )
    facts = Facts(image=settings.cluster.loader_image, data_digest=None, wrapper="", commit="")
    job = manifest(workload, settings.stack, Launch(run_id=name, name=name, facts=facts))
    job["metadata"]["labels"].pop(RUN)
    return job


def _running_pod(namespace: str, name: str, context: str | None) -> str:
    pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(f'{LAUNCH}={name}')}"
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        found = read([pods], context)[pods].body.get("items", [])
        for pod in found:
            if pod.get("status", {}).get("phase") == "Running":
                return str(pod["metadata"]["name"])
        time.sleep(_PAUSE_SECONDS)
    state = ", ".join(describe_pod(pod) for pod in found) or "the queue has not admitted it"
    return fail(
        f"data loader {namespace}/{name} did not start within {_START_SECONDS} s: {state}. See why: "
        f"kubectl describe job -n {namespace} {name}; kubectl get workloads -n {namespace}"
    )
