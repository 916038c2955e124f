"""Namespaces, with their Pod Security levels.

Source: https://kubernetes.io/docs/concepts/security/pod-security-admission/
"""

from collections.abc import Mapping

from trainstack.objects.labels import POD_SECURITY, RETAIN, Manifest, metadata
from trainstack.settings.sections.environment import Namespace

ENFORCE_LABEL = f"{POD_SECURITY}enforce"


def namespace(settings: Namespace, stack: str, *, retain: bool = True) -> Manifest:
    """Return a Namespace. An adopted one keeps its Pod Security level. `retain`: whether `destroy` keeps it."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": metadata(
            settings.name,
            stack,
            labels=_namespace_labels(settings),
            annotations=None if retain else {RETAIN: "false"},
            adopt=settings.adopt,
        ),
    }


def with_pod_security(labels: Mapping[str, str]) -> dict[str, str]:
    """Add default Pod Security levels: `restricted` for `enforce`, and the enforced level for `warn` and `audit`."""
    level = labels.get(ENFORCE_LABEL, "restricted")
    return {**{f"{POD_SECURITY}{mode}": level for mode in ("enforce", "warn", "audit")}, **labels}


def enforced_level(settings: Namespace) -> str:
    """Return the Pod Security level that the namespace enforces; empty if the settings do not set it."""
    return _namespace_labels(settings).get(ENFORCE_LABEL, "")


def _namespace_labels(settings: Namespace) -> Mapping[str, str]:
    return settings.labels if settings.adopt else with_pod_security(settings.labels)
