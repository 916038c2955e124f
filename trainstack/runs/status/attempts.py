"""The attempts of a pod's main container. After a restart, Kubernetes keeps the state and log of the previous one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainstack.runs.status.main_container import main_container_name

Body = Mapping[str, Any]


@dataclass(frozen=True)
class PodAttempt:
    """An attempt of a main container that has ended."""

    exit_code: int
    reason: str
    """The reason as reported by the kubelet: `Completed`, `Error`, `OOMKilled`."""
    finished: datetime | None

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0


def main_status(pod: Body) -> Body:
    """Return the status of the training container; empty before it has one."""
    name = main_container_name(pod)
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return next((status for status in statuses if status["name"] == name), {})


def ended_attempt(pod: Body) -> PodAttempt | None:
    """Return the current attempt; None unless it has ended."""
    return _terminated_attempt(main_status(pod).get("state"))


def previous_attempt(pod: Body) -> PodAttempt | None:
    """Return the attempt before the current one; None before the first restart."""
    return _terminated_attempt(main_status(pod).get("lastState"))


def last_attempt(pod: Body) -> PodAttempt | None:
    """Return the last attempt that has ended; None if none has ended yet."""
    return ended_attempt(pod) or previous_attempt(pod)


def is_endless(body: Body) -> bool:
    """Return whether an object is a Pod with `restartPolicy: Always` and no deadline: it restarts until deleted."""
    spec = body.get("spec") or {}
    return body.get("kind") == "Pod" and spec.get("restartPolicy") == "Always" and "activeDeadlineSeconds" not in spec


def _terminated_attempt(state: Body | None) -> PodAttempt | None:
    terminated = (state or {}).get("terminated")
    if not terminated:
        return None
    return PodAttempt(
        exit_code=int(terminated.get("exitCode") or 0),
        reason=str(terminated.get("reason") or ""),
        finished=parse_time(terminated.get("finishedAt")),
    )


def parse_time(text: str | None) -> datetime | None:
    """Parse a time of an object's status; None if it is not set."""
    return datetime.fromisoformat(text) if text else None
