"""Build the components of the platform from the sections of the settings. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from trainstack.declared.component import Component, DeclaredObject, staged
from trainstack.objects.labels import Manifest
from trainstack.platform import namespaces as build_namespaces
from trainstack.platform import networks
from trainstack.platform import queues as build_queues
from trainstack.platform import secrets as build_secrets
from trainstack.platform import storage as build_storage
from trainstack.platform import tenants as build_tenants
from trainstack.platform.operators.install import OperatorManifests, of_release
from trainstack.platform.operators.kueue import kueue
from trainstack.platform.operators.trainer import jobset, trainer
from trainstack.platform.operators.training_operator import training_operator
from trainstack.settings.sections.environment import Namespace
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import Queues
from trainstack.settings.sections.secrets import Secret
from trainstack.settings.sections.storage import PersistentVolume, StorageClass, Volume
from trainstack.settings.sections.tenants import Team


def namespaces(namespaces: Iterable[Namespace], stack: str, retained: Collection[str] = ()) -> Component:
    """Each namespace, then its NetworkPolicies. `retained`: the names of namespaces that remain in the cluster."""
    objects: list[DeclaredObject] = []
    for namespace in namespaces:
        manifest = build_namespaces.namespace(namespace, stack)
        objects.append(DeclaredObject(manifest, retain=namespace.name in retained))
        objects += [DeclaredObject(policy, (manifest,)) for policy in networks.policies(namespace, stack)]
    return Component(tuple(objects))


def tenants(teams: Iterable[Team], stack: str) -> Component:
    return staged(manifest for team in teams for manifest in build_tenants.rights(team, stack))


def storage_classes(classes: Iterable[StorageClass], volumes: Iterable[PersistentVolume], stack: str) -> Component:
    return staged(
        (build_storage.storage_class(storage_class, stack) for storage_class in classes),
        (build_storage.persistent_volume(volume, stack) for volume in volumes),
        retained=("PersistentVolume",),
    )


def secrets(secrets: Iterable[Secret], stack: str) -> Component:
    return staged(build_secrets.secret(secret, stack) for secret in secrets)


def claims(volumes: Iterable[Volume], stack: str) -> Component:
    return Component(
        tuple(
            DeclaredObject(build_storage.claim(volume, stack), retain=volume.retain, protect=volume.protect)
            for volume in volumes
        )
    )


def queues(queues: Queues, stack: str) -> Component:
    """Kueue's objects in the order of their references."""
    priority_classes = [build_queues.priority_class(priority, stack) for priority in queues.priority_classes]
    cohorts = [build_queues.cohort(cohort, stack) for cohort in queues.cohorts]
    flavors = [build_queues.resource_flavor(flavor, stack) for flavor in queues.flavors]
    ordered = staged(
        [*cohorts, *flavors],
        (build_queues.cluster_queue(queue, stack) for queue in queues.cluster_queues),
        (build_queues.local_queue(queue, stack) for queue in queues.local_queues),
    )
    return Component((*map(DeclaredObject, priority_classes), *ordered.objects))


def definitions(operators: Mapping[str, OperatorManifests]) -> Component:
    """The CRDs of all operators: Kueue looks for the kinds that it manages when it starts."""
    crds = (definition for operator in operators.values() for definition in operator.crds)
    return staged(crds, retained=("CustomResourceDefinition",))


def operator(manifests: OperatorManifests, retained: Collection[str] = ()) -> Component:
    """The objects of an operator except its CRDs. `retained`: the names of namespaces that remain in the cluster."""
    created = [manifest for manifest in manifests.setup if manifest["kind"] == "Namespace"]
    rest = [manifest for manifest in manifests.setup if manifest["kind"] != "Namespace"]
    first = (DeclaredObject(namespace, retain=namespace["metadata"]["name"] in retained) for namespace in created)
    return Component(
        (*first, *staged(created, rest, manifests.deployments, manifests.extensions).objects[len(created) :])
    )


def operators(
    installs: Operators,
    releases: Mapping[str, Sequence[Manifest]],
    stack: str,
    declared: Collection[str] = (),
    pin: Callable[[str], str] = str,
) -> dict[str, OperatorManifests]:
    """The operators by name, in the order of their installation.

    Kueue is first, since its webhooks act on objects of the other operators. `declared`: namespaces that other
    components declare. `pin` adds a digest to the image of init containers, which is an argument of the operator.

    Raises OperatorError if a release lacks an object that the install needs.
    """
    result = {}
    if installs.kueue is not None:
        result["kueue"] = kueue(releases["kueue"], installs.kueue, stack, declared)
    if installs.training_operator is not None:
        install, release = installs.training_operator, releases["training-operator"]
        init = {"init_container_image": pin(install.init_container_image)}
        result["training-operator"] = training_operator(release, install.model_copy(update=init), stack, declared)
    if installs.jobset is not None:
        result["jobset"] = jobset(releases["jobset"], installs.jobset, stack, declared)
    if installs.trainer is not None:
        result["trainer"] = trainer(releases["trainer"], installs.trainer, stack, declared)
    return {name: of_release(manifests, installs.installs[name].manifest.version) for name, manifests in result.items()}
