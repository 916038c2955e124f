"""Build the components of operators from their releases. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from trainstack.objects.labels import RETAIN, Manifest
from trainstack.platform.operators import install
from trainstack.platform.operators.install import OperatorManifests
from trainstack.platform.operators.kueue import kueue
from trainstack.platform.operators.trainer import jobset, trainer
from trainstack.platform.operators.training_operator import training_operator
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import TrainingOperator
from trainstack.stack_objects.component import Component, DeclaredObject, component_from_stages

_ADAPTERS: Mapping[str, Callable[[Sequence[Manifest], Any], list[Manifest]]] = {
    "kueue": kueue,
    "training-operator": training_operator,
    "jobset": jobset,
    "trainer": trainer,
}


def operator_manifests(settings: Settings, releases: Mapping[str, Sequence[Manifest]]) -> dict[str, OperatorManifests]:
    """Return the operators' objects by name, in the order of their installation, with the images of the settings.

    Kueue is first, so that the others may depend on it. Raises OperatorError if a release lacks an object that its
    install needs.
    """
    namespaces = [namespace.name for namespace in settings.environment.namespaces]
    result = {}
    for name, install_settings in settings.operators.installs.items():
        pinned_settings = install_settings
        if isinstance(install_settings, TrainingOperator):
            # The image of init containers is an argument of the operator.
            image = settings.pinned_reference(install_settings.init_container_image)
            pinned_settings = install_settings.model_copy(update={"init_container_image": image})
        manifests = _ADAPTERS[name](releases[name], pinned_settings)
        result[name] = install.stage_manifests(manifests, settings.stack, install_settings.manifest.version, namespaces)
    return result


def definitions_component(operators: Mapping[str, OperatorManifests]) -> Component:
    """Return the CRDs of all operators, which come before the operators: Kueue lists its kinds when it starts."""
    crds = (definition for operator in operators.values() for definition in operator.crds)
    return component_from_stages(crds, retained_kinds=("CustomResourceDefinition",))


def operator_component(manifests: OperatorManifests, retained_namespaces: Collection[str] = ()) -> Component:
    """Return the objects of an operator except its CRDs.

    `retained_namespaces`: the names of the namespaces that remain in the cluster when the stack is destroyed.
    """
    namespaces = [
        _with_retention(manifest, retained_namespaces)
        for manifest in manifests.setup
        if manifest["kind"] == "Namespace"
    ]
    other_manifests = [manifest for manifest in manifests.setup if manifest["kind"] != "Namespace"]
    namespace_objects = (
        DeclaredObject(namespace, retain=namespace["metadata"]["name"] in retained_namespaces)
        for namespace in namespaces
    )
    # Namespaces have their own retention, so the objects of the first stage are replaced by those above.
    return Component(
        (
            *namespace_objects,
            *component_from_stages(namespaces, other_manifests, manifests.deployments, manifests.extensions).objects[
                len(namespaces) :
            ],
        )
    )


def _with_retention(namespace: Manifest, retained_namespaces: Collection[str]) -> Manifest:
    metadata = namespace["metadata"]
    if metadata["name"] in retained_namespaces:
        return namespace
    return {**namespace, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), RETAIN: "false"}}}
