"""Objects of other owners that use the stack's objects, whose deletion would block, break or delete the users."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from trainstack.lifecycle.teardown.live_stack import (
    Body,
    LiveStack,
    dependent_uids,
    describe_owner,
    has_label_of,
    is_finished,
    launch_name,
    owners,
)
from trainstack.objects.labels import LEDGER
from trainstack.objects.ownership import Identity, format_identity, identity

_KUBERNETES_OBJECTS = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
"""The objects that Kubernetes creates in every namespace."""
_SECRET_SOURCES, _CONFIG_MAP_SOURCES = ("secretRef", "secretKeyRef"), ("configMapRef", "configMapKeyRef")
"""The keys of a container's `envFrom` and `valueFrom`."""
_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
"""The annotation of a ServiceAccount's token Secret, which Kubernetes deletes with the account."""
ForeignUse = tuple[Body, str]
"""An object of another owner, and its use of the stack's object."""


_USER_KINDS: Mapping[str, tuple[str, ...]] = {
    "AdmissionCheck": ("ClusterQueue", "Workload"),
    "ClusterQueue": ("LocalQueue", "Workload"),
    "Cohort": ("ClusterQueue", "Cohort"),
    "ConfigMap": ("Pod", "Workload"),
    "CustomResourceDefinition": (),
    "LocalQueue": ("Workload",),
    "MultiKueueCluster": ("MultiKueueConfig", "Workload"),
    "MultiKueueConfig": ("AdmissionCheck",),
    "Namespace": (),
    "NetworkPolicy": ("Pod", "Workload"),
    "PersistentVolumeClaim": ("Pod", "Workload"),
    "ProvisioningRequestConfig": ("AdmissionCheck",),
    "ResourceFlavor": ("ClusterQueue",),
    "Secret": ("Pod", "Workload"),
    "ServiceAccount": ("Pod", "Workload"),
    "StorageClass": ("PersistentVolumeClaim",),
    "Topology": ("ResourceFlavor",),
}
"""The kinds of an object's users, by the object's kind. The users of a definition are all objects of its kind;
the users of a namespace are all objects in it."""


def may_be_used(kind: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether others may use an object. Only Trainstack reads ledgers."""
    return kind in _USER_KINDS and LEDGER not in (metadata.get("labels") or {})


def kinds_of_users(deleted: Collection[Identity]) -> Mapping[str, frozenset[str | None]]:
    """Return the kinds that may use deleted objects, with the namespaces of the users; None means all namespaces."""
    namespaces_by_kind: defaultdict[str, set[str | None]] = defaultdict(set)
    for kind, namespace, _ in deleted:
        for user in _USER_KINDS.get(kind, ()):
            namespaces_by_kind[user].add(namespace)
    return {
        kind: frozenset({None} if None in namespaces else namespaces) for kind, namespaces in namespaces_by_kind.items()
    }


def foreign_users(
    live: LiveStack, deleted: frozenset[Identity], remaining_launches: Collection[Identity] = ()
) -> list[str]:
    """Return the objects of others that use deleted objects, with their uses, sorted.

    `deleted` has the definitions of deleted operators, even if the definitions remain. `remaining_launches` are the
    stack's active launches that are not deleted: they are users like the launches of others.
    """
    all_bodies = [*live.labeled_objects, *live.in_namespaces]
    all_bodies += [body for lists in (live.lists, live.instances) for bodies in lists.values() for body in bodies]
    roots = [body for body in live.labeled_objects if identity(body) not in remaining_launches]
    own_uids, bodies_by_identity = dependent_uids(roots, all_bodies), {identity(body): body for body in all_bodies}
    users: dict[Identity, tuple[str, list[str]]] = {}
    launches_in_use = {launch_name(body) for body in live.labeled_objects if identity(body) in remaining_launches}
    launches = ({launch_name(body) for body in roots} | live.recorded_launches) - launches_in_use - {""}
    foreign = [
        (body, use)
        for body, use in _uses(live, deleted)
        if not _belongs_to(body, own_uids)
        and (identity(body) in remaining_launches or not has_label_of(body, live.stack))
        and launch_name(body) not in launches
        and not _is_pod_of_deployment(body, deleted)
    ]
    for body, use in (*foreign, *_uses_of_policies(live, deleted), *_claims_in_namespaces(live, deleted)):
        user = owner_identity(body)
        _, uses = users.setdefault(user, (describe_owner(bodies_by_identity.get(user, body)), []))
        if use not in uses:
            uses.append(use)
    return [
        f"{format_identity(user)}, {owner}, {' and '.join(uses)}"
        for user, (owner, uses) in sorted(users.items(), key=str)
    ]


def queue_users(name: str, stack: str, local_queues: Sequence[Body], workloads: Sequence[Body]) -> list[str]:
    """Return the LocalQueues of others, and all Workloads, that use the stack's ClusterQueue `name`.

    `local_queues` and `workloads` are all those of the cluster.
    """
    bound_queues = [
        queue
        for queue in local_queues
        if not has_label_of(queue, stack) and (queue.get("spec") or {}).get("clusterQueue") == name
    ]
    return sorted(
        f"{format_identity(owner_identity(body))}, {describe_owner(body)}"
        for body in (*bound_queues, *workloads_holding_quota(name, workloads))
    )


def workloads_holding_quota(name: str, workloads: Sequence[Body]) -> list[Body]:
    return [workload for workload in workloads if admitting_queue(workload) == name and not is_finished(workload)]


def workloads_without_owner(
    workloads: Sequence[Body], kinds: Collection[str], live_uids: Collection[str]
) -> list[Body]:
    """Return the Workloads whose owners no longer exist. An owner of another kind than `kinds` counts as existing.

    `live_uids` are the UIDs of all live objects of `kinds`.
    """
    return [
        workload
        for workload in workloads
        if owners(workload)
        and all(owner["kind"] in kinds and owner["uid"] not in live_uids for owner in owners(workload))
    ]


def admitting_queue(workload: Body) -> str | None:
    """Return the name of the ClusterQueue that has admitted a Workload, or None."""
    admission = (workload.get("status") or {}).get("admission") or {}
    return admission.get("clusterQueue")


def _belongs_to_recorded_launch(body: Body, live: LiveStack) -> bool:
    """Return whether a pod or Workload belongs to one of the stack's launches, which may have been deleted."""
    return launch_name(body) in live.recorded_launches


def _uses(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    yield from _uses_by_queues(live, deleted)
    yield from _uses_by_parameters(live, deleted)
    yield from _uses_by_workloads(live, deleted)
    yield from _uses_by_pods(live, deleted)
    yield from _uses_by_pending_claims(live, deleted)
    yield from _uses_by_instances(live, deleted)
    yield from _uses_in_namespaces(live, deleted)


def _names_of_kind(deleted: Collection[Identity], kind: str) -> frozenset[str]:
    return frozenset(name for deleted_kind, _, name in deleted if deleted_kind == kind)


def _is_pod_of_deployment(body: Body, deleted: Collection[Identity]) -> bool:
    """Return whether a pod is one of a deleted Deployment, whose ReplicaSets are `<Deployment>-<hash>`."""
    deployments = {(namespace, name) for kind, namespace, name in deleted if kind == "Deployment"}
    return any(
        owner["kind"] == "ReplicaSet"
        and (body["metadata"].get("namespace"), str(owner["name"]).rpartition("-")[0]) in deployments
        for owner in owners(body)
    )


def _belongs_to(body: Body, uids: frozenset[str]) -> bool:
    return body["metadata"].get("uid") in uids or any(owner["uid"] in uids for owner in owners(body))


def _uses_by_queues(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    flavors, cohorts, checks = (
        _names_of_kind(deleted, kind) for kind in ("ResourceFlavor", "Cohort", "AdmissionCheck")
    )
    for queue in live.objects_of_kind("ClusterQueue"):
        spec = queue.get("spec") or {}
        groups = spec.get("resourceGroups") or ()
        used_flavors = {flavor["name"] for group in groups for flavor in group["flavors"]} & flavors
        if used_flavors:
            yield queue, f"uses ResourceFlavor {', '.join(sorted(used_flavors))}"
        if (parent := spec.get("cohortName")) in cohorts:
            yield queue, f"is in Cohort {parent}"
        strategy = spec.get("admissionChecksStrategy") or {}
        if required_checks := {check["name"] for check in strategy.get("admissionChecks") or ()} & checks:
            yield queue, f"uses AdmissionCheck {', '.join(sorted(required_checks))}"
    for cohort in live.objects_of_kind("Cohort"):
        if (parent := (cohort.get("spec") or {}).get("parentName")) in cohorts:
            yield cohort, f"is in Cohort {parent}"


def _uses_by_parameters(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    topologies, clusters = _names_of_kind(deleted, "Topology"), _names_of_kind(deleted, "MultiKueueCluster")
    for flavor in live.objects_of_kind("ResourceFlavor"):
        if (name := (flavor.get("spec") or {}).get("topologyName")) in topologies:
            yield flavor, f"uses Topology {name}"
    for check in live.objects_of_kind("AdmissionCheck"):
        parameters = (check.get("spec") or {}).get("parameters") or {}
        if (kind := parameters.get("kind")) and parameters.get("name") in _names_of_kind(deleted, kind):
            yield check, f"uses {kind} {parameters['name']}"
    for config in live.objects_of_kind("MultiKueueConfig"):
        if removed_clusters := {*(config.get("spec") or {}).get("clusters", ())} & clusters:
            yield config, f"uses MultiKueueCluster {', '.join(sorted(removed_clusters))}"


def _uses_by_workloads(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    cluster_queues, checks, clusters = (
        _names_of_kind(deleted, kind) for kind in ("ClusterQueue", "AdmissionCheck", "MultiKueueCluster")
    )
    local_queues = {key[1:] for key in deleted if key[0] == "LocalQueue"}
    for queue in live.objects_of_kind("LocalQueue"):
        if (name := (queue.get("spec") or {}).get("clusterQueue")) in cluster_queues:
            yield queue, f"points to ClusterQueue {name}"
    for workload in live.objects_of_kind("Workload"):
        queue_key = (str(workload["metadata"]["namespace"]), str((workload.get("spec") or {}).get("queueName")))
        if is_finished(workload):
            continue
        if queue_key in local_queues:
            yield (
                workload,
                f"{'holds quota' if admitting_queue(workload) else 'waits'} in LocalQueue {'/'.join(queue_key)}",
            )
        elif (queue_name := admitting_queue(workload)) in cluster_queues:
            yield workload, f"holds quota of ClusterQueue {queue_name}"
        status = workload.get("status") or {}
        if required_checks := {str(check["name"]) for check in status.get("admissionChecks") or ()} & checks:
            yield workload, f"depends on AdmissionCheck {', '.join(sorted(required_checks))}"
        if (cluster := status.get("clusterName")) in clusters:
            yield workload, f"is dispatched to MultiKueueCluster {cluster}"


def _uses_by_pods(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    # Workloads too: a queued run has no pods yet, and a deployer may not be allowed to list pods.
    for body in (*live.objects_of_kind("Pod"), *live.objects_of_kind("Workload")):
        namespace = body["metadata"]["namespace"]
        for kind, referenced in () if is_finished(body) else _references(*_pod_specs(body)).items():
            deleted_names = sorted(name for name in referenced if (kind, namespace, name) in deleted)
            if deleted_names:
                verb = "mounts" if kind == "PersistentVolumeClaim" else "uses"
                yield body, f"{verb} {kind} {', '.join(deleted_names)}"


def _pod_specs(body: Body) -> Iterator[Body]:
    """Yield the spec of a pod, or those of a Workload's pod sets."""
    if body["kind"] == "Pod":
        yield body["spec"]
    else:
        yield from (pod_set["template"]["spec"] for pod_set in (body.get("spec") or {}).get("podSets") or ())


def _references(*pods: Mapping[str, Any]) -> Mapping[str, set[str]]:
    """Return the names of the objects that pods refer to, by kind."""
    kinds = ("PersistentVolumeClaim", "Secret", "ConfigMap", "ServiceAccount")
    names_by_kind: dict[str, set[str]] = {kind: set() for kind in kinds}
    for pod in pods:
        _add_references(pod, names_by_kind)
    return names_by_kind


def _add_references(pod: Mapping[str, Any], names_by_kind: Mapping[str, set[str]]) -> None:
    for volume in _volume_sources(pod.get("volumes") or ()):
        if claim := volume.get("persistentVolumeClaim"):
            names_by_kind["PersistentVolumeClaim"].add(str(claim["claimName"]))
        if secret := volume.get("secret"):
            names_by_kind["Secret"].add(str(secret.get("secretName") or secret.get("name")))
        if config_map := volume.get("configMap"):
            names_by_kind["ConfigMap"].add(str(config_map.get("name")))
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        sources = [*(container.get("envFrom") or ())]
        sources += [variable.get("valueFrom") or {} for variable in container.get("env") or ()]
        for source in sources:
            for kind, keys in (("Secret", _SECRET_SOURCES), ("ConfigMap", _CONFIG_MAP_SOURCES)):
                names_by_kind[kind].update(str(source[key].get("name")) for key in keys if source.get(key))
    names_by_kind["Secret"].update(
        str(secret_reference.get("name")) for secret_reference in pod.get("imagePullSecrets") or ()
    )
    names_by_kind["ServiceAccount"].add(str(pod.get("serviceAccountName") or "default"))


def _volume_sources(volumes: Sequence[Body]) -> Iterator[Body]:
    for volume in volumes:
        yield volume
        yield from (volume.get("projected") or {}).get("sources") or ()


def _uses_by_pending_claims(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    # A bound claim no longer needs its class, but a pending claim would never be bound.
    classes = {name for kind, _, name in deleted if kind == "StorageClass"}
    for claim in live.objects_of_kind("PersistentVolumeClaim"):
        name = claim["spec"].get("storageClassName")
        if name in classes and (claim.get("status") or {}).get("phase") == "Pending":
            yield claim, f"waits for a volume of StorageClass {name}"


def _uses_by_instances(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    # Without the operator, no controller removes the finalizers of objects that have not finished.
    for name in _names_of_kind(deleted, "CustomResourceDefinition"):
        for body in live.instances.get(name, ()):
            if not is_finished(body):
                yield body, f"is of the kind {name}, whose operator would be deleted"


def _uses_in_namespaces(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    for body in objects_of_others(live.in_namespaces, _names_of_kind(deleted, "Namespace")):
        # The garbage collector deletes the dependents of a controller.
        if "deletionTimestamp" in body["metadata"] or any(owner.get("controller") for owner in owners(body)):
            continue
        yield body, f"is in namespace {body['metadata']['namespace']}, which would be deleted with all its objects"


def _uses_of_policies(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    """Yield the pods and the queued Workloads of others that a deleted NetworkPolicy isolates.

    The stack may remove the isolation of its own runs.
    """
    policies = {namespace: name for kind, namespace, name in deleted if kind == "NetworkPolicy"}
    all_bodies = [body for bodies in live.lists.values() for body in bodies]
    own_uids = dependent_uids(live.labeled_objects, all_bodies)
    for body in (*live.objects_of_kind("Pod"), *live.objects_of_kind("Workload")):
        policy = policies.get(body["metadata"]["namespace"])
        is_own = (
            has_label_of(body, live.stack) or _belongs_to(body, own_uids) or _belongs_to_recorded_launch(body, live)
        )
        if policy and not is_finished(body) and not is_own:
            yield body, f"is isolated by NetworkPolicy {policy}"


def _claims_in_namespaces(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[ForeignUse]:
    """Yield the stack's own claims that a deleted namespace holds, such as retained ones of earlier declarations."""
    namespaces = _names_of_kind(deleted, "Namespace")
    for body in live.in_namespaces:
        is_claim = body["kind"] == "PersistentVolumeClaim" and "deletionTimestamp" not in body["metadata"]
        if (
            is_claim
            and identity(body) not in deleted
            and body["metadata"]["namespace"] in namespaces
            and has_label_of(body, live.stack)
        ):
            yield body, f"is in namespace {body['metadata']['namespace']}, which would be deleted with its data"


def objects_of_others(bodies: Sequence[Body], namespaces: Collection[str]) -> Iterator[Body]:
    """Yield the objects in these namespaces that neither Kubernetes creates nor another one of `bodies` owns."""
    uids = {str(body["metadata"]["uid"]) for body in bodies}
    for body in bodies:
        metadata = body["metadata"]
        is_owned = any(owner["uid"] in uids for owner in owners(body))
        is_kubernetes_own = (body["kind"], metadata["name"]) in _KUBERNETES_OBJECTS or _ACCOUNT_ANNOTATION in (
            metadata.get("annotations") or {}
        )
        if metadata.get("namespace") in namespaces and not is_owned and not is_kubernetes_own:
            yield body


def owner_identity(body: Body) -> Identity:
    """Return the identity of a Workload's owner, and of any other object itself."""
    if body["kind"] == "Workload" and owners(body):
        owner = owners(body)[0]
        return str(owner["kind"]), body["metadata"]["namespace"], str(owner["name"])
    return identity(body)
