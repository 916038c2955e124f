"""What a tenant's stack may not hold."""

from collections.abc import Iterator

from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene


@Rule(
    id="tenant-cluster-scoped",
    severity="error",
    summary="The stack of a tenant declares cluster-scoped objects.",
    details="A tenant has rights in its namespaces only.",
    change="""
        trainstack:environment:
          profile: tenant
    """,
    remedy=(
        "Leave these objects to the owner of the platform. `null` removes what `defaults.yaml` declares: "
        "`priorityClasses: null`."
    ),
    silenceable=False,
)
def tenant_cluster_scoped(scene: Scene) -> Iterator[Violation]:
    settings = scene.settings
    if settings.environment.profile != "tenant":
        return
    declared = {
        "environment.namespaces": [one.name for one in settings.environment.namespaces],
        "storage.classes": [one.name for one in settings.storage.classes],
        "storage.persistentVolumes": [one.name for one in settings.storage.persistent_volumes],
        "queues.flavors": [one.name for one in settings.queues.flavors],
        "queues.cohorts": [one.name for one in settings.queues.cohorts],
        "queues.clusterQueues": [one.name for one in settings.queues.cluster_queues],
        "queues.priorityClasses": [one.name for one in settings.queues.priority_classes],
        "tenants.teams": [one.name for one in settings.tenants.teams],
        "operators.kueue": ["kueue"] if settings.operators.kueue else [],
        "operators.trainingOperator": ["training-operator"] if settings.operators.training_operator else [],
        "operators.jobset": ["jobset"] if settings.operators.jobset else [],
        "operators.trainer": ["trainer"] if settings.operators.trainer else [],
    }
    for path, names in declared.items():
        if names:
            message = f"is cluster-wide, and a tenant's stack is not ({', '.join(names)})"
            remedy = "leave it to the platform's owner; what defaults.yaml brings is taken away with null"
            yield Violation(path, message, remedy)


RULES: tuple[Check[Scene], ...] = (tenant_cluster_scoped,)
