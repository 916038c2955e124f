"""Rules about names of objects that are not declared."""

from collections.abc import Iterable, Iterator

from trainstack.preflight.examples import hello, training, yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext, with_paths
from trainstack.settings.errors import suggest_name

ALWAYS_PRESENT = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that every cluster has."""
_OPERATOR_NAMESPACES = {
    "kueue": "kueue-system",
    "training-operator": "kubeflow",
    "jobset": "jobset-system",
    "trainer": "kubeflow-system",
}
"""Namespace that each operator's release creates."""


@Rule(
    id="queue-unknown",
    may_be=("warning", "unknown"),
    summary="A run, or `cluster.loader`, names an undeclared or missing LocalQueue of its namespace.",
    details="Kueue would never admit it.",
    change=hello("queue: trainng"),
    remedy="Name a queue of the namespace (`kubectl get localqueues`), or declare one under `queues.localQueues`.",
)
def queue_unknown(context: RuleContext) -> Iterator[Violation]:
    queues = context.settings.queues.local_queues
    users = [(f"{path}.queue", run.namespace, run.queue) for path, run in context.runs()]
    loader_namespaces = sorted(context.settings.volume_namespaces)
    users += [
        ("cluster.loader.queue", namespace, context.settings.cluster.loader.queue) for namespace in loader_namespaces
    ]
    for path, namespace, name in users:
        queue_names = [queue.name for queue in queues if queue.namespace == namespace]
        other_namespaces = [queue.namespace for queue in queues if queue.name == name]
        scope = f" in namespace {namespace}" + (
            f" (it is in namespace {other_namespaces[0]})" if other_namespaces else ""
        )
        yield from _find_unknown_names(context, [(path, name)], "local queue", queue_names, "queues.localQueues", scope)


@Rule(
    id="volume-unknown",
    summary="A mount, `data` or `record` names an undeclared volume of the run's namespace.",
    details="The pods would stay Pending.",
    example="`record: {volume: trainin}` where the volume is `training`.",
    remedy=(
        "Name another volume, declare it under `storage.volumes` (`adopt: true` takes over a claim), or list another "
        "owner's claim under `environment.existing.volumes`."
    ),
)
def volume_unknown(context: RuleContext) -> Iterator[Violation]:
    references = {f"{path}.data.volume": (run, run.data.volume) for path, run in context.runs() if run.data}
    references |= {f"{path}.record.volume": (run, run.record.volume) for path, run in context.runs() if run.record}
    references |= {path_of("volume"): (run, mount.volume) for path_of, run, mount in context.mounts()}
    for path, (run, name) in references.items():
        volume_names = {volume for namespace, volume in context.access_modes if namespace == run.namespace}
        if name not in volume_names:
            message = f"namespace {run.namespace} has no volume {name!r}"
            yield Violation(path, message, unknown_name_remedy(name, volume_names, "storage.volumes"))


@Rule(
    id="storage-class-unknown",
    may_be=("warning", "unknown"),
    summary="A volume, or `scratch`, names a StorageClass that is not declared, or does not exist.",
    details=(
        "The class name of a declared PersistentVolume is valid without a class. A volume that names no class needs a "
        "cluster with a default one, which `--cluster` checks."
    ),
    change=training("storageClass: standrd"),
    remedy=(
        "Name another class, declare it under `storage.classes`, or list an existing one under "
        "`environment.existing.storageClasses`."
    ),
)
def storage_class_unknown(context: RuleContext) -> Iterator[Violation]:
    storage = context.settings.storage
    class_names = [storage_class.name for storage_class in storage.classes]
    class_names += context.settings.environment.existing.storage_classes
    # A claim binds to a volume that was created by hand if both have the same class name, even without a class.
    class_names += [volume.storage_class for volume in storage.persistent_volumes if volume.storage_class]
    references = [
        (f"{path}.storageClass", claim.storage_class) for path, claim in context.volumes() if claim.storage_class
    ]
    references += context.scratch_classes()
    yield from _find_unknown_names(context, references, "storage class", class_names, "storage.classes")


@Rule(
    id="priority-unknown",
    may_be=("warning", "unknown"),
    summary="A run names a WorkloadPriorityClass that is not declared, or does not exist.",
    change=hello("priority: urgent"),
    remedy="Name another class, or declare it under `queues.priorityClasses`.",
)
def priority_unknown(context: RuleContext) -> Iterator[Violation]:
    class_names = [priority.name for priority in context.settings.queues.priority_classes]
    references = ((f"{path}.priority", run.priority) for path, run in context.runs())
    yield from _find_unknown_names(context, references, "priority class", class_names, "queues.priorityClasses")


@Rule(
    id="cluster-queue-unknown",
    may_be=("unknown",),
    summary="A local queue points at an undeclared cluster queue, and would admit nothing.",
    change=yaml_at("queues.localQueues", "- {name: second, namespace: training, clusterQueue: trainng}"),
    remedy="Name another queue, or declare it under `queues.clusterQueues`.",
)
def cluster_queue_unknown(context: RuleContext) -> Iterator[Violation]:
    queue_names = [queue.name for queue in context.settings.queues.cluster_queues]
    references = ((f"{path}.clusterQueue", queue.cluster_queue) for path, queue in context.local_queues())
    yield from _find_unknown_names(context, references, "cluster queue", queue_names, "queues.clusterQueues")


@Rule(
    id="flavor-unknown",
    may_be=("unknown",),
    summary="A cluster queue or cohort has a quota on an undeclared flavor; Kueue keeps the whole queue inactive.",
    example="`flavors: [{name: a100, …}]` in a resource group, without `a100` in `queues.flavors`.",
    remedy="Name another flavor, or declare it under `queues.flavors`.",
)
def flavor_unknown(context: RuleContext) -> Iterator[Violation]:
    flavor_names = [flavor.name for flavor in context.settings.queues.flavors]
    references = ((f"{path}.name", flavor.name) for path, _, _, flavor in context.flavor_quotas())
    yield from _find_unknown_names(context, references, "flavor", flavor_names, "queues.flavors")


@Rule(
    id="cohort-unknown",
    may_be=("unknown",),
    summary="The cohort of a cluster queue, or the parent of a cohort, is undeclared.",
    change=yaml_at("queues.clusterQueues", "- {name: training, cohort: lab}"),
    remedy="Name another cohort, or declare it under `queues.cohorts`.",
)
def cohort_unknown(context: RuleContext) -> Iterator[Violation]:
    cohorts = context.settings.queues.cohorts
    references = {f"{path}.cohort": queue.cohort for path, queue in context.cluster_queues()}
    references |= {f"{path}.parent": cohort.parent for path, cohort in with_paths("queues.cohorts", cohorts)}
    yield from _find_unknown_names(
        context, references.items(), "cohort", [cohort.name for cohort in cohorts], "queues.cohorts"
    )


@Rule(
    id="topology-unknown",
    may_be=("unknown",),
    summary="A flavor names an undeclared topology; Kueue keeps the queues of the flavor inactive.",
    change=yaml_at("queues.flavors", "- {name: gpu, nodeLabels: {pool: gpu}, topology: racks}"),
    remedy="Name another topology, or declare it under `queues.topologies`.",
)
def topology_unknown(context: RuleContext) -> Iterator[Violation]:
    topology_names = [topology.name for topology in context.settings.queues.topologies]
    references = ((f"{path}.topology", flavor.topology) for path, flavor in context.flavors())
    yield from _find_unknown_names(context, references, "topology", topology_names, "queues.topologies")


@Rule(
    id="admission-check-unknown",
    may_be=("unknown",),
    summary="A cluster queue names an undeclared admission check; Kueue keeps the queue inactive.",
    change=yaml_at("queues.clusterQueues", "- {name: training, admissionChecks: [{name: nodes}]}"),
    remedy="Name another check, or declare it under `queues.admissionChecks`.",
)
def admission_check_unknown(context: RuleContext) -> Iterator[Violation]:
    check_names = [check.name for check in context.settings.queues.admission_checks]
    references = (
        (f"{check_path}.name", check.name)
        for path, queue in context.cluster_queues()
        for check_path, check in with_paths(f"{path}.admissionChecks", queue.admission_checks)
    )
    yield from _find_unknown_names(context, references, "admission check", check_names, "queues.admissionChecks")


@Rule(
    id="check-parameters-unknown",
    may_be=("unknown",),
    summary="An admission check, or a MultiKueue configuration, names undeclared parameters; the check is inactive.",
    change=yaml_at(
        "queues.admissionChecks",
        "- {name: nodes, controllerName: kueue.x-k8s.io/provisioning-request, "
        "parameters: {kind: ProvisioningRequestConfig, name: nodes}}",
    ),
    remedy=(
        "Name another object, or declare it under `queues.provisioningRequestConfigs`, `queues.multiKueueConfigs` or "
        "`queues.multiKueueClusters`."
    ),
)
def check_parameters_unknown(context: RuleContext) -> Iterator[Violation]:
    queues = context.settings.queues
    configs = [config.name for config in queues.provisioning_request_configs]
    lists = {
        "ProvisioningRequestConfig": ("queues.provisioningRequestConfigs", configs),
        "MultiKueueConfig": ("queues.multiKueueConfigs", [config.name for config in queues.multi_kueue_configs]),
    }
    for path, check in with_paths("queues.admissionChecks", queues.admission_checks):
        if check.parameters is not None and check.parameters.kind in lists:
            section, declared_names = lists[check.parameters.kind]
            references = [(f"{path}.parameters.name", check.parameters.name)]
            yield from _find_unknown_names(context, references, check.parameters.kind, declared_names, section)
    clusters = [cluster.name for cluster in queues.multi_kueue_clusters]
    for path, config in with_paths("queues.multiKueueConfigs", queues.multi_kueue_configs):
        references = [(f"{path}.clusters", name) for name in config.clusters]
        yield from _find_unknown_names(context, references, "cluster", clusters, "queues.multiKueueClusters")


@Rule(
    id="cohort-cycle",
    summary="A cohort is its own ancestor; Kueue admits nothing in such a tree.",
    change=yaml_at("queues.cohorts", "- {name: lab, parent: site}", "- {name: site, parent: lab}"),
    remedy="Remove the parent of one cohort.",
)
def cohort_cycle(context: RuleContext) -> Iterator[Violation]:
    cohorts = context.settings.queues.cohorts
    parents = {cohort.name: cohort.parent for cohort in cohorts}
    for path, cohort in with_paths("queues.cohorts", cohorts):
        ancestry = [cohort.name]
        while (parent := parents.get(ancestry[-1])) is not None and parent not in ancestry:
            ancestry.append(parent)
        if parent == cohort.name:
            cycle = " -> ".join([*ancestry, cohort.name])
            yield Violation(f"{path}.parent", f"cohort {cohort.name} is its own ancestor: {cycle}")


@Rule(
    id="namespace-unknown",
    may_be=("warning", "unknown"),
    summary="A volume, local queue, team, run, Secret or other object is in an undeclared or missing namespace.",
    details=(
        "Namespaces of every cluster and of declared operators need no declaration, except for Secrets, which are "
        "created before the operators. The finding on a cluster queue that is open to the namespace is a warning. "
        "Missing namespaces cannot be silenced."
    ),
    change=yaml_at(
        "storage.volumes",
        "- {name: data, namespace: trainng, storageClass: standard, size: 1Gi, accessModes: [ReadWriteOnce]}",
    ),
    remedy=(
        "Name another namespace, declare it under `environment.namespaces`, or list an existing one under "
        "`environment.existing.namespaces`."
    ),
)
def namespace_unknown(context: RuleContext) -> Iterator[Violation]:
    settings, section = context.settings, "environment.namespaces"
    early_namespaces = {namespace.name for namespace in settings.environment.namespaces}
    early_namespaces |= {*settings.environment.existing.namespaces, *ALWAYS_PRESENT}
    known_namespaces = early_namespaces | {_OPERATOR_NAMESPACES[operator] for operator in settings.operators.installs}
    # Operators may need Secrets, so these are created first, when the operators' namespaces do not exist yet.
    secrets = with_paths("secrets.secrets", settings.secrets.secrets)
    references = ((f"{path}.namespace", secret.namespace) for path, secret in secrets)
    yield from _find_unknown_names(context, references, "namespace", early_namespaces, section)
    users = [(path, volume.namespace) for path, volume in context.volumes()]
    users += [(path, volume.namespace) for path, volume in context.existing_volumes()]
    users += [(path, queue.namespace) for path, queue in context.local_queues()]
    users += [(path, team.namespace) for path, team in with_paths("tenants.teams", settings.tenants.teams)]
    users += [(path, run.namespace) for path, run in context.runs()]
    users += [
        (f"objects.manifests[{index}].metadata", manifest["metadata"].get("namespace"))
        for index, manifest in enumerate(context.stack_objects.other_manifests)
    ]
    yield from _find_unknown_names(
        context, [(f"{path}.namespace", name) for path, name in users], "namespace", known_namespaces, section
    )
    for path, queue in context.cluster_queues():
        for namespace in (name for name in queue.namespaces or () if name not in known_namespaces):
            message = f"cluster queue {queue.name} is open to namespace {namespace!r}, which is not declared"
            yield Violation(
                f"{path}.namespaces", message, unknown_name_remedy(namespace, known_namespaces, section), "warning"
            )


def _find_unknown_names(
    context: RuleContext,
    references: Iterable[tuple[str, str | None]],
    kind: str,
    known_names: Iterable[str],
    section: str,
    scope: str = "",
) -> Iterator[Violation]:
    """Yield a violation for each unknown name, of severity `unknown` if another stack may declare the object.

    `references`: the path and the value of each setting. `scope`: an addition to the message.
    """
    known_names = set(known_names)
    for path, name in references:
        if name is None or name in known_names:
            continue
        message = f"{kind} {name!r} is not declared{scope}"
        if context.owns_platform:
            yield Violation(path, message, unknown_name_remedy(name, known_names, section))
        else:
            remedy = "ask the platform's owner, or run `trainstack check --cluster`"
            yield Violation(path, f"{message}; another stack may declare it", remedy, "unknown")


def unknown_name_remedy(name: str, known_names: Iterable[str], section: str) -> str:
    """Return the remedy for an unknown name: the nearest known name, or a declaration."""
    known_names = sorted(known_names)
    declaration = f"declare it under {section}"
    return f"{suggest_name(name, known_names)} (or {declaration})" if known_names else declaration
