"""What a tenant's stack must not declare."""

from collections.abc import Iterator

from trainstack.preflight.examples import yaml_at
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext


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
    declared = {
        "environment.namespaces": [namespace.name for namespace in settings.environment.namespaces],
        "storage.classes": [storage_class.name for storage_class in settings.storage.classes],
        "storage.persistentVolumes": [volume.name for volume in settings.storage.persistent_volumes],
        "queues.flavors": [flavor.name for flavor in settings.queues.flavors],
        "queues.cohorts": [cohort.name for cohort in settings.queues.cohorts],
        "queues.clusterQueues": [queue.name for queue in settings.queues.cluster_queues],
        "queues.priorityClasses": [priority.name for priority in settings.queues.priority_classes],
        "tenants.teams": [team.name for team in settings.tenants.teams],
        **{OPERATORS[name].path: [name] for name in settings.operators.installs},
    }
    for path, names in declared.items():
        if names:
            message = f"a tenant's stack cannot declare cluster-scoped objects ({', '.join(names)})"
            remedy = "leave them to the platform's owner, and set what defaults.yaml declares to null"
            yield Violation(path, message, remedy)
