"""The install of Kueue: the objects of its release with the declared Configuration.

Source: https://kueue.sigs.k8s.io/docs/reference/kueue-config.v1beta2/
"""

from collections.abc import Sequence

import yaml

from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import adapt_controller, find_manifest, keep_webhooks
from trainstack.settings.sections.operators import Kueue, KueueConfiguration

NAMESPACE = "kueue-system"
CONTROLLER = "kueue-controller-manager"
CONFIG_MAP = "kueue-manager-config"
CONFIG_KEY = "controller_manager_config.yaml"
KUEUE_GROUP = "kueue.x-k8s.io"
_POD_BASED_FRAMEWORKS = {"deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"}
"""Frameworks that Kueue manages by their pods, so that they enable `pod` too."""


def kueue(release: Sequence[Manifest], settings: Kueue) -> list[Manifest]:
    """Return the objects of the release with the declared settings.

    Raises OperatorError if the release lacks the ConfigMap, the Deployment or its container.
    """
    config_map, deployment = (
        find_manifest(release, "ConfigMap", CONFIG_MAP),
        find_manifest(release, "Deployment", CONTROLLER),
    )
    text = configuration(config_map["data"][CONFIG_KEY], settings.configuration)
    frameworks = set(settings.configuration.frameworks)
    if manages_pods(settings.configuration):
        frameworks.add("pod")
    objects = []
    for manifest in release:
        if manifest is config_map:
            objects.append({**manifest, "data": {**manifest["data"], CONFIG_KEY: text}})
        elif manifest is deployment:
            objects.append(adapt_controller(manifest, settings, container_name="manager", config=text))
        elif manifest["kind"].endswith("WebhookConfiguration"):
            objects.append(_keep_managed_webhooks(manifest, frameworks))
        else:
            objects.append(manifest)
    return objects


def manages_pods(config: KueueConfiguration) -> bool:
    """Return whether Kueue has webhooks for all pods, including those of the other operators."""
    return not {"pod", *_POD_BASED_FRAMEWORKS}.isdisjoint(config.frameworks)


def configuration(release: str, config: KueueConfiguration) -> str:
    """Return the release's Configuration with the declared fields replaced."""
    result: Manifest = dict(yaml.load(release, Loader=yaml.CSafeLoader))
    result["integrations"] = {**result.get("integrations", {}), "frameworks": list(config.frameworks)}
    result["manageJobsWithoutQueueName"] = config.manage_jobs_without_queue_name
    if config.wait_for_pods_ready is not None:
        ready = config.wait_for_pods_ready
        result["waitForPodsReady"] = {"timeout": f"{ready.timeout_seconds}s"}
        if ready.recovery_timeout_seconds is not None:
            result["waitForPodsReady"]["recoveryTimeout"] = f"{ready.recovery_timeout_seconds}s"
    if config.retain_finished_seconds is not None:
        result["objectRetentionPolicies"] = {"workloads": {"afterFinished": f"{config.retain_finished_seconds}s"}}
    if config.client_connection is not None:
        result["clientConnection"] = config.client_connection.model_dump()
    return yaml.safe_dump({**result, **admission_fields(config)}, sort_keys=True)


def admission_fields(config: KueueConfiguration) -> Manifest:
    """Return the declared fields of the Configuration that change which workloads are admitted, and in which order."""
    result: Manifest = {}
    if config.fair_sharing is not None:
        result["fairSharing"] = config.fair_sharing.model_dump(mode="json", by_alias=True)
    if (sharing := config.admission_fair_sharing) is not None:
        result["admissionFairSharing"] = {
            "usageHalfLifeTime": f"{sharing.usage_half_life_time_seconds}s",
            "usageSamplingInterval": f"{sharing.usage_sampling_interval_seconds}s",
            **({"resourceWeights": dict(sharing.resource_weights)} if sharing.resource_weights else {}),
        }
    resources = {
        "excludeResourcePrefixes": list(config.exclude_resource_prefixes),
        "transformations": [item.model_dump(by_alias=True) for item in config.transformations],
    }
    if declared_resources := {key: value for key, value in resources.items() if value}:
        result["resources"] = declared_resources
    if config.feature_gates:
        result["featureGates"] = dict(config.feature_gates)
    return result


def _keep_managed_webhooks(manifest: Manifest, frameworks: set[str]) -> Manifest:
    """Remove the webhooks of kinds that Kueue does not manage.

    Kueue's answer to them is always yes (`setupNoopWebhook` in its pkg/controller/jobframework). But with
    `failurePolicy: Fail`, every Pod, Deployment and StatefulSet in the cluster would wait for it, and fail if Kueue is
    down.
    """
    resources = {f"{framework.rpartition('/')[2]}s" for framework in frameworks}
    return keep_webhooks(
        manifest, lambda rule: KUEUE_GROUP in rule["apiGroups"] or not resources.isdisjoint(rule["resources"])
    )
