"""The state of a launch's pods: role, index, phase, and the reason why a pod does not start."""

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
"""The scheduler's reasons against nodes, with the text that follows `N of M nodes have`."""
_UNBOUND = re.compile(r"pod has unbound immediate PersistentVolumeClaims")
_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


@dataclass(frozen=True)
class PodView:
    """The state of a pod of a launch."""

    name: str
    uid: str
    """The uid, which distinguishes the pod from a later one of the same name: a PyTorchJob reuses names."""
    role: str
    """The role in lower case: `master`, `worker`; `pod` if the kind has no roles."""
    index: int
    """The index within the role, from 0; in the order of creation if the kind has no index."""
    phase: str
    node: str
    """The name of the node; empty until the pod is scheduled."""
    restarts: int
    """The number of restarts of all its containers."""
    containers: tuple[str, ...]
    """The names of the init containers and then of the others, in the pod's order."""
    problems: tuple[str, ...]
    """The reasons why the pod cannot start or continue; empty if it has no problem."""
    last_attempt: Attempt | None = None
    """The last attempt of the main container that has ended; None if none has."""


def pod_views(pods: Sequence[Mapping[str, Any]], kind: str) -> tuple[PodView, ...]:
    """Return the views of a launch's pods: first those of the kind's first roles, then by role and index."""
    facts = kind_of_launch(kind)
    views = []
    # A kind without an index label numbers its pods by creation.
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
    """Return the annotations and labels of a pod. Its index is in either, depending on the version of Kubernetes."""
    return {**(pod["metadata"].get("annotations") or {}), **(pod["metadata"].get("labels") or {})}


def problems(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the reasons why a pod is not scheduled, or why its containers do not start or continue."""
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
    """Return the scheduler's message in plain words, or unchanged if it is unknown.

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
    """Return the termination message of the checkout's init container; empty unless it failed."""
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
