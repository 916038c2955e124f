"""Which jobs Kueue manages, and in which queue, by its Configuration.

Source: pkg/controller/jobframework and apis/config of Kueue v0.15.2.
"""

from collections.abc import Mapping
from typing import Any

from trainstack.kueue.feature_gates import FeatureGates
from trainstack.kueue.model import Model, Requirement
from trainstack.kueue.node_affinity import selector_matches
from trainstack.kueue.pod_requests import label_selector
from trainstack.objects.labels import NAMESPACE_NAME
from trainstack.platform.operators.kueue import admission_fields
from trainstack.settings.sections.operators import KueueConfiguration

Body = Mapping[str, Any]
DEFAULT_QUEUE = "default"
"""The LocalQueue of jobs without a queue."""
_POD_FRAMEWORK = "pod"
"""The framework whose webhook sets no queue."""


def configuration_from_settings(settings: KueueConfiguration) -> Body:
    """Return the declared Configuration as far as admission depends on it."""
    return {"integrations": {"frameworks": list(settings.frameworks)}, **admission_fields(settings)}


_INSTALLED_FIELDS = ("admissionFairSharing", "fairSharing", "featureGates", "resources", "waitForPodsReady")
"""The fields that an installation replaces or removes."""


def configuration_after_install(live_configuration: Body | None, settings: KueueConfiguration) -> Body:
    """Return the running Configuration after `up` has installed Kueue with these settings."""
    other_fields = {key: value for key, value in (live_configuration or {}).items() if key not in _INSTALLED_FIELDS}
    return {**other_fields, **configuration_from_settings(settings)}


def frameworks(configuration: Body | None) -> frozenset[str] | None:
    """Return the kinds of jobs that Kueue manages; None if its Configuration is unknown."""
    if configuration is None:
        return None
    # Source of the default: SetDefaults_Configuration.
    return frozenset((configuration.get("integrations") or {}).get("frameworks") or ("batch/job",))


def managed_namespace_selector(configuration: Body | None, gates: FeatureGates) -> tuple[Requirement, ...]:
    """Return the selector of the namespaces whose jobs Kueue manages."""
    if not gates.is_enabled("ManagedJobsNamespaceSelectorAlwaysRespected"):
        return ()
    namespace_selector = (configuration or {}).get("managedJobsNamespaceSelector")
    if namespace_selector is not None:
        return label_selector(namespace_selector)
    kueue_namespace = (configuration or {}).get("namespace") or "kueue-system"
    return (Requirement(NAMESPACE_NAME, "NotIn", ("kube-system", kueue_namespace)),)


def blocks_admission(configuration: Body | None) -> bool:
    """Whether `waitForPodsReady` blocks admission, which it does by default in v1beta1 and not in v1beta2."""
    wait_for_pods_ready = (configuration or {}).get("waitForPodsReady")
    if wait_for_pods_ready is None:
        return False
    if "enable" in wait_for_pods_ready or str((configuration or {}).get("apiVersion")).endswith("v1beta1"):
        return bool(wait_for_pods_ready.get("enable")) and bool(wait_for_pods_ready.get("blockAdmission", True))
    return bool(wait_for_pods_ready.get("blockAdmission"))


def manages_namespace(model: Model, namespace: str) -> bool:
    """Whether Kueue manages the jobs of a namespace."""
    return selector_matches(model.managed_namespaces, namespace_labels(model, namespace))


def namespace_labels(model: Model, namespace: str) -> Mapping[str, str]:
    """Return the labels of a namespace; of an unknown namespace only its name."""
    return model.namespaces.get(namespace, {NAMESPACE_NAME: namespace})


def default_local_queue(model: Model, namespace: str, framework: str) -> str:
    """Return the queue that Kueue sets on a job without one; empty if none. Source: ApplyDefaultLocalQueue."""
    managed_frameworks = model.frameworks
    is_managed = framework != _POD_FRAMEWORK and (managed_frameworks is None or framework in managed_frameworks)
    if not is_managed or not model.gates.is_enabled("LocalQueueDefaulting"):
        return ""
    return DEFAULT_QUEUE if (namespace, DEFAULT_QUEUE) in (model.local_queues or {}) else ""
