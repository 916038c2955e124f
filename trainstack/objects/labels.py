"""Labels and annotations that we write or rely on, and the metadata every object of ours has.

Each constant says what it means, what its values may be, and who reads it.
"""

import re
from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]
"""A Kubernetes object as the API takes it: plain dicts, lists, strings, integers and booleans."""

LIMIT = 63
"""Characters that Kubernetes allows in a label's value, a Service's name and a pod's host name."""

MANAGED_BY = "app.kubernetes.io/managed-by"
"""The tool that owns the object. Always `trainstack`. Read by people and by other tools' garbage collection."""

OWNER = "trainstack"
"""The value of MANAGED_BY on everything that we make."""

STACK = "trainstack.dev/stack"
"""Our ownership mark: the stack that declares the object. Up to 63 characters. Read before every create, since a
server-side apply would silently take over what somebody else made."""

STATE = "trainstack.dev/state"
"""Annotation: the identity of the engine's state that declares the object, 32 hexadecimal digits, made with the state
and kept in it. Two checkouts may have a stack of one name, each with a state of its own: neither changes the other's
objects. Read before every change; written where objects are declared to the engine."""

RUN = "trainstack.dev/run"
"""The run's id, `<workload>-<10 hex>`. On launches, their pods and their ledgers. Read by the launch rules, the CLI."""

WORKLOAD = "trainstack.dev/workload"
"""The workload's name, up to 45 characters. On launches, their pods and their ledgers. Read by the CLI and people."""

LAUNCH = "trainstack.dev/launch"
"""The launch's name, `<run-id>-<6 hex>`, also where its object has another. On launches and their pods. Read by the
launch rules, and by the CLI to find a launch's pods."""

SWEEP = "trainstack.dev/sweep"
"""The sweep's name. On the launches of its trials, their pods and ledgers, and on the ConfigMaps with its parameter
file. Read by the launch rules of sweeps, the CLI and people."""

SET = "trainstack.dev/set"
"""The id of a trial's parameter set, 10 hex. On launches of one trial and their pods; the launch of a sweep that has no
such label is an Indexed Job of many. Read by the launch rules of sweeps, and by people."""

LEDGER = "trainstack.dev/ledger"
"""Marks a ConfigMap that remembers a launch; its value says of what: `run`, or `batch` for the Indexed Job of many
trials. Read by the launch rules."""

CLAIM = "trainstack.dev/claim"
"""Annotation of a ledger that claims the launch it holds: when the claim was made, in RFC 3339. The ledger is a claim
until its data has `launched`, which the engine adds after the launch. Read by the launch rules and by the doctor."""

OUTCOME = "trainstack.dev/outcome"
"""Annotation of the ledger of an unmanaged trial that has ended: how, and the metrics in its log, as JSON. Written and
read by the commands that read a sweep, since pod and log do not last."""

AFTER = "trainstack.dev/after"
"""Annotation of a launch that took the place of one that was being deleted: that one's UID. By it the engine, which may
still hold the old one, knows the new one for another."""

WRAPPER = "trainstack.dev/wrapper"
"""Marks a ConfigMap that holds the wrapper's source; its value is always `run`. Read by the launch rules: a launch
keeps the wrapper that it was launched with."""

CONFIG_HASH = "trainstack.dev/config-hash"
"""Annotation of a controller's pods: 16 hex of the configuration they were started with. Read by nobody: a change of it
restarts the pods, which read their configuration once."""

QUEUE = "kueue.x-k8s.io/queue-name"
"""The LocalQueue, in the object's namespace, that holds the object until its quota is there. Read by Kueue."""

PRIORITY = "kueue.x-k8s.io/priority-class"
"""A WorkloadPriorityClass: orders the queue. Read by Kueue when it makes the Workload."""

RELEASE = "app.kubernetes.io/version"
"""The release that an operator's object comes from, as `v0.15.2`. On the definitions and Deployments of operators. Read
before a change, which must not put an older release in the place of a newer one."""

PREPARED = "trainstack.dev/prepared-for"
"""Label of a namespace that an administrator has created from `rights/<stack>.yaml`: the stack that may declare it. It
is nobody's until that stack does. Read before every create."""

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""Annotation of a Job: the fewest pods at once that it may be admitted with, 1 to one less than it asks for. Read by
Kueue, which then writes the count that it gave into `parallelism`."""

SKIP_AWAIT = "pulumi.com/skipAwait"
"""Annotation, `"true"`: the engine does not wait for the object to be ready. On Jobs, which wait in queues for longer
than any `up` should, and on claims, whose check hangs on updates. Read by the Kubernetes provider."""

FIELD_MANAGER = "pulumi.com/patchFieldManager"
"""Annotation: who owns the fields that we declare under server-side apply, as `field_manager` names it. Without it the
provider generates a name for every resource, which conflicts with its own fields on an object that an interrupted `up`
left behind. Read by the Kubernetes provider; written where objects are declared to it."""

RETAIN = "trainstack.dev/retain"
"""Annotation, `"false"`, on claims that go with their stack, or when no setting names them any more; on others there is
none. Written so that it is known of a claim that the files do not name. Read by the guard of volumes."""

PATCH_FORCE = "pulumi.com/patchForce"
"""Annotation, `"true"`: a server-side apply takes fields over that somebody else has set; without it such an object is
refused when `up` comes to it. On objects that are adopted. Read by the Kubernetes provider."""

LOCAL_CLUSTER = "trainstack.dev/local-cluster"
"""Annotation of the namespace kube-system, set by our local cluster alone: which one it is, the same after each reset,
since throwing its objects away is what a reset is for. Read, instead of that namespace's UID, where a stack makes sure
of its cluster."""

POD_SECURITY = "pod-security.kubernetes.io/"
"""What the labels of a namespace begin with that say which pods it takes: `enforce`, `warn`, `audit`. Each is
`restricted`, `baseline` or `privileged`. Read by the API server."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Set on every namespace by the API server to its name. Read by selectors of namespaces."""

HOSTNAME = "kubernetes.io/hostname"
"""Set on every node by its kubelet. Read by volumes that stand on one node."""


def with_state(metadata: Mapping[str, Any], identity: str) -> Manifest:
    """An object's metadata with the identity and the field manager of the state that declares it."""
    own = {STATE: identity, FIELD_MANAGER: field_manager(identity)}
    return {**metadata, "annotations": {**metadata.get("annotations", {}), **own}}


def field_manager(identity: str) -> str:
    """The field manager of a state. Two states differ in STATE alone, so the API server refuses the second writer."""
    return f"{OWNER}-{identity}"


def is_field_manager(name: str) -> bool:
    """Whether a state of some stack has this field manager, or a release before field managers had states."""
    return re.fullmatch(rf"{OWNER}(-[0-9a-f]{{32}})?", name) is not None


def mark(stack: str) -> dict[str, str]:
    """The labels that say that an object is ours, and this stack's.

    Raises ValueError when the stack's name is too long for a label.
    """
    if len(stack) > LIMIT:
        raise ValueError(
            f"the stack's name {stack!r} has {len(stack)} characters; it is written into a label, which holds {LIMIT}: "
            "give the stack a shorter name"
        )
    return {MANAGED_BY: OWNER, STACK: stack}


def metadata(
    name: str,
    stack: str,
    *,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    adopt: bool = False,
) -> Manifest:
    """An object's metadata: its own name and labels, and our mark, which nothing overrides.

    `adopt`: what is declared wins over what somebody else has written into the object.
    """
    result: Manifest = {"name": name}
    if namespace is not None:
        result["namespace"] = namespace
    result["labels"] = {**(labels or {}), **mark(stack)}
    taken_over = {PATCH_FORCE: "true"} if adopt else {}
    if annotations or taken_over:
        result["annotations"] = {**(annotations or {}), **taken_over}
    return result
