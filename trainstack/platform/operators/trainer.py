"""The installs of JobSet and Kubeflow Trainer (v2): the objects of their releases, with hardened controllers."""

from collections.abc import Sequence

from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import adapt_controller, find_manifest
from trainstack.settings.sections.operators import Install

_CONFIG_KEY = "controller_manager_config.yaml"


def jobset(release: Sequence[Manifest], install: Install) -> list[Manifest]:
    return _adapt(release, install, "jobset-controller-manager", "jobset-manager-config")


def trainer(release: Sequence[Manifest], install: Install) -> list[Manifest]:
    # No runtimes are added: every TrainJob has its own.
    return _adapt(release, install, "kubeflow-trainer-controller-manager", "kubeflow-trainer-config")


def _adapt(release: Sequence[Manifest], install: Install, deployment_name: str, config_map_name: str) -> list[Manifest]:
    release_deployment = find_manifest(release, "Deployment", deployment_name)
    config = find_manifest(release, "ConfigMap", config_map_name)["data"][_CONFIG_KEY]
    adapted_deployment = adapt_controller(release_deployment, install, container_name="manager", config=config)
    return [adapted_deployment if manifest is release_deployment else manifest for manifest in release]
