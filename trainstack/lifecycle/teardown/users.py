"""Objects of others that still use a stack's own: each would hang, lose its queue or be deleted along with it."""

from collections.abc import Collection, Iterator, Sequence

from trainstack.lifecycle.teardown.context import Body, Scene, finished, is_ours, names, owned, owners, places, whose
from trainstack.objects.ownership import Identity, identity, shown

_KUBERNETES_OWN = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
"""What Kubernetes puts into every namespace."""
_OF_ACCOUNT = "kubernetes.io/service-account.name"
"""The annotation of a ServiceAccount's token, which goes with that account."""
Use = tuple[Body, str]
"""An object of somebody else, and what it does with ours."""


def foreign_users(scene: Scene, going: frozenset[Identity]) -> list[str]:
    """Name every object of others that still uses what goes, with what it uses, sorted.

    Args:
        scene: the cluster.
        going: what the teardown would delete.

    """
    everything = [*scene.ours, *scene.beside, *(each for several in scene.lists.values() for each in several)]
    everything += [each for several in scene.instances.values() for each in several]
    mine, bodies = owned(scene.ours, everything), {identity(each): each for each in everything}
    found: dict[Identity, tuple[str, list[str]]] = {}
    for body, use in _uses(scene, going, mine):
        who = _root(body)
        _, uses = found.setdefault(who, (whose(bodies.get(who, body)), []))
        if use not in uses:
            uses.append(use)
    return [f"{shown(who)}, {theirs}, {' and '.join(uses)}" for who, (theirs, uses) in sorted(found.items(), key=str)]


def queue_users(
    name: str, stack: str, local_queues: Sequence[Body], workloads: Sequence[Body], mine: frozenset[str]
) -> list[str]:
    """Name the objects of others that use one cluster queue.

    Args:
        name: of the cluster queue.
        stack: whose it is.
        local_queues: all of the cluster.
        workloads: likewise.
        mine: the uids of this stack's launches.

    """
    bound = [each for each in local_queues if not is_ours(each, stack) and each["spec"].get("clusterQueue") == name]
    held = [each for each in holders(name, workloads) if not _of(each, mine)]
    return sorted(f"{shown(_root(each))}, {whose(each)}" for each in (*bound, *held))


def holders(name: str, workloads: Sequence[Body]) -> list[Body]:
    """The Workloads that hold quota of one cluster queue."""
    return [each for each in workloads if admitted_by(each) == name and not finished(each)]


def ownerless(workloads: Sequence[Body], kinds: Collection[str], living: Collection[str]) -> list[Body]:
    """Those whose owner is gone: what is left of it, which nobody uses.

    Args:
        workloads: Kueue's.
        kinds: those of which it is known who lives; an owner of another kind counts as alive.
        living: the uids of all objects of these kinds.

    """
    return [each for each in workloads if owners(each) and all(_gone(own, kinds, living) for own in owners(each))]


def _gone(owner: Body, kinds: Collection[str], living: Collection[str]) -> bool:
    return owner["kind"] in kinds and owner["uid"] not in living


def admitted_by(workload: Body) -> str | None:
    """The cluster queue whose quota a Workload holds."""
    admission = (workload.get("status") or {}).get("admission") or {}
    return admission.get("clusterQueue")


def _uses(scene: Scene, going: frozenset[Identity], mine: frozenset[str]) -> Iterator[Use]:
    for body, use in (
        *_of_queues(scene),
        *_of_queued(scene),
        *_of_volumes(scene, going),
        *_of_classes(scene, going),
        *_of_definitions(scene),
        *_of_namespaces(scene, going),
    ):
        if not is_ours(body, scene.stack) and not _of(body, mine):
            yield body, use


def _of(body: Body, mine: frozenset[str]) -> bool:
    """Whether it is one of these, or is owned by one of them."""
    metadata = body["metadata"]
    return metadata.get("uid") in mine or any(each["uid"] in mine for each in owners(body))


def _of_queues(scene: Scene) -> Iterator[Use]:
    flavors, cohorts = names(scene.of("ResourceFlavor")), names(scene.of("Cohort"))
    for queue in scene.all("ClusterQueue"):
        groups = queue["spec"].get("resourceGroups") or ()
        used = {flavor["name"] for group in groups for flavor in group["flavors"]} & flavors
        if used:
            yield queue, f"uses ResourceFlavor {', '.join(sorted(used))}"
        if (cohort := queue["spec"].get("cohortName")) in cohorts:
            yield queue, f"is in Cohort {cohort}"
    for each in scene.all("Cohort"):
        if (parent := (each.get("spec") or {}).get("parentName")) in cohorts:
            yield each, f"is in Cohort {parent}"


def _of_queued(scene: Scene) -> Iterator[Use]:
    cluster_queues, local_queues = names(scene.of("ClusterQueue")), places(scene.of("LocalQueue"))
    for queue in scene.all("LocalQueue"):
        if (name := queue["spec"].get("clusterQueue")) in cluster_queues:
            yield queue, f"points to ClusterQueue {name}"
    for workload in scene.all("Workload"):
        place = (str(workload["metadata"]["namespace"]), str(workload["spec"].get("queueName")))
        if finished(workload):
            continue
        if place in local_queues:
            yield workload, f"{'holds quota' if admitted_by(workload) else 'waits'} in LocalQueue {'/'.join(place)}"
        elif (queue_name := admitted_by(workload)) in cluster_queues:
            yield workload, f"holds quota of ClusterQueue {queue_name}"


def _of_volumes(scene: Scene, going: frozenset[Identity]) -> Iterator[Use]:
    claims = {(namespace, name) for kind, namespace, name in going if kind == "PersistentVolumeClaim"}
    for pod in scene.all("Pod"):
        namespace = pod["metadata"]["namespace"]
        mounted = {
            str(volume["persistentVolumeClaim"]["claimName"])
            for volume in pod["spec"].get("volumes") or ()
            if "persistentVolumeClaim" in volume
        }
        used = sorted(name for name in mounted if (namespace, name) in claims)
        if used and not finished(pod):
            yield pod, f"mounts PersistentVolumeClaim {', '.join(used)}"


def _of_classes(scene: Scene, going: frozenset[Identity]) -> Iterator[Use]:
    """Claims that are bound do well without their class; one that is not would never be."""
    classes = {name for kind, _, name in going if kind == "StorageClass"}
    for claim in scene.all("PersistentVolumeClaim"):
        name = claim["spec"].get("storageClassName")
        if name in classes and (claim.get("status") or {}).get("phase") == "Pending":
            yield claim, f"waits for a volume of StorageClass {name}"


def _of_definitions(scene: Scene) -> Iterator[Use]:
    """Whatever of these kinds has not ended needs the operator that goes: nobody else would remove its finalizers."""
    for name, several in scene.instances.items():
        for body in several:
            if not finished(body):
                yield body, f"is of the kind {name}, whose operator goes"


def _of_namespaces(scene: Scene, going: frozenset[Identity]) -> Iterator[Use]:
    for body in strangers(scene.beside, {name for kind, _, name in going if kind == "Namespace"}):
        yield body, f"is in namespace {body['metadata']['namespace']}, which goes with all that is in it"


def strangers(beside: Sequence[Body], namespaces: Collection[str]) -> Iterator[Body]:
    """What is in these namespaces, but for what Kubernetes itself puts there and for what another object owns."""
    there = {str(body["metadata"]["uid"]) for body in beside}
    for body in beside:
        metadata = body["metadata"]
        owned_there = any(each["uid"] in there for each in owners(body))
        own = (body["kind"], metadata["name"]) in _KUBERNETES_OWN or _OF_ACCOUNT in (metadata.get("annotations") or {})
        if metadata.get("namespace") in namespaces and not owned_there and not own:
            yield body


def _root(body: Body) -> Identity:
    """Whom to name: of a Workload what it stands for."""
    if body["kind"] == "Workload" and owners(body):
        owner = owners(body)[0]
        return str(owner["kind"]), body["metadata"]["namespace"], str(owner["name"])
    return identity(body)
