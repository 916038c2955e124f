"""The installs of JobSet and Trainer, from minimal releases, and the order of all operators together."""

from typing import Any

import pytest

from tests.unit.make import make_manifest
from tests.unit.platform.restricted import violations
from trainstack.objects.labels import CONFIG_HASH, RELEASE
from trainstack.platform.operators.install import OperatorError, manifests_in_order, short_hash, stage_manifests
from trainstack.platform.operators.trainer import jobset, trainer
from trainstack.settings.sections.operators import ControllerResources, Install

NAMES = {
    jobset: ("jobset-controller-manager", "jobset-manager-config", "jobset-system"),
    trainer: ("kubeflow-trainer-controller-manager", "kubeflow-trainer-config", "kubeflow-system"),
}
MARK = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}


def make_release(controller: str, config_map: str, namespace: str) -> list[dict[str, Any]]:
    """Return a minimal release, in an order in which it could not be installed."""
    container = {
        "name": "manager",
        "image": "controller:v1",
        "resources": {"requests": {"cpu": "500m", "memory": "128Mi"}},
        "securityContext": {"readOnlyRootFilesystem": True},
    }
    template = {"metadata": {}, "spec": {"containers": [container]}}
    return [
        {
            "kind": "Deployment",
            "metadata": {"name": controller, "namespace": namespace},
            "spec": {"template": template},
        },
        {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": controller}, "webhooks": [{"rules": [{}]}]},
        {
            "kind": "ConfigMap",
            "metadata": {"name": config_map, "namespace": namespace},
            "data": {"controller_manager_config.yaml": "kind: Configuration"},
        },
        {"kind": "CustomResourceDefinition", "metadata": {"name": f"{controller}s.example.org"}},
        {"kind": "Namespace", "metadata": {"name": namespace}},
    ]


@pytest.mark.parametrize("install", NAMES)
def test_the_controller_is_hardened_and_requests_less(install: Any) -> None:
    """It restarts when its configuration changes, which it reads once."""
    declared = Install(
        manifest=make_manifest(),
        image=f"controller@sha256:{'0' * 64}",
        image_pull_secrets=("registry",),
        requests=ControllerResources(cpu="50m"),
    )
    (deployment,) = stage_manifests(install(make_release(*NAMES[install]), declared), "dev", "v1.2.3").deployments
    template = deployment["spec"]["template"]
    assert deployment["metadata"]["labels"] == {**MARK, RELEASE: "v1.2.3"}
    assert deployment["spec"]["replicas"] == 1
    assert template["metadata"]["annotations"] == {CONFIG_HASH: short_hash("kind: Configuration")}
    assert template["spec"]["containers"] == [
        {
            "name": "manager",
            "image": f"controller@sha256:{'0' * 64}",
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
            "securityContext": {
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ]
    assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert violations(template["spec"]) == []


@pytest.mark.parametrize("install", NAMES)
def test_another_release_is_refused(install: Any) -> None:
    """This code adapts known releases only."""
    controller, config_map, namespace = NAMES[install]
    declared = Install(manifest=make_manifest())
    for release in (make_release("x", config_map, namespace), make_release(controller, "x", namespace)):
        with pytest.raises(OperatorError, match=r"the release manifest has no (Deployment|ConfigMap)"):
            install(release, declared)


def test_the_definitions_of_all_operators_come_first() -> None:
    """Kueue, the first of them, needs the kinds that it manages when it starts."""
    declared = Install(manifest=make_manifest())
    installs = [
        stage_manifests(install(make_release(*names), declared), "dev", "v1.2.3") for install, names in NAMES.items()
    ]
    kinds = [manifest["kind"] for manifest in manifests_in_order(installs)]
    setup = ["Namespace", "ConfigMap", "ValidatingWebhookConfiguration", "Deployment"]
    assert kinds == ["CustomResourceDefinition", "CustomResourceDefinition", *setup, *setup]
