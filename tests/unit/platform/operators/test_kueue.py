"""The install of Kueue, from a minimal release."""

import copy
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tests.unit.make import make_kueue, make_manifest
from tests.unit.platform.restricted import violations
from trainstack.objects.labels import RELEASE
from trainstack.platform.operators.install import OperatorError, manifests_in_order, stage_manifests
from trainstack.platform.operators.kueue import configuration, kueue
from trainstack.settings.sections.operators import (
    AdmissionFairSharing,
    ClientConnection,
    ControllerResources,
    Kueue,
    KueueConfiguration,
    KueueFairSharing,
    Transformation,
    WaitForPodsReady,
)

MARK = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}
CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
clientConnection: {qps: 50}
# waitForPodsReady: {timeout: 5m}
integrations:
  frameworks: [batch/job, ray.io/rayjob]
  labelKeysToCopy: [team]
"""


def make_webhook(group: str, resource: str) -> dict[str, Any]:
    """Return a webhook for one resource."""
    return {"name": f"{resource}.kb.io", "rules": [{"apiGroups": [group], "resources": [resource]}]}


def make_object(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    """Return an object of the release."""
    return {"kind": kind, "metadata": {"name": name, "namespace": "kueue-system"}, **rest}


def make_release() -> list[dict[str, Any]]:
    """Return a minimal release of Kueue in the order of kustomize's output."""
    container = {
        "name": "manager",
        "image": "kueue:main",
        "imagePullPolicy": "Always",
        "resources": {"limits": {"cpu": "2", "memory": "512Mi"}, "requests": {"cpu": "500m", "memory": "512Mi"}},
        "securityContext": {"readOnlyRootFilesystem": True},
    }
    pod = {"containers": [container], "securityContext": {"runAsNonRoot": True}}
    webhooks = [
        make_webhook("", "pods"),
        make_webhook("batch", "jobs"),
        make_webhook("kubeflow.org", "pytorchjobs"),
        make_webhook("ray.io", "rayjobs"),
        make_webhook("kueue.x-k8s.io", "clusterqueues"),
    ]
    return [
        make_object("APIService", "v1beta2.visibility.kueue.x-k8s.io"),
        {"kind": "CustomResourceDefinition", "metadata": {"name": "cohorts.kueue.x-k8s.io", "labels": {"a": "b"}}},
        make_object("ClusterRole", "kueue-manager-role"),
        make_object("ConfigMap", "kueue-manager-config", data={"controller_manager_config.yaml": CONFIGURATION}),
        make_object(
            "Deployment", "kueue-controller-manager", spec={"replicas": 2, "template": {"metadata": {}, "spec": pod}}
        ),
        make_object("MutatingWebhookConfiguration", "kueue-mutating-webhook-configuration", webhooks=webhooks),
        {"kind": "Namespace", "metadata": {"name": "kueue-system"}},
        make_object("ServiceAccount", "kueue-controller-manager"),
    ]


def kinds(manifests: tuple[dict[str, Any], ...]) -> list[str]:
    """Return the kinds in order."""
    return [manifest["kind"] for manifest in manifests]


def test_objects_are_staged_in_the_order_that_an_install_needs() -> None:
    """The order is CRDs; the needs of the controller, its namespace first; the controller; the API that it serves."""
    installed = stage_manifests(kueue(make_release(), make_kueue()), "dev", "v1.2.3")
    assert kinds(manifests_in_order([installed])) == [
        "CustomResourceDefinition",
        "Namespace",
        "ServiceAccount",
        "ConfigMap",
        "ClusterRole",
        "MutatingWebhookConfiguration",
        "Deployment",
        "APIService",
    ]
    assert kinds(installed.crds) == ["CustomResourceDefinition"]
    assert kinds(installed.deployments) == ["Deployment"]
    assert kinds(installed.extensions) == ["APIService"]


def test_every_object_carries_our_mark() -> None:
    """The labels of the release are kept."""
    installed = stage_manifests(kueue(make_release(), make_kueue()), "dev", "v1.2.3")
    assert installed.crds[0]["metadata"]["labels"] == {"a": "b", **MARK, RELEASE: "v1.2.3"}
    assert all(MARK.items() <= manifest["metadata"]["labels"].items() for manifest in manifests_in_order([installed]))


def test_the_namespace_takes_restricted_pods_alone() -> None:
    """The controller's pods are restricted."""
    installed = stage_manifests(kueue(make_release(), make_kueue()), "dev", "v1.2.3")
    (namespace,) = (obj for obj in installed.setup if obj["kind"] == "Namespace")
    strict = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    assert namespace["metadata"] == {"name": "kueue-system", "labels": {**strict, **MARK}}


def test_a_namespace_that_the_environment_declares_is_left_to_it() -> None:
    """Two declarations of one object would conflict."""
    installed = stage_manifests(kueue(make_release(), make_kueue()), "dev", "v1.2.3", ["kueue-system"])
    assert "Namespace" not in kinds(manifests_in_order([installed]))


def test_the_controller_is_adapted_and_hardened() -> None:
    """Image and requests are those declared, one replica fits a `restricted` namespace, limits are the release's."""
    declared = Kueue(
        manifest=make_manifest(),
        image=f"kueue@sha256:{'0' * 64}",
        requests=ControllerResources(cpu="50m", memory="1Gi"),
    )
    (deployment,) = stage_manifests(kueue(make_release(), declared), "dev", "v1.2.3").deployments
    template = deployment["spec"]["template"]
    assert deployment["spec"]["replicas"] == 1
    assert template["spec"] == {
        "containers": [
            {
                "name": "manager",
                "image": f"kueue@sha256:{'0' * 64}",
                "imagePullPolicy": "IfNotPresent",
                "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "50m", "memory": "1Gi"}},
                "securityContext": {
                    "readOnlyRootFilesystem": True,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    assert violations(template["spec"]) == []


def test_the_controller_keeps_what_is_not_declared() -> None:
    """The release's image, pull policy and requests are kept."""
    (deployment,) = stage_manifests(kueue(make_release(), make_kueue()), "dev", "v1.2.3").deployments
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("kueue:main", "Always")
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "512Mi"}


def test_another_configuration_restarts_the_controller() -> None:
    """The ConfigMap is a subPath mount, which never changes in a running pod: its hash is on the template."""
    hashes = set()
    for declared in (make_kueue(), make_kueue(manage_jobs_without_queue_name=True)):
        (deployment,) = stage_manifests(kueue(make_release(), declared), "dev", "v1.2.3").deployments
        hashes.add(deployment["spec"]["template"]["metadata"]["annotations"]["trainstack.dev/config-hash"])
    assert len(hashes) == 2


def test_the_configuration_keeps_the_releases_other_fields() -> None:
    """Only declared fields are replaced."""
    declared = KueueConfiguration(
        frameworks=("batch/job", "pod"),
        wait_for_pods_ready=WaitForPodsReady(timeout_seconds=600, recovery_timeout_seconds=60),
        retain_finished_seconds=0,
    )
    assert yaml.safe_load(configuration(CONFIGURATION, declared)) == {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "clientConnection": {"qps": 50},
        "integrations": {"frameworks": ["batch/job", "pod"], "labelKeysToCopy": ["team"]},
        "manageJobsWithoutQueueName": False,
        "waitForPodsReady": {"timeout": "600s", "recoveryTimeout": "60s"},
        "objectRetentionPolicies": {"workloads": {"afterFinished": "0s"}},
    }


def test_the_configuration_omits_what_is_left_to_kueue() -> None:
    """Timeout, retention, sharing and feature gates are absent unless declared."""
    config = yaml.safe_load(configuration(CONFIGURATION, KueueConfiguration()))
    assert {*config} == {"apiVersion", "kind", "clientConnection", "integrations", "manageJobsWithoutQueueName"}


def test_no_limit_for_recovery_is_refused_where_kueue_evicts_at_once() -> None:
    """Kueue ignores a timeout of 0 since v0.16."""
    configuration = {"waitForPodsReady": {"recoveryTimeoutSeconds": 0}}
    manifest = make_manifest(version="v0.15.2").model_dump(by_alias=True)
    with pytest.raises(ValidationError, match=r"Kueue v0\.15\.2 would evict .*: remove recoveryTimeoutSeconds"):
        Kueue.model_validate({"manifest": manifest, "configuration": configuration})
    kueue = Kueue.model_validate({"manifest": {**manifest, "version": "v0.16.2"}, "configuration": configuration})
    assert kueue.configuration.wait_for_pods_ready == WaitForPodsReady(recovery_timeout_seconds=0)


def test_declared_limits_of_requests_replace_the_releases() -> None:
    declared = KueueConfiguration(client_connection=ClientConnection(qps=300, burst=500))
    config = yaml.safe_load(configuration(CONFIGURATION, declared))
    assert config["clientConnection"] == {"qps": 300, "burst": 500}


def test_sharing_resources_and_feature_gates_are_configured() -> None:
    declared = KueueConfiguration(
        fair_sharing=KueueFairSharing(preemption_strategies=("LessThanInitialShare",)),
        admission_fair_sharing=AdmissionFairSharing(usage_half_life_time_seconds=0, resource_weights={"cpu": 0.5}),
        exclude_resource_prefixes=("networking.example.org/",),
        transformations=(Transformation(input="gpu.example.org/mig", strategy="Replace", outputs={"memory": "5Gi"}),),
        feature_gates={"LendingLimit": False},
    )
    config = yaml.safe_load(configuration(CONFIGURATION, declared))
    assert config["fairSharing"] == {"preemptionStrategies": ["LessThanInitialShare"]}
    assert config["admissionFairSharing"] == {
        "usageHalfLifeTime": "0s",
        "usageSamplingInterval": "300s",
        "resourceWeights": {"cpu": 0.5},
    }
    assert config["resources"] == {
        "excludeResourcePrefixes": ["networking.example.org/"],
        "transformations": [
            {"input": "gpu.example.org/mig", "strategy": "Replace", "outputs": {"memory": "5Gi"}},
        ],
    }
    assert config["featureGates"] == {"LendingLimit": False}


def test_a_configuration_with_which_kueue_does_not_start_is_refused() -> None:
    """Its lists of strategies are ordered, and each resource is transformed once."""
    for strategies in ((), ("LessThanInitialShare", "LessThanOrEqualToFinalShare"), ("LessThanInitialShare",) * 2):
        with pytest.raises(ValidationError, match="Kueue does not support this list of strategies"):
            KueueFairSharing(preemption_strategies=strategies)
    with pytest.raises(ValidationError, match="are listed more than once"):
        KueueConfiguration(transformations=(Transformation(input="example.org/a"),) * 2)


@pytest.mark.parametrize(
    ("frameworks", "kept"),
    [
        (("batch/job", "kubeflow.org/pytorchjob"), ["jobs", "pytorchjobs", "clusterqueues"]),
        (("pod",), ["pods", "clusterqueues"]),
        # Kueue manages these by their pods and enables `pod` for them.
        (("statefulset",), ["pods", "clusterqueues"]),
    ],
)
def test_webhooks_of_kinds_that_kueue_does_not_manage_are_left_out(
    frameworks: tuple[str, ...], kept: list[str]
) -> None:
    """With `failurePolicy: Fail`, they would block every pod of the cluster until Kueue runs."""
    installed = stage_manifests(kueue(make_release(), make_kueue(frameworks=frameworks)), "dev", "v1.2.3")
    (webhooks,) = (obj for obj in installed.setup if obj["kind"] == "MutatingWebhookConfiguration")
    assert [webhook["rules"][0]["resources"][0] for webhook in webhooks["webhooks"]] == kept


def test_another_projects_release_is_refused() -> None:
    """The error has the missing objects."""
    with pytest.raises(OperatorError, match="no ConfigMap kueue-manager-config"):
        kueue([make_object("Deployment", "other")], make_kueue())


def test_the_release_is_not_changed() -> None:
    """Builders change no argument."""
    release = make_release()
    before = copy.deepcopy(release)
    kueue(release, Kueue(manifest=make_manifest(), requests=ControllerResources(cpu="4", memory="4Gi")))
    assert release == before
