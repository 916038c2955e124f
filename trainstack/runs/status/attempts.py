"""The attempts of a pod's main container: Kubernetes keeps the last one that ended, and its log, over a restart."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainstack.runs.status.main_container import trainer

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Attempt:
    exit_code: int
    reason: str
    """The kubelet's: `Completed`, `Error`, `OOMKilled`."""
    finished: datetime | None

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0


def main_container(pod: Body) -> str:
    """The name of the training container; empty for a pod without containers."""
    names = [str(container["name"]) for container in pod.get("spec", {}).get("containers") or ()]
    return trainer(names) if names else ""


def main_status(pod: Body) -> Body:
    """The status of the training container; empty before it has one."""
    name = main_container(pod)
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((status for status in statuses if status["name"] == name), {})


def ended_attempt(pod: Body) -> Attempt | None:
    """The current attempt; None unless it has ended."""
    return _ended(main_status(pod).get("state"))


def previous_attempt(pod: Body) -> Attempt | None:
    """The attempt before the current one; None before the first restart."""
    return _ended(main_status(pod).get("lastState"))


def last_attempt(pod: Body) -> Attempt | None:
    """The last attempt that has ended; None before the first has."""
    return ended_attempt(pod) or previous_attempt(pod)


def endless(body: Body) -> bool:
    """Whether an object is a Pod with `restartPolicy: Always` and no deadline, which restarts until it is deleted."""
    spec = body.get("spec") or {}
    return body.get("kind") == "Pod" and spec.get("restartPolicy") == "Always" and "activeDeadlineSeconds" not in spec


def _ended(state: Body | None) -> Attempt | None:
    ended = (state or {}).get("terminated")
    if not ended:
        return None
    return Attempt(
        exit_code=int(ended.get("exitCode") or 0),
        reason=str(ended.get("reason") or ""),
        finished=time_of(ended.get("finishedAt")),
    )


def time_of(text: str | None) -> datetime | None:
    """Parse a time of an object's status; None if it is not set."""
    return datetime.fromisoformat(text) if text else None
