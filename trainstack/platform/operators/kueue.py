"""The install of Kueue: the objects of its release with the declared Configuration.

Source: https://kueue.sigs.k8s.io/docs/reference/kueue-config.v1beta2/
"""

from collections.abc import Sequence

import yaml

from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import controller, find, with_webhooks
from trainstack.settings.sections.operators import Kueue, KueueConfiguration

NAMESPACE = "kueue-system"
CONTROLLER = "kueue-controller-manager"
CONFIG_MAP = "kueue-manager-config"
CONFIG_KEY = "controller_manager_config.yaml"
OWN_GROUP = "kueue.x-k8s.io"
_IMPLYING_PODS = {"deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"}
"""Frameworks that Kueue manages by their pods, so that they enable `pod` too."""


def kueue(release: Sequence[Manifest], declared: Kueue) -> list[Manifest]:
    """Return the objects of the release with the declared settings.

    Raises OperatorError if the release lacks the ConfigMap, the Deployment or its container.
    """
    config_map, deployment = find(release, "ConfigMap", CONFIG_MAP), find(release, "Deployment", CONTROLLER)
    text = configuration(config_map["data"][CONFIG_KEY], declared.configuration)
    frameworks = set(declared.configuration.frameworks)
    if manages_pods(declared.configuration):
        frameworks.add("pod")
    objects = []
    for manifest in release:
        if manifest is config_map:
            objects.append({**manifest, "data": {**manifest["data"], CONFIG_KEY: text}})
        elif manifest is deployment:
            objects.append(controller(manifest, declared, container="manager", config=text))
        elif manifest["kind"].endswith("WebhookConfiguration"):
            objects.append(_webhooks(manifest, frameworks))
        else:
            objects.append(manifest)
    return objects


def manages_pods(declared: KueueConfiguration) -> bool:
    """Return whether Kueue has webhooks for all pods, including those of the other operators."""
    return not {"pod", *_IMPLYING_PODS}.isdisjoint(declared.frameworks)


def configuration(release: str, declared: KueueConfiguration) -> str:
    """Return the release's Configuration with the declared fields replaced."""
    result: Manifest = dict(yaml.load(release, Loader=yaml.CSafeLoader))
    result["integrations"] = {**result.get("integrations", {}), "frameworks": list(declared.frameworks)}
    result["manageJobsWithoutQueueName"] = declared.manage_jobs_without_queue_name
    if declared.wait_for_pods_ready is not None:
        ready = declared.wait_for_pods_ready
        result["waitForPodsReady"] = {"timeout": f"{ready.timeout_seconds}s"}
        if ready.recovery_timeout_seconds is not None:
            result["waitForPodsReady"]["recoveryTimeout"] = f"{ready.recovery_timeout_seconds}s"
    if declared.retain_finished_seconds is not None:
        result["objectRetentionPolicies"] = {"workloads": {"afterFinished": f"{declared.retain_finished_seconds}s"}}
    if declared.client_connection is not None:
        result["clientConnection"] = declared.client_connection.model_dump()
    return yaml.safe_dump({**result, **admission_fields(declared)}, sort_keys=True)


def admission_fields(declared: KueueConfiguration) -> Manifest:
    """Return the declared fields of the Configuration that change which workloads are admitted, and in which order."""
    result: Manifest = {}
    if declared.fair_sharing is not None:
        result["fairSharing"] = declared.fair_sharing.model_dump(mode="json", by_alias=True)
    if (sharing := declared.admission_fair_sharing) is not None:
        result["admissionFairSharing"] = {
            "usageHalfLifeTime": f"{sharing.usage_half_life_time_seconds}s",
            "usageSamplingInterval": f"{sharing.usage_sampling_interval_seconds}s",
            **({"resourceWeights": dict(sharing.resource_weights)} if sharing.resource_weights else {}),
        }
    resources = {
        "excludeResourcePrefixes": list(declared.exclude_resource_prefixes),
        "transformations": [item.model_dump(by_alias=True) for item in declared.transformations],
    }
    if given := {key: value for key, value in resources.items() if value}:
        result["resources"] = given
    if declared.feature_gates:
        result["featureGates"] = dict(declared.feature_gates)
    return result


def _webhooks(manifest: Manifest, frameworks: set[str]) -> Manifest:
    """Remove the webhooks of kinds that Kueue does not manage.

    Kueue's answer to them is always yes (`setupNoopWebhook` in its pkg/controller/jobframework). But with
    `failurePolicy: Fail`, every Pod, Deployment and StatefulSet in the cluster would wait for it, and fail if Kueue is
    down.
    """
    resources = {f"{framework.rpartition('/')[2]}s" for framework in frameworks}
    return with_webhooks(
        manifest, lambda rule: OWN_GROUP in rule["apiGroups"] or not resources.isdisjoint(rule["resources"])
    )
