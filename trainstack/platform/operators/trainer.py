"""The installs of JobSet and Kubeflow Trainer (v2): the objects of their releases, with hardened controllers."""

from collections.abc import Sequence

from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import controller, find
from trainstack.settings.sections.operators import Install

_CONFIG_KEY = "controller_manager_config.yaml"


def jobset(release: Sequence[Manifest], declared: Install) -> list[Manifest]:
    return _adapted(release, declared, "jobset-controller-manager", "jobset-manager-config")


def trainer(release: Sequence[Manifest], declared: Install) -> list[Manifest]:
    # No runtimes are added: every TrainJob has its own.
    return _adapted(release, declared, "kubeflow-trainer-controller-manager", "kubeflow-trainer-config")


def _adapted(release: Sequence[Manifest], declared: Install, deployment: str, config_map: str) -> list[Manifest]:
    found = find(release, "Deployment", deployment)
    config = find(release, "ConfigMap", config_map)["data"][_CONFIG_KEY]
    adapted = controller(found, declared, container="manager", config=config)
    return [adapted if manifest is found else manifest for manifest in release]
