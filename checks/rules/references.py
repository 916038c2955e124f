"""Names that must name something."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from checks.rule import Check, Rule, Violation
from checks.run_pods import pod_sets
from checks.scene import Scene, each
from settings.errors import nearest

ALWAYS_THERE = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that every cluster has."""


@Rule(
    id="queue-unknown",
    severity="error",
    may_be=("unknown",),
    summary=(
        "A run, or `cluster.loader`, names a LocalQueue that its own namespace does not have; Kueue would hold it "
        "for ever."
    ),
    example="`queue: reserch` where the namespace has the queue `research`.",
    remedy="Name a queue of the run's namespace, or declare one under `queues.localQueues`.",
)
def queue_unknown(scene: Scene) -> Iterator[Violation]:
    """The queue of a run, and of the data loader, is a LocalQueue of its own namespace."""
    queues = scene.settings.queues.local_queues
    for path, run in scene.runs():
        known = [queue.name for queue in queues if queue.namespace == run.namespace]
        elsewhere = [queue.namespace for queue in queues if queue.name == run.queue]
        kind = f"local queue of namespace {run.namespace}"
        hint = f" (it is one of namespace {elsewhere[0]})" if elsewhere else ""
        yield from _refer(scene, f"{path}.queue", run.queue, kind + hint, known)
    loader = scene.settings.cluster.loader.queue
    for namespace in sorted({volume.namespace for volume in scene.settings.storage.volumes}):
        known = [queue.name for queue in queues if queue.namespace == namespace]
        kind = f"local queue of namespace {namespace}"
        yield from _refer(scene, "cluster.loader.queue", loader, kind, known)


@Rule(
    id="volume-unknown",
    severity="error",
    summary="A mount, `data` or `record` names no volume of the run's namespace; its pods would stay Pending.",
    example="`volumes: [{volume: trainin, mountPath: /mnt}]` where the claim is `training`.",
    remedy="Name a volume of `storage.volumes`, or declare it there (`adopt: true` takes over a claim that exists).",
)
def volume_unknown(scene: Scene) -> Iterator[Violation]:
    """What a run mounts, reads or records on is a volume of its namespace."""
    for path, run in scene.runs():
        known = {volume.name for volume in scene.settings.storage.volumes if volume.namespace == run.namespace}
        named = {f"{path}.data.volume": run.data.volume} if run.data else {}
        named |= {f"{path}.record.volume": run.record.volume} if run.record else {}
        for pods in pod_sets(path, run):
            named |= {f"{pods.mounts_path}[{index}].volume": mount.volume for index, mount in enumerate(pods.mounts)}
        for where, word in named.items():
            if word not in known:
                remedy = _or_declare(word, known, "under storage.volumes")
                yield Violation(where, f"no volume of namespace {run.namespace} is {word}", remedy)


@Rule(
    id="storage-class-unknown",
    severity="error",
    may_be=("unknown",),
    summary="A volume asks for a class that is not declared; the claim would stay Pending.",
    details="A class name that a declared PersistentVolume bears will do.",
    example="`storageClass: share` where the class is `shared`.",
    remedy=(
        "Name a declared class, or declare it under `storage.classes`; one that the cluster has by others' hands "
        "goes under `environment.existing.storageClasses`."
    ),
)
def storage_class_unknown(scene: Scene) -> Iterator[Violation]:
    """A volume's class is declared where classes are."""
    storage = scene.settings.storage
    known = [*(one.name for one in storage.classes), *scene.settings.environment.existing.storage_classes]
    # A claim and a volume made by hand may meet on a class name that is no object.
    bound = known + [volume.storage_class for volume in storage.persistent_volumes]
    for path, claim in each("storage.volumes", storage.volumes):
        yield from _refer(scene, f"{path}.storageClass", claim.storage_class, "storage class", bound)


@Rule(
    id="priority-unknown",
    severity="error",
    may_be=("unknown",),
    summary="A run names a WorkloadPriorityClass that is not declared.",
    example="`priority: urgent` where there are `low`, `normal` and `high`.",
    remedy="Name a declared class, or declare it under `queues.priorityClasses`.",
)
def priority_unknown(scene: Scene) -> Iterator[Violation]:
    """A run's priority is a declared priority class."""
    known = [one.name for one in scene.settings.queues.priority_classes]
    for path, run in scene.runs():
        yield from _refer(scene, f"{path}.priority", run.priority, "priority class", known)


@Rule(
    id="cluster-queue-unknown",
    severity="error",
    may_be=("unknown",),
    summary="A local queue points at a cluster queue that is not declared; it would admit nothing.",
    example="`{name: q, namespace: a, clusterQueue: resarch}`.",
    remedy="Name a declared queue, or declare it under `queues.clusterQueues`.",
)
def cluster_queue_unknown(scene: Scene) -> Iterator[Violation]:
    """A local queue's cluster queue is declared."""
    queues = scene.settings.queues
    known = [one.name for one in queues.cluster_queues]
    for path, queue in each("queues.localQueues", queues.local_queues):
        place = f"{path}.clusterQueue"
        yield from _refer(scene, place, queue.cluster_queue, "cluster queue", known)


@Rule(
    id="flavor-unknown",
    severity="error",
    may_be=("unknown",),
    summary="A quota stands on a flavor that is not declared; Kueue keeps the whole cluster queue inactive.",
    example="`flavors: [{name: a100, …}]` without `a100` under `queues.flavors`.",
    remedy="Name a declared flavor, or declare it under `queues.flavors`.",
)
def flavor_unknown(scene: Scene) -> Iterator[Violation]:
    """A quota's flavor is declared."""
    queues = scene.settings.queues
    known = [one.name for one in queues.flavors]
    for path, queue in each("queues.clusterQueues", queues.cluster_queues):
        for index, group in enumerate(queue.resource_groups):
            for where, flavor in each(f"{path}.resourceGroups[{index}].flavors", group.flavors):
                yield from _refer(scene, f"{where}.name", flavor.name, "flavor", known)


@Rule(
    id="cohort-unknown",
    severity="error",
    may_be=("unknown",),
    summary="A cluster queue's cohort, or a cohort's parent, is not declared.",
    example="`cohort: locl` where the cohort is `local`.",
    remedy="Name a declared cohort, or declare it under `queues.cohorts`.",
)
def cohort_unknown(scene: Scene) -> Iterator[Violation]:
    """A queue's cohort and a cohort's parent are declared."""
    queues = scene.settings.queues
    known = [one.name for one in queues.cohorts]
    for path, queue in each("queues.clusterQueues", queues.cluster_queues):
        yield from _refer(scene, f"{path}.cohort", queue.cohort, "cohort", known)
    for path, cohort in each("queues.cohorts", queues.cohorts):
        yield from _refer(scene, f"{path}.parent", cohort.parent, "cohort", known)


@Rule(
    id="cohort-cycle",
    severity="error",
    summary="A cohort is its own ancestor; Kueue admits nothing in such a tree.",
    example="`a` has the parent `b`, and `b` the parent `a`.",
    remedy="Leave out the parent of one of them.",
)
def cohort_cycle(scene: Scene) -> Iterator[Violation]:
    """No cohort is its own ancestor: Kueue stops admitting in a tree that has no root."""
    parents = {one.name: one.parent for one in scene.settings.queues.cohorts}
    for path, cohort in each("queues.cohorts", scene.settings.queues.cohorts):
        line = [cohort.name]
        while (parent := parents.get(line[-1])) is not None and parent not in line:
            line.append(parent)
        if parent == cohort.name:
            message = f"is its own ancestor: {' -> '.join([*line, cohort.name])}"
            yield Violation(f"{path}.parent", message, "leave out the parent of one of them")


@Rule(
    id="namespace-unknown",
    severity="error",
    may_be=(
        "warning",
        "unknown",
    ),
    summary=(
        "A volume, local queue, team, run or Secret stands in a namespace that neither the stack declares nor every "
        "cluster has."
    ),
    details=(
        "An install brings its own: Kueue `kueue-system`, the training operator `kubeflow`; for Secrets, which come "
        "before, that one is declared too. A cluster queue that is open to such a namespace is a warning."
    ),
    example="`namespace: reserch` where the namespace is `research`.",
    remedy=(
        "Name a declared namespace, or declare it under `environment.namespaces`; one that the cluster has by "
        "others' hands goes under `environment.existing.namespaces`."
    ),
)
def namespace_unknown(scene: Scene) -> Iterator[Violation]:
    """Volumes, local queues, teams and runs stand in namespaces that the stack or the cluster has."""
    settings = scene.settings
    environment = settings.environment
    early = {one.name for one in environment.namespaces} | {*environment.existing.namespaces, *ALWAYS_THERE}
    known = early | ({"kueue-system"} if settings.operators.kueue else set())
    known |= {"kubeflow"} if settings.operators.training_operator else set()
    known |= {"jobset-system"} if settings.operators.jobset else set()
    known |= {"kubeflow-system"} if settings.operators.trainer else set()
    # They come before the operators, which may need them.
    for path, secret in each("secrets.secrets", settings.secrets.secrets):
        place = f"{path}.namespace"
        yield from _refer(scene, place, secret.namespace, "namespace", early)
    users = [(path, volume.namespace) for path, volume in each("storage.volumes", settings.storage.volumes)]
    users += [(path, queue.namespace) for path, queue in each("queues.localQueues", settings.queues.local_queues)]
    users += [(path, team.namespace) for path, team in each("tenants.teams", settings.tenants.teams)]
    users += [(path, run.namespace) for path, run in scene.runs()]
    for path, namespace in users:
        yield from _refer(scene, f"{path}.namespace", namespace, "namespace", known)
    for path, queue in each("queues.clusterQueues", settings.queues.cluster_queues):
        for namespace in (one for one in queue.namespaces or () if one not in known):
            message = f"the queue is open to namespace {namespace}, which is not declared"
            remedy = _or_declare(namespace, known)
            yield Violation(f"{path}.namespaces", message, remedy, "warning")


@Rule(
    id="dependency-unknown",
    severity="error",
    summary="A run depends on a run that its namespace does not have, or on itself; it would never be launched.",
    example="`dependsOn: [stgae]` where the run that fills the volume is `stage`.",
    remedy="Name another run of the same namespace.",
)
def dependency_unknown(scene: Scene) -> Iterator[Violation]:
    """What a run depends on is a run of its namespace."""
    names: dict[str, set[str]] = defaultdict(set)
    for one in scene.settings.workloads.runs:
        names[one.namespace].add(one.name)
    for path, run in scene.runs():
        for index, word in enumerate(run.depends_on):
            known = names[run.namespace] - {run.name}
            if word not in known:
                message = f"no other run of namespace {run.namespace} is {word}"
                remedy = _or_declare(word, known, "under workloads.runs")
                yield Violation(f"{path}.dependsOn[{index}]", message, remedy)


@Rule(
    id="dependency-cycle",
    severity="error",
    summary="Runs depend on each other in a circle; none of them would ever be launched.",
    example="`train` has `dependsOn: [stage]`, and `stage` has `dependsOn: [train]`.",
    remedy="Take one of the dependencies out.",
)
def dependency_cycle(scene: Scene) -> Iterator[Violation]:
    """No run depends on itself by way of others: none of them would ever be launched. Told once for each circle."""
    others = {(run.namespace, run.name): run.depends_on for _, run in scene.runs()}
    told: set[tuple[str, str]] = set()
    for path, run in scene.runs():
        way = list(run.depends_on)
        for name in way:
            way += [each for each in others.get((run.namespace, name), ()) if each not in way]
        told_already = any((run.namespace, name) in told for name in way)
        if run.name in way and run.name not in run.depends_on and not told_already:
            told.add((run.namespace, run.name))
            message = f"depends on itself, by way of {', '.join(name for name in way if name != run.name)}"
            yield Violation(f"{path}.dependsOn", message, "take one of them out")


@Rule(
    id="dependency-endless",
    severity="error",
    summary="A run depends on a Pod with `restartPolicy: Always`.",
    details=(
        "Its node restarts it whenever it has ended, so it never succeeds, and the run would never be launched. An "
        "unmanaged Pod that names no `restartPolicy` has this policy: it is the cluster's default."
    ),
    example="`train` has `dependsOn: [stage]`, and `stage` is `kind: Pod` with `managed: false`.",
    remedy="Set `restartPolicy` to `Never` or `OnFailure` on the Pod, or take the dependency out.",
)
def dependency_endless(scene: Scene) -> Iterator[Violation]:
    """No run depends on a Pod that is restarted whenever it has ended: that never succeeds."""
    endless = {(one.namespace, one.name) for one in scene.settings.workloads.runs if one.restarts_always}
    for path, run in scene.runs():
        for index, word in enumerate(run.depends_on):
            if (run.namespace, word) in endless:
                message = f"Pod {word} never succeeds: it is restarted whenever it has ended (restartPolicy Always)"
                remedy = f"set restartPolicy to Never or OnFailure on {word}, or take it out"
                yield Violation(f"{path}.dependsOn[{index}]", message, remedy)


def _refer(scene: Scene, path: str, word: str | None, kind: str, known: Iterable[str]) -> Iterator[Violation]:
    """Nothing when the word is one of the known; what is not declared here may yet be another stack's."""
    known = set(known)
    if word is None or word in known:
        return
    if scene.owns_platform:
        yield Violation(path, f"no {kind} is {word}", _or_declare(word, known))
    else:
        message = f"whether a {kind} is {word} is not told in this stack"
        yield Violation(path, message, "ask the platform's owner, or look into the cluster", "unknown")


def _or_declare(word: str, known: Iterable[str], where: str = "here") -> str:
    others = sorted(known)
    return f"{nearest(word, others)} (or declare it {where})" if others else f"declare it {where}"


RULES: tuple[Check[Scene], ...] = (
    queue_unknown,
    volume_unknown,
    storage_class_unknown,
    priority_unknown,
    cluster_queue_unknown,
    flavor_unknown,
    cohort_unknown,
    cohort_cycle,
    namespace_unknown,
    dependency_unknown,
    dependency_cycle,
    dependency_endless,
)
