"""Names that must name something."""

from collections.abc import Iterable, Iterator

from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene, each, flavors
from trainstack.runs.status.run_pods import pod_sets
from trainstack.settings.errors import nearest

ALWAYS_THERE = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that every cluster has."""


@Rule(
    id="queue-unknown",
    severity="error",
    may_be=("warning", "unknown"),
    summary=(
        "A run, or `cluster.loader`, names a LocalQueue that is not declared in its namespace, or does not exist there."
    ),
    details=(
        "Kueue would never admit it. Where another stack declares the queues, the finding on the files is "
        "`unknown`. A declared queue that does not exist yet is a warning: `up` creates it."
    ),
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, queue: reserch}
    """,
    remedy=(
        "Name a queue of the run's namespace (`kubectl get localqueues`), declare one under `queues.localQueues`, "
        "or ask the owner of the platform for one."
    ),
    formerly=("queue-absent",),
)
def queue_unknown(scene: Scene) -> Iterator[Violation]:
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
    summary="A mount, `data` or `record` names a volume that is not declared in the run's namespace.",
    details="The pods would stay Pending.",
    change="""
        trainstack:workloads:
          runs:
            - name: digits
              volumes: [{volume: training, mountPath: /mnt/training}, {volume: cache, mountPath: /mnt/cache}]
    """,
    remedy="Name a volume of `storage.volumes`, or declare it there (`adopt: true` takes over an existing claim).",
)
def volume_unknown(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        known = {volume.name for volume in scene.settings.storage.volumes if volume.namespace == run.namespace}
        named = {f"{path}.data.volume": run.data.volume} if run.data else {}
        named |= {f"{path}.record.volume": run.record.volume} if run.record else {}
        for pods in pod_sets(path, run):
            named |= {f"{pods.mounts_path}[{index}].volume": mount.volume for index, mount in enumerate(pods.mounts)}
        for where, word in named.items():
            if word not in known:
                remedy = or_declare(word, known, "under storage.volumes")
                yield Violation(where, f"no volume of namespace {run.namespace} is {word}", remedy)


@Rule(
    id="storage-class-unknown",
    severity="error",
    may_be=("warning", "unknown"),
    summary="A volume names a StorageClass that is not declared, or does not exist.",
    details=(
        "The claim would stay Pending. A declared class that does not exist yet is a warning: `up` creates it. The "
        "class name of a PersistentVolume is valid without a class, and a bound claim needs its class no longer."
    ),
    change="""
        trainstack:storage:
          volumes:
            - {name: training, storageClass: share}
    """,
    remedy=(
        "Name another class (`kubectl get storageclass`), or declare it under `storage.classes`. List a class that "
        "the cluster already has under `environment.existing.storageClasses`."
    ),
    formerly=("class-missing",),
)
def storage_class_unknown(scene: Scene) -> Iterator[Violation]:
    storage = scene.settings.storage
    known = [*(one.name for one in storage.classes), *scene.settings.environment.existing.storage_classes]
    # A claim and a volume made by hand may meet on a class name that is no object.
    bound = known + [volume.storage_class for volume in storage.persistent_volumes]
    for path, claim in each("storage.volumes", storage.volumes):
        yield from _refer(scene, f"{path}.storageClass", claim.storage_class, "storage class", bound)


@Rule(
    id="priority-unknown",
    severity="error",
    may_be=("warning", "unknown"),
    summary="A run names a WorkloadPriorityClass that is not declared, or does not exist.",
    details="A declared class that does not exist yet is a warning: `up` creates it.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, priority: urgent}
    """,
    remedy="Name another class, declare it under `queues.priorityClasses`, or ask the owner of the platform for it.",
    formerly=("priority-missing",),
)
def priority_unknown(scene: Scene) -> Iterator[Violation]:
    known = [one.name for one in scene.settings.queues.priority_classes]
    for path, run in scene.runs():
        yield from _refer(scene, f"{path}.priority", run.priority, "priority class", known)


@Rule(
    id="cluster-queue-unknown",
    severity="error",
    may_be=("unknown",),
    summary="A local queue points at a cluster queue that is not declared.",
    details="The local queue would admit nothing.",
    change="""
        trainstack:queues:
          localQueues:
            - {name: research, namespace: research, clusterQueue: resarch}
    """,
    remedy="Name a declared queue, or declare it under `queues.clusterQueues`.",
)
def cluster_queue_unknown(scene: Scene) -> Iterator[Violation]:
    queues = scene.settings.queues
    known = [one.name for one in queues.cluster_queues]
    for path, queue in each("queues.localQueues", queues.local_queues):
        place = f"{path}.clusterQueue"
        yield from _refer(scene, place, queue.cluster_queue, "cluster queue", known)


@Rule(
    id="flavor-unknown",
    severity="error",
    may_be=("unknown",),
    summary="A cluster queue has a quota on a flavor that is not declared.",
    details="Kueue keeps the whole cluster queue inactive.",
    change="""
        trainstack:queues:
          clusterQueues:
            - name: research
              resourceGroups:
                - coveredResources: [cpu, memory]
                  flavors:
                    - name: cpu
                      resources: [{name: cpu, nominalQuota: 2}, {name: memory, nominalQuota: 8Gi}]
                    - name: a100
                      resources: [{name: cpu, nominalQuota: 4}, {name: memory, nominalQuota: 8Gi}]
    """,
    remedy="Name a declared flavor, or declare it under `queues.flavors`.",
)
def flavor_unknown(scene: Scene) -> Iterator[Violation]:
    queues = scene.settings.queues
    known = [one.name for one in queues.flavors]
    for path, queue in each("queues.clusterQueues", queues.cluster_queues):
        for where, _, flavor in flavors(path, queue):
            yield from _refer(scene, f"{where}.name", flavor.name, "flavor", known)


@Rule(
    id="cohort-unknown",
    severity="error",
    may_be=("unknown",),
    summary="The cohort of a cluster queue, or the parent of a cohort, is not declared.",
    change="""
        trainstack:queues:
          clusterQueues:
            - {name: research, cohort: locl}
    """,
    remedy="Name a declared cohort, or declare it under `queues.cohorts`.",
)
def cohort_unknown(scene: Scene) -> Iterator[Violation]:
    queues = scene.settings.queues
    known = [one.name for one in queues.cohorts]
    for path, queue in each("queues.clusterQueues", queues.cluster_queues):
        yield from _refer(scene, f"{path}.cohort", queue.cohort, "cohort", known)
    for path, cohort in each("queues.cohorts", queues.cohorts):
        yield from _refer(scene, f"{path}.parent", cohort.parent, "cohort", known)


@Rule(
    id="cohort-cycle",
    severity="error",
    summary="A cohort is its own ancestor.",
    details="Kueue admits nothing in a tree with a cycle.",
    change="""
        trainstack:queues:
          cohorts:
            - {name: local, parent: site}
            - {name: site, parent: local}
    """,
    remedy="Remove the parent of one of the cohorts.",
)
def cohort_cycle(scene: Scene) -> Iterator[Violation]:
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
    summary="A volume, local queue, team, run or Secret is in a namespace that is not declared, or does not exist.",
    details=(
        "The namespaces of every cluster, such as `default`, need no declaration. Each operator installs its own "
        "namespace: Kueue `kueue-system`, the training operator `kubeflow`. Secrets are created before the "
        "operators, so declare these namespaces too if they hold Secrets. Two cases are warnings: a cluster queue "
        "that is open to an undeclared namespace, and a declared namespace that does not exist yet, which `up` "
        "creates. A silence does not apply to a namespace that does not exist: nothing can be created there."
    ),
    change="""
        trainstack:storage:
          volumes:
            - {name: data, namespace: reserch, storageClass: shared, size: 1Gi, accessModes: [ReadWriteMany]}
    """,
    remedy=(
        "Name a declared namespace, or declare it under `environment.namespaces`. List a namespace that the cluster "
        "already has under `environment.existing.namespaces`."
    ),
    formerly=("namespace-missing",),
)
def namespace_unknown(scene: Scene) -> Iterator[Violation]:
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
            remedy = or_declare(namespace, known)
            yield Violation(f"{path}.namespaces", message, remedy, "warning")


def _refer(scene: Scene, path: str, word: str | None, kind: str, known: Iterable[str]) -> Iterator[Violation]:
    """Nothing when the word is one of the known; what is not declared here may yet be another stack's."""
    known = set(known)
    if word is None or word in known:
        return
    if scene.owns_platform:
        yield Violation(path, f"no {kind} is {word}", or_declare(word, known))
    else:
        message = f"whether a {kind} is {word} is not told in this stack"
        yield Violation(path, message, "ask the platform's owner, or look into the cluster", "unknown")


def or_declare(word: str, known: Iterable[str], where: str = "here") -> str:
    """The remedy for an unknown name: the nearest of the known ones, or a declaration."""
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
)
