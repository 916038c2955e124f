"""The state of a launch's pods: role, index, phase, and why a pod does not start."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.runs.manifests.git_init_container import CONTAINER as CHECKOUT
from trainstack.runs.manifests.kind import ONLY_ROLE
from trainstack.runs.status.attempts import Attempt, last_attempt
from trainstack.runs.status.kinds import kind_of_launch

_USUAL = (None, "PodInitializing", "ContainerCreating")
"""Waiting reasons of a container that is starting normally."""
_PULL = "the image {image} cannot be pulled: build and push it, or correct the run's `image`"
_IN_WORDS = {
    "ErrImagePull": _PULL,
    "ImagePullBackOff": _PULL,
    "InvalidImageName": "{image} is not a valid image name: correct the run's `image`",
    "CrashLoopBackOff": "the container exited and restarts after a back-off: read its log",
    "CreateContainerConfigError": "{message}",
    "CreateContainerError": "{message}",
    "RunContainerError": "{message}",
}
_MEMORY = "OOMKilled (it exceeded its memory limit: raise it in `resources`)"
_NODES = re.compile(
    r"^0/(?P<all>\d+) nodes are available: (?P<why>.*?)\.?(?: no new claims to deallocate,?)?(?: preemption: .*)?$",
    re.DOTALL,
)
_CLAUSE = re.compile(r"^(?P<count>\d+) (?P<what>.*)$")
_UNSCHEDULED: tuple[tuple[str, str], ...] = (
    (r"Insufficient (\S+)", r"too little \1 left"),
    (r"Too many pods", "reached the maximum number of pods"),
    (r"node\(s\) didn't match Pod's node affinity/selector", "labels that do not match its node selector"),
    (r"node\(s\) had untolerated taint(?:\(s\)| \{(.*?)(?:: )?\})?", r"an untolerated taint (\1)"),
    (r"node\(s\) were unschedulable", "been cordoned"),
    (r"node\(s\) had volume node affinity conflict", "no access to its volume (node affinity conflict)"),
    (r"node\(s\) didn't find available persistent volumes to bind", "no available volume that fits its claim"),
)
"""Messages of the scheduler about nodes, and the text after `N of M nodes have`."""
_UNBOUND = re.compile(r"pod has unbound immediate PersistentVolumeClaims")
_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


@dataclass(frozen=True)
class PodView:
    name: str
    uid: str
    """Distinguishes it from a later pod of the same name: a PyTorchJob reuses names."""
    role: str
    """In lower case: `master`, `worker`; `pod` if the kind has no roles."""
    index: int
    """Within its role, from 0; in the order of creation if the kind has no index."""
    phase: str
    node: str
    """Empty until it is scheduled."""
    restarts: int
    """The total of its containers."""
    containers: tuple[str, ...]
    """The init containers, then the others, each in the pod's order."""
    problems: tuple[str, ...]
    """Why it cannot start or continue; empty if it has no problem."""
    last_attempt: Attempt | None = None
    """How its main container last ended; None if it has not ended yet."""


def pod_views(pods: Sequence[Mapping[str, Any]], kind: str) -> tuple[PodView, ...]:
    """The pods of a launch of this kind, those of the kind's first roles first, then by role and index."""
    facts = kind_of_launch(kind)
    views = []
    made = sorted(pods, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]))
    seen: Counter[str] = Counter()
    for pod in made:
        metadata, status = pod["metadata"], pod.get("status", {})
        own = marks(pod)
        role = own.get(facts.role_label or "", ONLY_ROLE)
        index = own.get(facts.index_label or "", "")
        spec = pod.get("spec", {})
        views.append(
            PodView(
                name=metadata["name"],
                uid=metadata["uid"],
                role=role,
                index=int(index) if index.isdigit() else seen[role],
                phase=status.get("phase", "Unknown"),
                node=spec.get("nodeName", ""),
                restarts=sum(each.get("restartCount", 0) for each in status.get("containerStatuses") or ()),
                containers=tuple(
                    str(each["name"]) for each in (*spec.get("initContainers", ()), *spec.get("containers", ()))
                ),
                problems=problems(pod),
                last_attempt=last_attempt(pod),
            )
        )
        seen[role] += 1
    first = facts.first_roles

    def order(view: PodView) -> tuple[int, str, int, str]:
        place = first.index(view.role) if view.role in first else len(first)
        return place, view.role, view.index, view.name

    return tuple(sorted(views, key=order))


def marks(pod: Mapping[str, Any]) -> dict[str, str]:
    """The annotations and labels of a pod: which of them has its index depends on the version of Kubernetes."""
    return {**(pod["metadata"].get("annotations") or {}), **(pod["metadata"].get("labels") or {})}


def problems(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Why a pod is not scheduled, or why its containers do not start or continue."""
    status = pod.get("status", {})
    found = [
        f"not scheduled: {unscheduled(each.get('message', ''))}"
        for each in status.get("conditions") or ()
        if each["type"] == "PodScheduled" and each["status"] == "False"
    ]
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    for container in containers:
        state, before = container.get("state") or {}, container.get("lastState") or {}
        waiting = state.get("waiting") or {}
        # The kubelet also reports CrashLoopBackOff for the pause after a success.
        completed = (before.get("terminated") or {}).get("exitCode") == 0
        if waiting.get("reason") not in _USUAL and not (completed and waiting["reason"] == "CrashLoopBackOff"):
            found.append(_why(container, waiting))
        ended = state.get("terminated") or (before.get("terminated") if waiting else None) or {}
        if ended.get("reason") == "OOMKilled":
            found.append(_MEMORY)
    found += filter(None, map(_checkout_failure, containers))
    return tuple(dict.fromkeys(found))


def unscheduled(message: str) -> str:
    """The scheduler's reason in plain words; an unknown message is returned unchanged.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/ and the plugins' messages.
    """
    if claim := _NO_CLAIM.search(message):
        return f"volume claim {claim[1]} does not exist"
    if _UNBOUND.search(message):
        return "its volume claim is not bound yet: is there a provisioner for the claim's storage class?"
    match = _NODES.match(message)
    if match is None:
        return message or "the scheduler gave no reason"
    # `1 Insufficient cpu, 2 node(s) had untolerated taint {a: b, c}`: clauses end at commas before a count.
    return "; ".join(_clause(each, match["all"]) for each in re.split(r", (?=\d+ )", match["why"]))


def _clause(text: str, nodes: str) -> str:
    match = _CLAUSE.match(text)
    if match is None:
        return text
    for pattern, words in _UNSCHEDULED:
        if found := re.fullmatch(pattern, match["what"]):
            phrase = found.expand(words).replace(" ()", "")
            return f"{match['count']} of {nodes} nodes {'has' if match['count'] == '1' else 'have'} {phrase}"
    return f"{match['count']} of {nodes} nodes: {match['what']}"


def _checkout_failure(container: Mapping[str, Any]) -> str:
    """The termination message of the checkout's init container; empty unless it failed."""
    if container["name"] != CHECKOUT:
        return ""
    states = (container.get("state", {}), container.get("lastState", {}))
    ended: Mapping[str, Any] = next((each["terminated"] for each in states if "terminated" in each), {})
    if not ended.get("exitCode"):
        return ""
    return str(ended.get("message") or "").strip() or "the checkout of the code failed: read its log"


def _why(container: Mapping[str, Any], waiting: Mapping[str, Any]) -> str:
    reason, message = waiting["reason"], waiting.get("message", "")
    words = _IN_WORDS.get(reason, "{message}").format(image=container.get("image", ""), message=message)
    return f"{reason} ({words})" if words else str(reason)
