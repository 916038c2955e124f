"""The platform's half: namespaces, rights of teams, storage classes, operators, queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pulumi

from trainstack.components.namespaces import Namespaces, NamespacesArgs
from trainstack.components.operators import Definitions, DefinitionsArgs, Operator, OperatorArgs
from trainstack.components.queues import Queues, QueuesArgs
from trainstack.components.secrets import Secrets, SecretsArgs
from trainstack.components.storage import StorageArgs, StorageClasses
from trainstack.components.teardown import Teardown
from trainstack.components.tenants import Tenants, TenantsArgs
from trainstack.live.webhooks import wait_until_accepted
from trainstack.platform import probes
from trainstack.platform.operators.install import OperatorManifests
from trainstack.platform.retained import Retained
from trainstack.settings.model import Settings


@dataclass(frozen=True)
class Platform:
    """What the training half stands on, and what is beside it."""

    resources: tuple[pulumi.Resource, ...]
    beside: tuple[pulumi.Resource, ...]
    outputs: Mapping[str, pulumi.Input[object]]


def platform(
    settings: Settings,
    operators: Mapping[str, OperatorManifests],
    retained: Sequence[Retained],
    teardown: Teardown,
    secrets: SecretsArgs | None,
    opts: pulumi.ResourceOptions,
) -> Platform:
    """Declare the platform.

    Args:
        settings: the environment.
        operators: the installs by name (`kueue`, `training-operator`, …), in the order to install them.
        retained: what the engine only forgets on destroy.
        teardown: the hooks of what goes.
        secrets: the Secrets, which operators and runs may need to pull their images.
        opts: carries the provider.

    """
    stack, storage = settings.stack, StorageArgs(stack=settings.stack, storage=settings.storage)
    kept = frozenset(each.name for each in retained if each.kind == "Namespace")
    namespaces = Namespaces(
        "namespaces",
        NamespacesArgs(stack=stack, namespaces=settings.environment.namespaces, retained=kept, teardown=teardown),
        opts,
    )
    after = pulumi.ResourceOptions(depends_on=[namespaces])
    beside: list[pulumi.Resource] = []
    if settings.tenants.teams:
        teams = TenantsArgs(stack=stack, tenants=settings.tenants)
        beside.append(Tenants("tenants", teams, pulumi.ResourceOptions.merge(opts, after)))
    classes = StorageClasses("storage", storage, pulumi.ResourceOptions.merge(opts, after))
    installed: list[pulumi.Resource] = [namespaces, classes]
    if secrets is not None:
        installed.append(Secrets("secrets", secrets, pulumi.ResourceOptions.merge(opts, after)))
    versions: dict[str, pulumi.Output[str]] = {}
    context = settings.cluster.context
    crds = [each for manifests in operators.values() for each in manifests.crds]
    if crds:
        definitions = DefinitionsArgs(crds=crds, teardown=teardown)
        # After the namespaces, and so gone before them.
        installed.append(Definitions("definitions", definitions, pulumi.ResourceOptions.merge(opts, after)))
    for name, manifests in operators.items():
        args = OperatorArgs(
            version=settings.operators.installs[name].manifest.version,
            manifests=manifests,
            retained=kept,
            answers=partial(wait_until_accepted, probes.BY_OPERATOR[name](stack), context),
            teardown=teardown,
        )
        operator = Operator(
            name, args, pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=list(installed)))
        )
        versions[name] = operator.version
        installed.append(operator)
    queues = Queues(
        "queues",
        QueuesArgs(stack=stack, queues=settings.queues, kueue=versions.get("kueue"), teardown=teardown),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=installed)),
    )
    return Platform(
        resources=(*installed, queues),
        beside=tuple(beside),
        outputs={
            "namespaces": namespaces.names,
            "storageClasses": classes.classes,
            "operators": versions,
            "clusterQueues": queues.cluster_queues,
            "localQueues": queues.local_queues,
        },
    )
