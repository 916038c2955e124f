"""A Job that waits with volumes mounted, so that files can be copied through its pod."""

from dataclasses import replace

from trainstack.objects.labels import Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.job import JOB, job
from trainstack.runs.role_pods import role_pods
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Image, Mount, Workload

LOADER_CONTAINER = "data-loader"
"""The container's name, for `kubectl cp -c` and `exec -c`."""

# As PID 1 of its container, `sleep` alone would ignore SIGTERM until SIGKILL 30 seconds later. The exit status 143
# (terminated by SIGTERM) marks a stopped loader as not completed.
WAIT_COMMAND = ("sh", "-c", "trap 'exit 143' TERM; while :; do sleep 3600 & wait $!; done")


def temporary_loader(settings: Settings, namespace: str, volume: str, mount_path: str) -> Workload:
    """Return the loader of the command line, which mounts one volume.

    It has the user and groups of the runs that mount the volume, so that the runs can write to the files.
    """
    loader = settings.cluster.loader
    users = [
        (run, pods)
        for _, run in settings.runs_and_trials()
        for pods in (role_pods(run) if run.namespace == namespace else ())
        if any(mount.volume == volume for mount in pods.volumes)
    ]
    queues = [loader.queue] if loader.queue else [run.queue for run, _ in users if run.queue]
    queues += [queue.name for queue in settings.queues.local_queues if queue.namespace == namespace]
    # MultiKueue would start the loader in another cluster, with another volume.
    queues = [queue for queue in queues if not settings.queues.is_dispatched(namespace, queue)]
    return Workload(
        name=loader.name,
        kind="DataLoader",
        naming=loader.naming,
        namespace=namespace,
        queue=queues[0] if queues else None,
        managed=False,
        image=Image(name=loader.image),
        image_pull_secrets=loader.image_pull_secrets,
        volumes=(Mount(volume=volume, mount_path=mount_path),),
        resources=loader.resources,
        run_as_user=(users[0][1].run_as_user if users else None) or 1000,
        run_as_group=users[0][1].run_as_group if users else None,
        fs_group=users[0][1].fs_group if users else None,
        backoff_limit=0,
        ttl_seconds_after_finished=0,
    )


def data_loader(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the Job of a data loader. Without a command, it waits until it is deleted or its deadline has passed."""
    loader_workload = workload if workload.command else workload.model_copy(update={"command": WAIT_COMMAND})
    return job(loader_workload, stack, launch, container=LOADER_CONTAINER)


DATA_LOADER = replace(JOB, build=data_loader, managed_by=None)
