"""Objects of other owners that use the stack's objects: a teardown would block, break or delete them."""

from collections.abc import Collection, Iterator, Sequence

from trainstack.lifecycle.teardown.context import (
    Body,
    LiveStack,
    finished,
    has_label_of,
    names,
    owned,
    owner_text,
    owners,
)
from trainstack.objects.ownership import Identity, identity, shown

_KUBERNETES_OWN = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
"""The objects that Kubernetes creates in every namespace."""
_OF_ACCOUNT = "kubernetes.io/service-account.name"
"""The annotation of a ServiceAccount's token, which is deleted with the account."""
Use = tuple[Body, str]
"""An object of another owner, and its use of the stack's object."""


def foreign_users(live: LiveStack, deleted: frozenset[Identity]) -> list[str]:
    """Return the objects of others that use deleted objects, with their uses, sorted."""
    everything = [*live.own, *live.in_namespaces]
    everything += [body for lists in (live.lists, live.instances) for bodies in lists.values() for body in bodies]
    own, by_identity = owned(live.own, everything), {identity(body): body for body in everything}
    found: dict[Identity, tuple[str, list[str]]] = {}
    for body, use in _uses(live, deleted, own):
        who = _root(body)
        _, uses = found.setdefault(who, (owner_text(by_identity.get(who, body)), []))
        if use not in uses:
            uses.append(use)
    return [f"{shown(who)}, {owner}, {' and '.join(uses)}" for who, (owner, uses) in sorted(found.items(), key=str)]


def queue_users(
    name: str, stack: str, local_queues: Sequence[Body], workloads: Sequence[Body], own: frozenset[str]
) -> list[str]:
    """Return the objects of others that use the stack's ClusterQueue `name`.

    `local_queues` and `workloads` are all those of the cluster, `own` the UIDs of the stack's launches.
    """
    bound = [
        queue
        for queue in local_queues
        if not has_label_of(queue, stack) and (queue.get("spec") or {}).get("clusterQueue") == name
    ]
    held = [workload for workload in holders(name, workloads) if not _belongs_to(workload, own)]
    return sorted(f"{shown(_root(body))}, {owner_text(body)}" for body in (*bound, *held))


def holders(name: str, workloads: Sequence[Body]) -> list[Body]:
    return [workload for workload in workloads if admitted_by(workload) == name and not finished(workload)]


def ownerless(workloads: Sequence[Body], kinds: Collection[str], live: Collection[str]) -> list[Body]:
    """Return the Workloads whose owners no longer exist, by the UIDs `live` of all objects of `kinds`.

    An owner of another kind counts as existing.
    """
    return [
        workload
        for workload in workloads
        if owners(workload) and all(owner["kind"] in kinds and owner["uid"] not in live for owner in owners(workload))
    ]


def admitted_by(workload: Body) -> str | None:
    admission = (workload.get("status") or {}).get("admission") or {}
    return admission.get("clusterQueue")


def _uses(live: LiveStack, deleted: frozenset[Identity], own: frozenset[str]) -> Iterator[Use]:
    for body, use in (
        *_of_queues(live),
        *_of_parameters(live),
        *_of_queued(live),
        *_of_volumes(live, deleted),
        *_of_classes(live, deleted),
        *_of_definitions(live),
        *_of_namespaces(live, deleted),
    ):
        if not has_label_of(body, live.stack) and not _belongs_to(body, own):
            yield body, use


def _belongs_to(body: Body, uids: frozenset[str]) -> bool:
    return body["metadata"].get("uid") in uids or any(owner["uid"] in uids for owner in owners(body))


def _of_queues(live: LiveStack) -> Iterator[Use]:
    flavors, cohorts, checks = (names(live.of(kind)) for kind in ("ResourceFlavor", "Cohort", "AdmissionCheck"))
    for queue in live.all("ClusterQueue"):
        spec = queue.get("spec") or {}
        groups = spec.get("resourceGroups") or ()
        used = {flavor["name"] for group in groups for flavor in group["flavors"]} & flavors
        if used:
            yield queue, f"uses ResourceFlavor {', '.join(sorted(used))}"
        if (parent := spec.get("cohortName")) in cohorts:
            yield queue, f"is in Cohort {parent}"
        strategy = spec.get("admissionChecksStrategy") or {}
        if passed := {check["name"] for check in strategy.get("admissionChecks") or ()} & checks:
            yield queue, f"uses AdmissionCheck {', '.join(sorted(passed))}"
    for cohort in live.all("Cohort"):
        if (parent := (cohort.get("spec") or {}).get("parentName")) in cohorts:
            yield cohort, f"is in Cohort {parent}"


def _of_parameters(live: LiveStack) -> Iterator[Use]:
    topologies, clusters = names(live.of("Topology")), names(live.of("MultiKueueCluster"))
    for flavor in live.all("ResourceFlavor"):
        if (name := (flavor.get("spec") or {}).get("topologyName")) in topologies:
            yield flavor, f"uses Topology {name}"
    for check in live.all("AdmissionCheck"):
        parameters = (check.get("spec") or {}).get("parameters") or {}
        if (kind := parameters.get("kind")) and parameters.get("name") in names(live.of(kind)):
            yield check, f"uses {kind} {parameters['name']}"
    for config in live.all("MultiKueueConfig"):
        if used := {*(config.get("spec") or {}).get("clusters", ())} & clusters:
            yield config, f"uses MultiKueueCluster {', '.join(sorted(used))}"


def _of_queued(live: LiveStack) -> Iterator[Use]:
    cluster_queues = names(live.of("ClusterQueue"))
    local_queues = {identity(queue)[1:] for queue in live.of("LocalQueue")}
    for queue in live.all("LocalQueue"):
        if (name := (queue.get("spec") or {}).get("clusterQueue")) in cluster_queues:
            yield queue, f"points to ClusterQueue {name}"
    for workload in live.all("Workload"):
        queue_of = (str(workload["metadata"]["namespace"]), str((workload.get("spec") or {}).get("queueName")))
        if finished(workload):
            continue
        if queue_of in local_queues:
            yield workload, f"{'holds quota' if admitted_by(workload) else 'waits'} in LocalQueue {'/'.join(queue_of)}"
        elif (queue_name := admitted_by(workload)) in cluster_queues:
            yield workload, f"holds quota of ClusterQueue {queue_name}"


def _of_volumes(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[Use]:
    claims = {(namespace, name) for kind, namespace, name in deleted if kind == "PersistentVolumeClaim"}
    for pod in live.all("Pod"):
        namespace = pod["metadata"]["namespace"]
        mounted = {
            str(volume["persistentVolumeClaim"]["claimName"])
            for volume in pod["spec"].get("volumes") or ()
            if "persistentVolumeClaim" in volume
        }
        used = sorted(name for name in mounted if (namespace, name) in claims)
        if used and not finished(pod):
            yield pod, f"mounts PersistentVolumeClaim {', '.join(used)}"


def _of_classes(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[Use]:
    # A bound claim does not need its class. A pending one would never be bound.
    classes = {name for kind, _, name in deleted if kind == "StorageClass"}
    for claim in live.all("PersistentVolumeClaim"):
        name = claim["spec"].get("storageClassName")
        if name in classes and (claim.get("status") or {}).get("phase") == "Pending":
            yield claim, f"waits for a volume of StorageClass {name}"


def _of_definitions(live: LiveStack) -> Iterator[Use]:
    # Only the deleted operator removes the finalizers of objects that have not finished.
    for name, bodies in live.instances.items():
        for body in bodies:
            if not finished(body):
                yield body, f"is of the kind {name}, whose operator would be deleted"


def _of_namespaces(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[Use]:
    for body in strangers(live.in_namespaces, {name for kind, _, name in deleted if kind == "Namespace"}):
        yield body, f"is in namespace {body['metadata']['namespace']}, which would be deleted with all its objects"


def strangers(bodies: Sequence[Body], namespaces: Collection[str]) -> Iterator[Body]:
    """Return the objects in these namespaces that neither Kubernetes creates nor another of the objects owns."""
    uids = {str(body["metadata"]["uid"]) for body in bodies}
    for body in bodies:
        metadata = body["metadata"]
        is_owned = any(owner["uid"] in uids for owner in owners(body))
        own = (body["kind"], metadata["name"]) in _KUBERNETES_OWN or _OF_ACCOUNT in (metadata.get("annotations") or {})
        if metadata.get("namespace") in namespaces and not is_owned and not own:
            yield body


def _root(body: Body) -> Identity:
    """Return the owner of a Workload, and otherwise the object itself."""
    if body["kind"] == "Workload" and owners(body):
        owner = owners(body)[0]
        return str(owner["kind"]), body["metadata"]["namespace"], str(owner["name"])
    return identity(body)
