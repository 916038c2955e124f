"""What a run is doing: its conditions, its place in the queue, its last words."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from checks.cluster.client import ClusterError, read, read_text
from checks.launches import LiveLaunch, live_launch
from manifests import labels
from workloads.checkout import CONTAINER as CHECKOUT

_STEP = re.compile(r"epoch (?P<epoch>\d+)/(?P<epochs>\d+)(?: step (?P<step>\d+)/(?P<steps>\d+))?")
_JOB_UID = "kueue.x-k8s.io/job-uid"
_USUAL = (None, "PodInitializing", "ContainerCreating")
"""Reasons of a container that is only not yet running."""
_PULL = "the image {image} cannot be pulled: build and push it, or correct the run's `image`"
_IN_WORDS = {
    "ErrImagePull": _PULL,
    "ImagePullBackOff": _PULL,
    "InvalidImageName": "{image} is no name of an image: correct the run's `image`",
    "CrashLoopBackOff": "it ended, and is started again after a pause: read its log",
}


@dataclass(frozen=True)
class Condition:
    """One of the object's own conditions, as its controller set it."""

    type: str
    reason: str
    since: str
    """RFC 3339, in UTC."""


@dataclass(frozen=True)
class RunView:
    """A launch, seen from outside."""

    launch: LiveLaunch
    conditions: tuple[Condition, ...]
    queue: str | None
    admitted: bool
    """It holds quota now. False before, once it has ended, and for a run that no queue holds."""
    waits_because: str
    """Kueue's words for why it is not admitted; empty once it was."""
    pods: tuple[str, ...]
    """Each pod as `<name> <phase>`, with the reason where a container cannot start."""
    last_line: str
    """The last line of the first replica's log."""

    @property
    def done_fraction(self) -> float | None:
        """From 0 to 1, read from the log's `epoch 3/12 step 20/45`; None where it says nothing of the kind."""
        if self.launch.phase == "succeeded":
            return 1.0
        match = _STEP.search(self.last_line)
        if match is None:
            return None
        epoch, epochs = int(match["epoch"]), int(match["epochs"])
        steps = int(match["steps"] or 0)
        if not epochs or (match["step"] and not steps):
            return None
        within = int(match["step"]) / steps if match["step"] else 1.0
        return min(1.0, (epoch - 1 + within) / epochs)

    def summary(self) -> str:
        """One line for a person."""
        launch = self.launch
        if launch.phase == "queued":
            return f"queued in {self.queue}: {self.waits_because or 'Kueue has not judged it yet'}"
        stuck = [pod for pod in self.pods if ":" in pod]
        if launch.phase in ("running", "failed") and stuck:
            return f"{launch.phase}; {', '.join(stuck)}"
        return f"{launch.phase}; {self.last_line}" if self.last_line else launch.phase


def view_runs(bodies: Sequence[Mapping[str, Any]], context: str | None) -> list[RunView]:
    """Look at each launch's Workload, pods and log. Raises ClusterError."""
    asked: dict[str, tuple[int, str]] = {}
    for index, body in enumerate(bodies):
        metadata = body["metadata"]
        namespace = metadata["namespace"]
        of_job = quote(f"{_JOB_UID}={metadata['uid']}")
        of_launch = quote(f"{labels.LAUNCH}={metadata['labels'][labels.LAUNCH]}")
        workloads = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads?labelSelector={of_job}"
        asked[workloads] = (index, "workloads")
        asked[f"/api/v1/namespaces/{namespace}/pods?labelSelector={of_launch}"] = (index, "pods")
    answers = {asked[path]: answer.body.get("items", []) for path, answer in read(list(asked), context).items()}
    views = []
    for index, body in enumerate(bodies):
        pods = sorted(answers[index, "pods"], key=_rank)
        views.append(_view(body, answers[index, "workloads"], pods, _last_line(pods, context)))
    return views


def _view(
    body: Mapping[str, Any], workloads: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]], last_line: str
) -> RunView:
    status = body.get("status") or {}
    conditions = tuple(
        Condition(each["type"], each.get("reason", ""), each.get("lastTransitionTime", ""))
        for each in status.get("conditions") or ()
    )
    of_workload = {
        each["type"]: each for workload in workloads for each in workload.get("status", {}).get("conditions", ())
    }
    quota = of_workload.get("QuotaReserved", {})
    return RunView(
        launch=live_launch(body),
        conditions=conditions,
        queue=body["metadata"]["labels"].get(labels.QUEUE),
        admitted=of_workload.get("Admitted", {}).get("status") == "True",
        waits_because="" if quota.get("status") == "True" or "Finished" in of_workload else quota.get("message", ""),
        pods=tuple(describe_pod(pod) for pod in pods),
        last_line=last_line,
    )


def _rank(pod: Mapping[str, Any]) -> tuple[bool, str]:
    """The master first, then by name."""
    role = pod["metadata"]["labels"].get("training.kubeflow.org/replica-type", "master")
    return role != "master", pod["metadata"]["name"]


def describe_pod(pod: Mapping[str, Any]) -> str:
    """A pod as `<name> <phase>`, with the reason, in words, where a container cannot start."""
    status = pod.get("status", {})
    containers = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    waiting = [(each, each["state"]["waiting"]) for each in containers if "waiting" in each.get("state", {})]
    reasons = [_why(container, state["reason"]) for container, state in waiting if state.get("reason") not in _USUAL]
    reasons += filter(None, (_checkout_failure(each) for each in containers))
    line = f"{pod['metadata']['name']} {status.get('phase', 'Unknown')}"
    return f"{line}: {', '.join(dict.fromkeys(reasons))}" if reasons else line


def _checkout_failure(container: Mapping[str, Any]) -> str:
    """What the init container with the code last said; empty unless it failed."""
    if container["name"] != CHECKOUT:
        return ""
    states = (container.get("state", {}), container.get("lastState", {}))
    ended: Mapping[str, Any] = next((each["terminated"] for each in states if "terminated" in each), {})
    if not ended.get("exitCode"):
        return ""
    return str(ended.get("message") or "").strip() or "the checkout of the code failed: read its log"


def _why(container: Mapping[str, Any], reason: str) -> str:
    words = _IN_WORDS.get(reason)
    return f"{reason} ({words.format(image=container.get('image', ''))})" if words else reason


def _last_line(pods: Sequence[Mapping[str, Any]], context: str | None) -> str:
    if not pods or pods[0].get("status", {}).get("phase") in (None, "Pending", "Unknown"):
        return ""
    metadata = pods[0]["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log?tailLines=1"
    try:
        return read_text(path, context).strip()
    except ClusterError:  # a log comes from the pod's node, which may be away while the cluster is well
        return ""
