"""Names that must name something."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from checks.finding import Finding
from checks.run_pods import pod_sets
from checks.scene import Rule, Scene, each
from settings.errors import nearest

ALWAYS_THERE = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that every cluster has."""


def queue_unknown(scene: Scene) -> Iterator[Finding]:
    """The queue of a run, and of the data loader, is a LocalQueue of its own namespace."""
    queues = scene.settings.queues.local_queues
    for path, run in scene.runs():
        known = [queue.name for queue in queues if queue.namespace == run.namespace]
        elsewhere = [queue.namespace for queue in queues if queue.name == run.queue]
        kind = f"local queue of namespace {run.namespace}"
        hint = f" (it is one of namespace {elsewhere[0]})" if elsewhere else ""
        yield from _refer(scene, "queue-unknown", f"{path}.queue", run.queue, kind + hint, known)
    loader = scene.settings.cluster.loader.queue
    for namespace in sorted({volume.namespace for volume in scene.settings.storage.volumes}):
        known = [queue.name for queue in queues if queue.namespace == namespace]
        kind = f"local queue of namespace {namespace}"
        yield from _refer(scene, "queue-unknown", "cluster.loader.queue", loader, kind, known)


def volume_unknown(scene: Scene) -> Iterator[Finding]:
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
                yield Finding(
                    "volume-unknown", "error", where, f"no volume of namespace {run.namespace} is {word}", remedy
                )


def storage_class_unknown(scene: Scene) -> Iterator[Finding]:
    """A volume's class is declared where classes are."""
    storage = scene.settings.storage
    known = [*(one.name for one in storage.classes), *scene.settings.environment.existing.storage_classes]
    # A claim and a volume made by hand may meet on a class name that is no object.
    bound = known + [volume.storage_class for volume in storage.persistent_volumes]
    for path, claim in each("storage.volumes", storage.volumes):
        yield from _refer(
            scene, "storage-class-unknown", f"{path}.storageClass", claim.storage_class, "storage class", bound
        )


def priority_unknown(scene: Scene) -> Iterator[Finding]:
    """A run's priority is a declared priority class."""
    known = [one.name for one in scene.settings.queues.priority_classes]
    for path, run in scene.runs():
        yield from _refer(scene, "priority-unknown", f"{path}.priority", run.priority, "priority class", known)


def cluster_queue_unknown(scene: Scene) -> Iterator[Finding]:
    """A local queue's cluster queue is declared."""
    queues = scene.settings.queues
    known = [one.name for one in queues.cluster_queues]
    for path, queue in each("queues.localQueues", queues.local_queues):
        place = f"{path}.clusterQueue"
        yield from _refer(scene, "cluster-queue-unknown", place, queue.cluster_queue, "cluster queue", known)


def flavor_unknown(scene: Scene) -> Iterator[Finding]:
    """A quota's flavor is declared."""
    queues = scene.settings.queues
    known = [one.name for one in queues.flavors]
    for path, queue in each("queues.clusterQueues", queues.cluster_queues):
        for index, group in enumerate(queue.resource_groups):
            for where, flavor in each(f"{path}.resourceGroups[{index}].flavors", group.flavors):
                yield from _refer(scene, "flavor-unknown", f"{where}.name", flavor.name, "flavor", known)


def cohort_unknown(scene: Scene) -> Iterator[Finding]:
    """A queue's cohort and a cohort's parent are declared."""
    queues = scene.settings.queues
    known = [one.name for one in queues.cohorts]
    for path, queue in each("queues.clusterQueues", queues.cluster_queues):
        yield from _refer(scene, "cohort-unknown", f"{path}.cohort", queue.cohort, "cohort", known)
    for path, cohort in each("queues.cohorts", queues.cohorts):
        yield from _refer(scene, "cohort-unknown", f"{path}.parent", cohort.parent, "cohort", known)


def cohort_cycle(scene: Scene) -> Iterator[Finding]:
    """No cohort is its own ancestor: Kueue stops admitting in a tree that has no root."""
    parents = {one.name: one.parent for one in scene.settings.queues.cohorts}
    for path, cohort in each("queues.cohorts", scene.settings.queues.cohorts):
        line = [cohort.name]
        while (parent := parents.get(line[-1])) is not None and parent not in line:
            line.append(parent)
        if parent == cohort.name:
            message = f"is its own ancestor: {' -> '.join([*line, cohort.name])}"
            yield Finding("cohort-cycle", "error", f"{path}.parent", message, "leave out the parent of one of them")


def namespace_unknown(scene: Scene) -> Iterator[Finding]:
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
        yield from _refer(scene, "namespace-unknown", place, secret.namespace, "namespace", early)
    users = [(path, volume.namespace) for path, volume in each("storage.volumes", settings.storage.volumes)]
    users += [(path, queue.namespace) for path, queue in each("queues.localQueues", settings.queues.local_queues)]
    users += [(path, team.namespace) for path, team in each("tenants.teams", settings.tenants.teams)]
    users += [(path, run.namespace) for path, run in scene.runs()]
    for path, namespace in users:
        yield from _refer(scene, "namespace-unknown", f"{path}.namespace", namespace, "namespace", known)
    for path, queue in each("queues.clusterQueues", settings.queues.cluster_queues):
        for namespace in (one for one in queue.namespaces or () if one not in known):
            message = f"the queue is open to namespace {namespace}, which is not declared"
            remedy = _or_declare(namespace, known)
            yield Finding("namespace-unknown", "warning", f"{path}.namespaces", message, remedy)


def dependency_unknown(scene: Scene) -> Iterator[Finding]:
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
                yield Finding("dependency-unknown", "error", f"{path}.dependsOn[{index}]", message, remedy)


def dependency_cycle(scene: Scene) -> Iterator[Finding]:
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
            yield Finding("dependency-cycle", "error", f"{path}.dependsOn", message, "take one of them out")


def dependency_endless(scene: Scene) -> Iterator[Finding]:
    """No run depends on a Pod that is restarted whenever it has ended: that never succeeds."""
    endless = {(one.namespace, one.name) for one in scene.settings.workloads.runs if one.restarts_always}
    for path, run in scene.runs():
        for index, word in enumerate(run.depends_on):
            if (run.namespace, word) in endless:
                message = f"Pod {word} never succeeds: it is restarted whenever it has ended (restartPolicy Always)"
                remedy = f"set restartPolicy to Never or OnFailure on {word}, or take it out"
                yield Finding("dependency-endless", "error", f"{path}.dependsOn[{index}]", message, remedy)


def _refer(scene: Scene, rule: str, path: str, word: str | None, kind: str, known: Iterable[str]) -> Iterator[Finding]:
    """Nothing when the word is one of the known; what is not declared here may yet be another stack's."""
    known = set(known)
    if word is None or word in known:
        return
    if scene.owns_platform:
        yield Finding(rule, "error", path, f"no {kind} is {word}", _or_declare(word, known))
    else:
        message = f"whether a {kind} is {word} is not told in this stack"
        yield Finding(rule, "unknown", path, message, "ask the platform's owner, or look into the cluster")


def _or_declare(word: str, known: Iterable[str], where: str = "here") -> str:
    others = sorted(known)
    return f"{nearest(word, others)} (or declare it {where})" if others else f"declare it {where}"


RULES: tuple[Rule, ...] = (
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
