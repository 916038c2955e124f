"""The namespaces that a stack declares.

Source: https://kubernetes.io/docs/concepts/security/pod-security-admission/
"""

from collections.abc import Mapping

from trainstack.objects.labels import POD_SECURITY, Manifest, metadata
from trainstack.settings.sections.environment import Namespace

ENFORCE = f"{POD_SECURITY}enforce"


def namespace(declared: Namespace, stack: str) -> Manifest:
    """A Namespace. An adopted one keeps its Pod Security level."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": metadata(declared.name, stack, labels=_labels(declared), adopt=declared.adopt),
    }


def with_pod_security(labels: Mapping[str, str]) -> dict[str, str]:
    """Add default Pod Security levels: for `enforce`, `restricted`, and for `warn` and `audit`, the enforced level."""
    level = labels.get(ENFORCE, "restricted")
    return {**{f"{POD_SECURITY}{mode}": level for mode in ("enforce", "warn", "audit")}, **labels}


def enforced(declared: Namespace) -> str:
    """Return the Pod Security level that the namespace enforces; empty if the settings do not set it."""
    return _labels(declared).get(ENFORCE, "")


def _labels(declared: Namespace) -> Mapping[str, str]:
    return declared.labels if declared.adopt else with_pod_security(declared.labels)
