"""Data loaders that have not started. Pure.

A started loader ends when no command uses it, and an admitted one at its Job's deadline. Neither Kubernetes nor Kueue
applies a deadline to a queued Job.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from trainstack.lifecycle.recovery.problem import Problem
from trainstack.objects.labels import QUEUE

QUEUE_SECONDS = 24 * 3600
"""The timeout of a command for the admission of its loader."""
START_SECONDS = 600
"""The timeout of a command for the start of its loader's pod."""
_USUAL_START = timedelta(seconds=30)
"""A loader usually starts within a few seconds of its admission."""


@dataclass(frozen=True)
class WaitingLoader:
    """The Job of a data loader whose pod has not started."""

    namespace: str
    name: str
    created: datetime
    queue: str | None
    """The LocalQueue that has not admitted it; None if it was admitted or needs no admission."""

    def is_abandoned(self, now: datetime) -> bool:
        """Return whether its command's timeouts have passed."""
        return now - self.created > timedelta(seconds=QUEUE_SECONDS + START_SECONDS)


def find_waiting_loaders(jobs: Collection[Mapping[str, Any]]) -> list[WaitingLoader]:
    return [
        WaitingLoader(
            namespace=job["metadata"]["namespace"],
            name=job["metadata"]["name"],
            created=datetime.fromisoformat(job["metadata"]["creationTimestamp"]),
            queue=job["metadata"]["labels"].get(QUEUE) if job["spec"].get("suspend") else None,
        )
        for job in jobs
        if "deletionTimestamp" not in job["metadata"] and not _has_started(job.get("status", {}))
    ]


def loader_problems(waiting_loaders: Collection[WaitingLoader], now: datetime) -> Iterator[Problem]:
    """Yield a problem for each loader that waits for longer than usual: a killed command may have left it."""
    for loader in sorted(waiting_loaders, key=lambda loader: (loader.namespace, loader.name)):
        if now - loader.created > _USUAL_START:
            cause = f"queue {loader.queue} has not admitted it" if loader.queue else "its pod has not started"
            yield Problem(
                "loader-waiting",
                f"Job {loader.namespace}/{loader.name}",
                f"a command created this data loader at {loader.created:%Y-%m-%d %H:%M:%S} UTC, and {cause}. A command "
                "that is still waiting for it prints the reason; if it was killed, delete the loader",
                (f"kubectl delete job {loader.name} -n {loader.namespace}",),
            )


def _has_started(status: Mapping[str, Any]) -> bool:
    return any(status.get(key) for key in ("ready", "succeeded", "failed")) or any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in status.get("conditions", ())
    )
