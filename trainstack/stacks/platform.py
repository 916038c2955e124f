"""The platform: namespaces, rights of teams, storage classes, operators, queues."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from trainstack.components.namespaces import Namespaces
from trainstack.components.operators import Definitions, Operator, OperatorArgs
from trainstack.components.queues import Queues
from trainstack.components.secrets import Secrets, SecretsArgs
from trainstack.components.storage import StorageClasses
from trainstack.components.tenants import Tenants
from trainstack.declared.declared import Declared
from trainstack.platform import probes


@dataclass(frozen=True)
class Platform:
    resources: tuple[pulumi.Resource, ...]
    """The dependencies of volumes, runs and sweeps."""
    others: tuple[pulumi.Resource, ...]
    outputs: Mapping[str, pulumi.Input[object]]


def platform(declared: Declared, secrets: SecretsArgs | None, opts: pulumi.ResourceOptions) -> Platform:
    """Declare the platform.

    Args:
        declared: the environment.
        secrets: the Secrets, with which operators and runs may pull their images.
        opts: the options of all components, with the provider.

    """
    settings = declared.settings

    def following(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*resources]))

    namespaces = Namespaces("namespaces", declared.namespaces, opts)
    others: list[pulumi.Resource] = []
    if declared.tenants.objects:
        others.append(Tenants("tenants", declared.tenants, following(namespaces)))
    classes = StorageClasses("storage", declared.storage_classes, following(namespaces))
    installed: list[pulumi.Resource] = [namespaces, classes]
    if secrets is not None:
        installed.append(Secrets("secrets", secrets, following(namespaces)))
    versions: dict[str, pulumi.Output[str]] = {}
    if declared.definitions.objects:
        # The dependency makes a destroy delete the definitions before the namespaces.
        installed.append(Definitions("definitions", declared.definitions, following(namespaces)))
    for name, component in declared.installs.items():
        args = OperatorArgs(
            version=settings.operators.installs[name].manifest.version,
            objects=component,
            probe=probes.BY_OPERATOR[name](settings.stack),
            context=settings.cluster.context,
        )
        operator = Operator(name, args, following(*installed))
        versions[name] = operator.version
        installed.append(operator)
    queues = Queues("queues", declared.queues, following(*installed), kueue=versions.get("kueue"))
    return Platform(
        resources=(*installed, queues),
        others=tuple(others),
        outputs={
            "namespaces": namespaces.names,
            "storageClasses": classes.classes,
            "operators": versions,
            "clusterQueues": queues.cluster_queues,
            "localQueues": queues.local_queues,
        },
    )
