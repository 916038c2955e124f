"""The state of a launch's pods: role, index, phase, and the reason why a pod does not start."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.runs.manifests.git_init_container import CHECKOUT_CONTAINER as CHECKOUT
from trainstack.runs.manifests.kind import DEFAULT_REPLICA_ROLE
from trainstack.runs.status.attempts import PodAttempt, last_attempt
from trainstack.runs.status.launch_kinds import kind_of_launch
from trainstack.runs.status.main_container import main_container_name

_NORMAL_WAITING_REASONS = (None, "PodInitializing", "ContainerCreating")
"""Waiting reasons of a container that is starting normally."""
_PULL_FAILURE = "the image {image} cannot be pulled: build and push it, or correct the run's `image`"
_WAITING_REASONS = {
    "ErrImagePull": _PULL_FAILURE,
    "ImagePullBackOff": _PULL_FAILURE,
    "InvalidImageName": "{image} is not a valid image name: correct the run's `image`",
    "CrashLoopBackOff": "the container exited and restarts after a back-off: read its log",
    "CreateContainerConfigError": "{message}",
    "CreateContainerError": "{message}",
    "RunContainerError": "{message}",
}
_OUT_OF_MEMORY = "OOMKilled (it exceeded its memory limit: raise it in `resources`)"
_NO_NODE_AVAILABLE = re.compile(
    r"^0/(?P<all>\d+) nodes are available: (?P<why>.*?)\.?(?: no new claims to deallocate,?)?(?: preemption: .*)?$",
    re.DOTALL,
)
_CLAUSE = re.compile(r"^(?P<count>\d+) (?P<what>.*)$")
_NODE_REASONS: tuple[tuple[str, str], ...] = (
    (r"Insufficient (\S+)", r"too little \1 left"),
    (r"Too many pods", "reached the maximum number of pods"),
    (r"node\(s\) didn't match Pod's node affinity/selector", "labels that do not match its node selector"),
    (r"node\(s\) had untolerated taint(?:\(s\)| \{(.*?)(?:: )?\})?", r"an untolerated taint (\1)"),
    (r"node\(s\) were unschedulable", "been cordoned"),
    (r"node\(s\) had volume node affinity conflict", "no access to its volume (node affinity conflict)"),
    (r"node\(s\) didn't find available persistent volumes to bind", "no available volume that fits its claim"),
)
"""The scheduler's reasons against nodes, with the text that follows `N of M nodes have`."""
_UNBOUND_CLAIM = re.compile(r"pod has unbound immediate PersistentVolumeClaims")
_MISSING_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


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
    main_container: str
    problems: tuple[str, ...]
    """The reasons why the pod cannot start or continue; empty if it has no problem."""
    last_attempt: PodAttempt | None = None
    """The last attempt of the main container that has ended; None if none has."""


def pod_views(pods: Sequence[Mapping[str, Any]], kind: str) -> tuple[PodView, ...]:
    """Return the views of a launch's pods: first those of the kind's first roles, then by role and index."""
    workload_kind = kind_of_launch(kind)
    views = []
    # A kind without an index label numbers its pods by creation.
    pods_by_creation = sorted(
        pods, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"])
    )
    pods_per_role: Counter[str] = Counter()
    for pod in pods_by_creation:
        metadata, status = pod["metadata"], pod.get("status", {})
        pod_labels = labels_and_annotations(pod)
        role = pod_labels.get(workload_kind.role_label or "", DEFAULT_REPLICA_ROLE)
        index = pod_labels.get(workload_kind.index_label or "", "")
        spec = pod.get("spec", {})
        views.append(
            PodView(
                name=metadata["name"],
                uid=metadata["uid"],
                role=role,
                index=int(index) if index.isdigit() else pods_per_role[role],
                phase=status.get("phase", "Unknown"),
                node=spec.get("nodeName", ""),
                restarts=sum(container.get("restartCount", 0) for container in status.get("containerStatuses") or ()),
                containers=tuple(
                    str(container["name"])
                    for container in (*spec.get("initContainers", ()), *spec.get("containers", ()))
                ),
                main_container=main_container_name(pod),
                problems=pod_problems(pod),
                last_attempt=last_attempt(pod),
            )
        )
        pods_per_role[role] += 1
    first_roles = workload_kind.first_roles

    def sort_key(view: PodView) -> tuple[int, str, int, str]:
        role_rank = first_roles.index(view.role) if view.role in first_roles else len(first_roles)
        return role_rank, view.role, view.index, view.name

    return tuple(sorted(views, key=sort_key))


def labels_and_annotations(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations and labels of a pod. Its index is in either, depending on the version of Kubernetes."""
    return {**(pod["metadata"].get("annotations") or {}), **(pod["metadata"].get("labels") or {})}


def pod_problems(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the reasons why a pod is not scheduled, or why its containers do not start or continue."""
    status = pod.get("status", {})
    texts = [
        f"not scheduled: {explain_unscheduled(condition.get('message', ''))}"
        for condition in status.get("conditions") or ()
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    for container in containers:
        state, last_state = container.get("state") or {}, container.get("lastState") or {}
        waiting = state.get("waiting") or {}
        # The kubelet also reports CrashLoopBackOff for the pause after a success.
        completed = (last_state.get("terminated") or {}).get("exitCode") == 0
        if waiting.get("reason") not in _NORMAL_WAITING_REASONS and not (
            completed and waiting["reason"] == "CrashLoopBackOff"
        ):
            texts.append(_explain_waiting(container, waiting))
        terminated = state.get("terminated") or (last_state.get("terminated") if waiting else None) or {}
        if terminated.get("reason") == "OOMKilled":
            texts.append(_OUT_OF_MEMORY)
    texts += filter(None, map(_checkout_failure, containers))
    return tuple(dict.fromkeys(texts))


def explain_unscheduled(message: str) -> str:
    """Return the scheduler's message in plain words, or unchanged if it is unknown.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/ and the plugins' messages.
    """
    if claim := _MISSING_CLAIM.search(message):
        return f"volume claim {claim[1]} does not exist"
    if _UNBOUND_CLAIM.search(message):
        return "its volume claim is not bound yet: is there a provisioner for the claim's storage class?"
    match = _NO_NODE_AVAILABLE.match(message)
    if match is None:
        return message or "the scheduler gave no reason"
    # `1 Insufficient cpu, 2 node(s) had untolerated taint {a: b, c}`: clauses end at commas before a count.
    return "; ".join(_explain_clause(clause, match["all"]) for clause in re.split(r", (?=\d+ )", match["why"]))


def _explain_clause(text: str, nodes: str) -> str:
    match = _CLAUSE.match(text)
    if match is None:
        return text
    for pattern, words in _NODE_REASONS:
        if reason_match := re.fullmatch(pattern, match["what"]):
            phrase = reason_match.expand(words).replace(" ()", "")
            return f"{match['count']} of {nodes} nodes {'has' if match['count'] == '1' else 'have'} {phrase}"
    return f"{match['count']} of {nodes} nodes: {match['what']}"


def _checkout_failure(container: Mapping[str, Any]) -> str:
    """Return the termination message of the checkout's init container; empty unless it failed."""
    if container["name"] != CHECKOUT:
        return ""
    states = (container.get("state", {}), container.get("lastState", {}))
    terminated: Mapping[str, Any] = next((state["terminated"] for state in states if "terminated" in state), {})
    if not terminated.get("exitCode"):
        return ""
    return str(terminated.get("message") or "").strip() or "the checkout of the code failed: read its log"


def _explain_waiting(container: Mapping[str, Any], waiting: Mapping[str, Any]) -> str:
    reason, message = waiting["reason"], waiting.get("message", "")
    words = _WAITING_REASONS.get(reason, "{message}").format(image=container.get("image", ""), message=message)
    return f"{reason} ({words})" if words else str(reason)
