"""The installs of JobSet and of Kubeflow Trainer (v2): their releases, with hardened controllers."""

from collections.abc import Iterable, Sequence

from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import OperatorManifests, controller, find, staged
from trainstack.settings.sections.operators import Install

JOBSET_NAMESPACE = "jobset-system"
TRAINER_NAMESPACE = "kubeflow-system"
_CONFIG_KEY = "controller_manager_config.yaml"


def jobset(
    release: Sequence[Manifest], declared: Install, stack: str, declared_namespaces: Iterable[str] = ()
) -> OperatorManifests:
    """Return JobSet's objects by stage, as `kueue` does."""
    objects = _adapted(release, declared, "jobset-controller-manager", "jobset-manager-config")
    return staged(objects, stack, declared_namespaces)


def trainer(
    release: Sequence[Manifest], declared: Install, stack: str, declared_namespaces: Iterable[str] = ()
) -> OperatorManifests:
    """Return Trainer's objects by stage, as `kueue` does. Every TrainJob has its own runtime."""
    objects = _adapted(release, declared, "kubeflow-trainer-controller-manager", "kubeflow-trainer-config")
    return staged(objects, stack, declared_namespaces)


def _adapted(release: Sequence[Manifest], declared: Install, deployment: str, config_map: str) -> list[Manifest]:
    found = find(release, "Deployment", deployment)
    config = find(release, "ConfigMap", config_map)["data"][_CONFIG_KEY]
    adapted = controller(found, declared, container="manager", config=config)
    return [adapted if manifest is found else manifest for manifest in release]
