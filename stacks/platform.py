"""The platform's half: namespaces, rights of teams, storage classes, operators, queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pulumi

from checks.cluster.webhooks import wait_until_accepted
from components.namespaces import Namespaces, NamespacesArgs
from components.operators import Definitions, DefinitionsArgs, Operator, OperatorArgs
from components.queues import Queues, QueuesArgs
from components.secrets import Secrets, SecretsArgs
from components.storage import StorageArgs, StorageClasses
from components.tenants import Tenants, TenantsArgs
from manifests import probes
from manifests.operators import OperatorManifests
from manifests.retained import Retained
from settings.model import Settings


@dataclass(frozen=True)
class Platform:
    """What the training half stands on."""

    resources: tuple[pulumi.Resource, ...]
    outputs: Mapping[str, pulumi.Input[object]]


def platform(
    settings: Settings,
    operators: Mapping[str, OperatorManifests],
    retained: Sequence[Retained],
    secrets: SecretsArgs | None,
    opts: pulumi.ResourceOptions,
) -> Platform:
    """Declare the platform.

    Args:
        settings: the environment.
        operators: the installs by name (`kueue`, `training-operator`, …), in the order to install them.
        retained: what stays on destroy.
        secrets: the Secrets, which operators and runs may need to pull their images.
        opts: carries the provider.

    """
    stack, storage = settings.stack, StorageArgs(stack=settings.stack, storage=settings.storage)
    kept = frozenset(each.name for each in retained if each.kind == "Namespace")
    namespaces = Namespaces(
        "namespaces",
        NamespacesArgs(stack=stack, namespaces=settings.environment.namespaces, retained=kept),
        opts,
    )
    after = pulumi.ResourceOptions(depends_on=[namespaces])
    if settings.tenants.teams:
        teams = TenantsArgs(stack=stack, tenants=settings.tenants)
        Tenants("tenants", teams, pulumi.ResourceOptions.merge(opts, after))
    classes = StorageClasses("storage", storage, pulumi.ResourceOptions.merge(opts, after))
    installed: list[pulumi.Resource] = [namespaces, classes]
    if secrets is not None:
        installed.append(Secrets("secrets", secrets, pulumi.ResourceOptions.merge(opts, after)))
    versions: dict[str, pulumi.Output[str]] = {}
    context = settings.cluster.context
    crds = [each for manifests in operators.values() for each in manifests.crds]
    if crds:
        installed.append(Definitions("definitions", DefinitionsArgs(crds=crds), opts))
    for name, manifests in operators.items():
        args = OperatorArgs(
            version=settings.operators.installs[name].manifest.version,
            manifests=manifests,
            retained=kept,
            answers=partial(wait_until_accepted, probes.BY_OPERATOR[name](stack), context),
        )
        operator = Operator(
            name, args, pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=list(installed)))
        )
        versions[name] = operator.version
        installed.append(operator)
    queues = Queues(
        "queues",
        QueuesArgs(stack=stack, queues=settings.queues, kueue=versions.get("kueue")),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=installed)),
    )
    return Platform(
        resources=(*installed, queues),
        outputs={
            "namespaces": namespaces.names,
            "storageClasses": classes.classes,
            "operators": versions,
            "clusterQueues": queues.cluster_queues,
            "localQueues": queues.local_queues,
        },
    )
