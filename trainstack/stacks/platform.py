"""The platform layer: namespaces, rights of teams, storage classes, operators, queues."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from trainstack.components.definitions import Definitions, PreparationSteps
from trainstack.components.namespaces import Namespaces
from trainstack.components.operators import install_operators
from trainstack.components.queues import Queues
from trainstack.components.secrets import Secrets
from trainstack.components.storage import StorageClasses
from trainstack.components.tenants import Tenants
from trainstack.guards.definition_releases import Release
from trainstack.stack_objects.stack_objects import StackObjects


@dataclass(frozen=True)
class Platform:
    """The declared platform."""

    resources: tuple[pulumi.Resource, ...]
    dependencies: tuple[pulumi.Input[pulumi.Resource], ...]
    """The dependencies of volumes, runs and sweeps, which follow all of the platform except the rights of teams."""
    outputs: Mapping[str, pulumi.Input[object]]


def declare_platform(
    stack_objects: StackObjects,
    definitions: Mapping[str, Release],
    preparations: PreparationSteps,
    secrets: pulumi.Output[Any] | None,
    opts: pulumi.ResourceOptions,
) -> Platform:
    """Declare the platform.

    `definitions` are those of the operators, and `preparations` the steps before them. `secrets` is the decrypted
    section, with which operators and runs may pull their images; None without one. `opts` are the options of all
    components, with the provider.
    """

    def options_after(*resources: pulumi.Input[pulumi.Resource]) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*resources]))

    namespaces = Namespaces("namespaces", stack_objects.namespaces, opts)
    tenants = (
        [Tenants("tenants", stack_objects.tenants, options_after(namespaces))] if stack_objects.tenants.objects else []
    )
    classes = StorageClasses("storage", stack_objects.storage_classes, options_after(namespaces))
    components: list[pulumi.Resource] = [namespaces, classes]
    if secrets is not None:
        components.append(Secrets("secrets", stack_objects, secrets, options_after(namespaces)))
    if definitions:
        # The dependency makes a destroy delete the definitions before the namespaces.
        context = stack_objects.settings.cluster.context
        components.append(
            Definitions(
                "definitions", definitions, options_after(namespaces), context=context, preparations=preparations
            )
        )
    operators = install_operators(stack_objects, opts, components)
    # Dependencies are transitive, and a list of all preceding resources would be a tenth of the engine's state.
    dependencies = [resource for operator in operators.values() for resource in operator.dependencies] or [*components]
    versions = {name: operator.version for name, operator in operators.items()}
    queues = Queues("queues", stack_objects.queues, options_after(*dependencies), kueue=versions.get("kueue"))
    return Platform(
        resources=(*tenants, *components, *operators.values(), queues),
        # The SDK replaces a component by its objects, so a component without objects is no dependency.
        dependencies=(queues,) if stack_objects.queues.objects else tuple(dependencies),
        outputs={
            "namespaces": namespaces.names,
            "storageClasses": classes.classes,
            "operators": versions,
            "clusterQueues": queues.cluster_queues,
            "localQueues": queues.local_queues,
        },
    )
