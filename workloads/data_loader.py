"""A Job that only waits, with the volumes mounted, so that files can be copied through it."""

from manifests.labels import Manifest
from settings.workloads import Workload
from workloads.job import job
from workloads.launch import Launch

CONTAINER = "data-loader"
"""The container's name, for `kubectl cp -c` and `exec -c`."""

# As the first process of its container, `sleep` alone would ignore SIGTERM and die of SIGKILL half a minute later.
# 143, the status of a process that SIGTERM ended: a loader that was stopped has not completed.
WAIT = ("sh", "-c", "trap 'exit 143' TERM; while :; do sleep 3600 & wait $!; done")


def data_loader(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """The Job. It waits unless the workload says what else to do, and ends when it is deleted or its time is up."""
    waiting = workload if workload.command else workload.model_copy(update={"command": WAIT})
    return job(waiting, stack, launch, container=CONTAINER)
