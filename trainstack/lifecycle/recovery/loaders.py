"""Data loaders of commands that have not started: what they wait for, and whether a command can still be there.

Pure: Jobs as the API has them come in. One that has started ends by itself when nothing uses it, and one whose pod
cannot start when its deadline is over. While a queue holds a Job back no deadline counts, in Kubernetes or in Kueue.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from trainstack.lifecycle.recovery.problem import Trouble
from trainstack.objects.labels import QUEUE

QUEUE_SECONDS = 24 * 3600
"""How long a command waits for a queue to let its loader in."""
START_SECONDS = 600
"""How long a command waits for its loader's pod to start."""
_USUAL_START = timedelta(seconds=30)
"""A loader starts within a few seconds of its admission; before this much time it is no finding."""


@dataclass(frozen=True)
class WaitingLoader:
    """A loader without a running pod."""

    namespace: str
    name: str
    created: datetime
    held_by: str | None
    """The LocalQueue that has not let it in."""

    def abandoned(self, now: datetime) -> bool:
        """Whether it is older than any command waits."""
        return now - self.created > timedelta(seconds=QUEUE_SECONDS + START_SECONDS)


def waiting_loaders(jobs: Collection[Mapping[str, Any]]) -> list[WaitingLoader]:
    """Those loaders that wait for their queue or for their pod, from their Jobs."""
    return [
        WaitingLoader(
            namespace=job["metadata"]["namespace"],
            name=job["metadata"]["name"],
            created=datetime.fromisoformat(job["metadata"]["creationTimestamp"]),
            held_by=job["metadata"]["labels"].get(QUEUE) if job["spec"].get("suspend") else None,
        )
        for job in jobs
        if "deletionTimestamp" not in job["metadata"] and not _has_started(job.get("status", {}))
    ]


def loader_troubles(waiting: Collection[WaitingLoader], now: datetime) -> Iterator[Trouble]:
    """Loaders that wait for longer than usual: each may be what a killed command left."""
    for each in sorted(waiting, key=lambda each: (each.namespace, each.name)):
        if now - each.created > _USUAL_START:
            held = f"queue {each.held_by} has not admitted it" if each.held_by else "its pod has not started"
            yield Trouble(
                "loader-waiting",
                f"Job {each.namespace}/{each.name}",
                f"a command created this data loader at {each.created:%Y-%m-%d %H:%M:%S} UTC, and {held}. A command "
                "that is still waiting for it prints the reason; if it was killed, delete the loader",
                (f"kubectl delete job {each.name} -n {each.namespace}",),
            )


def _has_started(status: Mapping[str, Any]) -> bool:
    """Whether a pod of the Job is ready or has ended; then its own limits count."""
    return any(status.get(key) for key in ("ready", "succeeded", "failed")) or any(
        each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in status.get("conditions", ())
    )
