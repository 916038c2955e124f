"""The rule about objects that a tenant's stack must not declare."""

from collections.abc import Iterator, Sequence

from trainstack.preflight.examples import yaml_at
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import Named, RuleContext
from trainstack.settings.model import Settings
from trainstack.settings.values.kind_scopes import NAMESPACED_KINDS


@Rule(
    id="tenant-cluster-scoped",
    summary="A tenant's stack declares cluster-scoped objects.",
    change=yaml_at("environment", "profile: tenant"),
    remedy="Leave them to the platform's owner; `priorityClasses: null` removes what `defaults.yaml` declares.",
    silenceable=False,
)
def tenant_cluster_scoped(context: RuleContext) -> Iterator[Violation]:
    settings = context.settings
    if settings.environment.profile != "tenant":
        return
    operators = {OPERATORS[name].path: [name] for name in settings.operators.installs}
    others = {
        f"objects.manifests[{index}]": [f"{manifest['kind']} {manifest['metadata']['name']}"]
        for index, manifest in enumerate(context.stack_objects.other_manifests)
        if "namespace" not in manifest["metadata"] and manifest["kind"] not in NAMESPACED_KINDS
    }
    for path, names in (cluster_scoped_names(settings) | operators | others).items():
        if names:
            message = f"a tenant's stack cannot declare cluster-scoped objects ({', '.join(names)})"
            remedy = "leave them to the platform's owner, and set what defaults.yaml declares to null"
            yield Violation(path, message, remedy)


def cluster_scoped_names(settings: Settings) -> dict[str, list[str]]:
    """Return the names in each list of cluster-scoped objects, by the list's path."""
    storage, queues = settings.storage, settings.queues
    lists: dict[str, Sequence[Named]] = {
        "environment.namespaces": settings.environment.namespaces,
        "storage.classes": storage.classes,
        "storage.persistentVolumes": storage.persistent_volumes,
        "queues.flavors": queues.flavors,
        "queues.cohorts": queues.cohorts,
        "queues.clusterQueues": queues.cluster_queues,
        "queues.topologies": queues.topologies,
        "queues.admissionChecks": queues.admission_checks,
        "queues.provisioningRequestConfigs": queues.provisioning_request_configs,
        "queues.multiKueueClusters": queues.multi_kueue_clusters,
        "queues.multiKueueConfigs": queues.multi_kueue_configs,
        "queues.priorityClasses": queues.priority_classes,
        "tenants.teams": settings.tenants.teams,
    }
    return {path: [item.name for item in items] for path, items in lists.items()}
