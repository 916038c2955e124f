"""Labels and annotations that Trainstack writes or reads, and the metadata of its objects.

The string below each constant documents its meaning, its values and its readers.
"""

import re
from collections.abc import Mapping
from typing import Any

from trainstack.errors import TrainstackError

Manifest = dict[str, Any]
"""A Kubernetes object in the API's form: plain dicts, lists, strings, integers and booleans."""

MAX_LABEL_CHARACTERS = 63
"""The maximum number of characters of a label value, a Service's name and a pod's host name."""

MANAGED_BY = "app.kubernetes.io/managed-by"
"""The tool that owns the object, always `trainstack`. Read by users and by other tools' garbage collection."""

OWNER = "trainstack"
"""The value of MANAGED_BY."""

STACK = "trainstack.dev/stack"
"""The owner: the stack that declares the object, up to 63 characters. Read before every create, since a server-side
apply would silently take over another owner's object."""

STATE = "trainstack.dev/state"
"""Annotation: the identity of the engine's state that declares the object, 32 hexadecimal digits, stored in the state.
Two checkouts may have stacks of the same name but different states, and neither may change the other's objects. Read
before every change; written when objects are registered with the engine."""

RUN = "trainstack.dev/run"
"""The run's id, `<workload>-<10 hex>`, with at most 45 characters of the workload's name. On launches, their pods and
ledgers. Read by the launch rules and the CLI."""

WORKLOAD = "trainstack.dev/workload"
"""The workload's name. On launches, their pods and ledgers. Read by the CLI and users."""

LAUNCH = "trainstack.dev/launch"
"""The launch's name, `<run-id>-<6 hex>`, even if its object has another name. On launches and their pods. Read by the
launch rules, and by the CLI to find a launch's pods."""

ROLE = "trainstack.dev/role"
"""The role of a pod, on the pods of kinds whose controllers set no such label. Read by the CLI."""

OBJECT = "trainstack.dev/object"
"""Annotation of a launch of a workload of kind Object: the paths of its pod templates and of its end, as JSON. Read
wherever a launch is read back from its object."""

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""Annotation of pods: the container whose log and shell kubectl opens. On pods with further containers whose main
container has a name of its own, by which the CLI then finds it."""

SWEEP = "trainstack.dev/sweep"
"""The sweep's name. On the launches of its trials, their pods and ledgers, and on the ConfigMaps with its parameter
file. Read by the launch rules of sweeps, the CLI and users."""

SET = "trainstack.dev/set"
"""The id of a trial's parameter set, 10 hex. On launches of one trial and their pods; a sweep's launch without it is an
Indexed Job of many trials. Read by the launch rules of sweeps, and by users."""

SETS = "trainstack.dev/sets"
"""Annotation of the pods of a sweep's dispatched launches: the sweep's hyperparams.yml. Mounted as a file, since
MultiKueue does not copy the ConfigMap."""

TRIALS = "trainstack.dev/trials"
"""Annotation of the pods of a dispatched Indexed Job: its trials.json. Mounted like SETS."""

LEDGER = "trainstack.dev/ledger"
"""Marks a ConfigMap that records a launch: `run`, or `batch` for an Indexed Job. Read by the launch rules."""

KIND = "trainstack.dev/kind"
"""The kind of the launch, only on ledgers of the kinds in OPTIONAL_LAUNCH_KINDS. Read to find these launches."""

CLAIM = "trainstack.dev/claim"
"""Annotation of a ledger: a random id of the claim of its launch. The object's managed fields contain the time of the
claim. The ledger is a claim until its data contains `launched`, which the engine adds after the launch. Read by the
launch rules."""

OUTCOME = "trainstack.dev/outcome"
"""Annotation of the ledger of an unmanaged trial that has ended: its outcome and the metrics in its log, as JSON.
Written and read by the commands that read a sweep, since pods and logs are deleted."""

AFTER = "trainstack.dev/after"
"""Annotation of a launch that replaced a terminating one: the UID of the old launch. It distinguishes the new launch
for the engine, whose state may still contain the old one."""

WRAPPER = "trainstack.dev/wrapper"
"""Marks a ConfigMap with the wrapper's source, always `run`. Read by the launch rules: a launch keeps its wrapper."""

DRAINED = "trainstack.dev/drained"
"""Annotation, `"true"`, of a ClusterQueue that a teardown has stopped, until it is deleted or an `up` applies its
declared fields again. Read by `doctor`, and before every change."""

CONFIG_HASH = "trainstack.dev/config-hash"
"""Annotation of a controller's pods: 16 hex of a hash of their configuration. A change of it restarts the pods, which
read their configuration once."""

REVISION = "trainstack.dev/revision"
"""Annotation of an operator's CRD: 16 hex of a hash of its manifest, with `-<suffix>` if the same manifest was applied
again. The engine's state contains the same value. Read before every change, to find CRDs that other clients have
deleted or changed."""

QUEUE = "kueue.x-k8s.io/queue-name"
"""The LocalQueue, in the object's namespace, that admits the object. Read by Kueue."""

PRIORITY = "kueue.x-k8s.io/priority-class"
"""The WorkloadPriorityClass, which orders the queue. Read by Kueue when it creates the Workload."""

RELEASE = "app.kubernetes.io/version"
"""The release of an operator, such as `v0.15.2`, on its CRDs and Deployments. Read to prevent a downgrade."""

PREPARED = "trainstack.dev/prepared-for"
"""Label of a namespace that an administrator has created from `rights/<stack>.yaml`: the stack that may declare it. The
namespace has no other owner until then. Read before every create."""

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""Annotation of a Job: the least number of concurrent pods to admit, from 1 to one less than it requests. Read by
Kueue, which writes the admitted number into `parallelism`."""

SECTION = "trainstack.dev/section"
"""The section of the settings that declares the object, always `objects`. Read by refusals of adoption, by plans of
teardowns, and by users."""

SKIP_AWAIT = "pulumi.com/skipAwait"
"""Annotation, `"true"`: the engine does not wait for the object to be ready. On Jobs, which may be queued for long, on
claims, whose check hangs on updates, on Services of operators, and on objects of section `objects`. Read by the
Kubernetes provider."""

FIELD_MANAGER = "pulumi.com/patchFieldManager"
"""Annotation: the field manager of the declared fields under server-side apply, from `field_manager`. Without it, the
provider generates a name for every resource, and after an interrupted `up` the new name conflicts with the old one.
Read by the Kubernetes provider; written when objects are registered with the engine."""

RETAIN = "trainstack.dev/retain"
"""Annotation, `"false"`, of claims and namespaces that are deleted with their stack, or once the settings omit them;
absent from others. Read by the guards of deletions, which do not see the options of resources in the engine's state."""

PATCH_FORCE = "pulumi.com/patchForce"
"""Annotation, `"true"`: a server-side apply takes over fields of other managers; without it, they are a conflict. On
adopted objects. Read by the Kubernetes provider."""

LOCAL_CLUSTER = "trainstack.dev/local-cluster"
"""Annotation of the namespace kube-system of a local cluster: the cluster's identity, which a reset keeps. It replaces
the namespace's UID when a stack verifies its cluster."""

POD_SECURITY = "pod-security.kubernetes.io/"
"""The prefix of a namespace's labels `enforce`, `warn` and `audit`, whose values are Pod Security levels: `restricted`,
`baseline` or `privileged`. Read by the API server."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Set on every namespace by the API server to its name. Read by selectors of namespaces."""


def with_state(metadata: Mapping[str, Any], state_identity: str) -> Manifest:
    """Return an object's metadata with the identity and the field manager of the declaring state added."""
    annotations = {STATE: state_identity, FIELD_MANAGER: field_manager(state_identity)}
    return {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}


def field_manager(state_identity: str) -> str:
    """Return a state's field manager. Objects of two states differ in STATE, so the second apply is a conflict."""
    return f"{OWNER}-{state_identity}"


def is_field_manager(name: str) -> bool:
    """Return whether the name is a field manager of any state, or of a release without one field manager per state."""
    return re.fullmatch(rf"{OWNER}(-[0-9a-f]{{32}})?", name) is not None


def ownership_labels(stack: str) -> dict[str, str]:
    """Return the labels of a stack's objects. Raises TrainstackError if the stack's name is too long for a label."""
    if len(stack) > MAX_LABEL_CHARACTERS:
        raise TrainstackError(
            f"the stack's name {stack!r} has {len(stack)} characters, but a label value has at most "
            f"{MAX_LABEL_CHARACTERS}",
            "use a shorter name",
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
    """Return metadata with the ownership labels. `adopt`: declared fields override those of other field managers."""
    result: Manifest = {"name": name}
    if namespace is not None:
        result["namespace"] = namespace
    result["labels"] = {**(labels or {}), **ownership_labels(stack)}
    if annotations or adopt:
        result["annotations"] = {**(annotations or {}), **({PATCH_FORCE: "true"} if adopt else {})}
    return result
