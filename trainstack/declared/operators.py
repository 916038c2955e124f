"""Build the components of operators from their releases. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from trainstack.declared.component import Component, DeclaredObject, staged
from trainstack.objects.labels import RETAIN, Manifest
from trainstack.platform.operators import install
from trainstack.platform.operators.install import OperatorManifests
from trainstack.platform.operators.kueue import kueue
from trainstack.platform.operators.trainer import jobset, trainer
from trainstack.platform.operators.training_operator import training_operator
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import TrainingOperator

_ADAPTED: Mapping[str, Callable[[Sequence[Manifest], Any], list[Manifest]]] = {
    "kueue": kueue,
    "training-operator": training_operator,
    "jobset": jobset,
    "trainer": trainer,
}


def operators(settings: Settings, releases: Mapping[str, Sequence[Manifest]]) -> dict[str, OperatorManifests]:
    """Return the operators' objects by name, in the order of their installation, with the images of the settings.

    Kueue is first, so that the others may depend on it. Raises OperatorError if a release lacks an object that its
    install needs.
    """
    namespaces = [namespace.name for namespace in settings.environment.namespaces]
    result = {}
    for name, declared in settings.operators.installs.items():
        pinned = declared
        if isinstance(declared, TrainingOperator):
            # The image of init containers is an argument of the operator.
            image = settings.pinned(declared.init_container_image)
            pinned = declared.model_copy(update={"init_container_image": image})
        objects = _ADAPTED[name](releases[name], pinned)
        result[name] = install.staged(objects, settings.stack, declared.manifest.version, namespaces)
    return result


def definitions(operators: Mapping[str, OperatorManifests]) -> Component:
    """Return the CRDs of all operators, which come before the operators: Kueue lists its kinds when it starts."""
    crds = (definition for operator in operators.values() for definition in operator.crds)
    return staged(crds, retained=("CustomResourceDefinition",))


def operator(manifests: OperatorManifests, retained: Collection[str] = ()) -> Component:
    """Return the objects of an operator except its CRDs.

    `retained_namespaces`: the names of the namespaces that remain in the cluster when the stack is destroyed.
    """
    created = [_with_retention(manifest, retained) for manifest in manifests.setup if manifest["kind"] == "Namespace"]
    rest = [manifest for manifest in manifests.setup if manifest["kind"] != "Namespace"]
    first = (DeclaredObject(namespace, retain=namespace["metadata"]["name"] in retained) for namespace in created)
    # Namespaces have their own retention, so the objects of the first stage are replaced by those above.
    return Component(
        (*first, *staged(created, rest, manifests.deployments, manifests.extensions).objects[len(created) :])
    )


def _with_retention(namespace: Manifest, retained: Collection[str]) -> Manifest:
    metadata = namespace["metadata"]
    if metadata["name"] in retained:
        return namespace
    return {**namespace, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), RETAIN: "false"}}}
