"""Namespaces, with their Pod Security levels.

Source: https://kubernetes.io/docs/concepts/security/pod-security-admission/
"""

from collections.abc import Mapping

from trainstack.objects.labels import POD_SECURITY, RETAIN, Manifest, metadata
from trainstack.settings.sections.environment import Namespace

ENFORCE = f"{POD_SECURITY}enforce"


def namespace(declared: Namespace, stack: str, *, retain: bool = True) -> Manifest:
    """Return a Namespace. An adopted one keeps its Pod Security level. `retain`: whether `destroy` keeps it."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": metadata(
            declared.name,
            stack,
            labels=_labels(declared),
            annotations=None if retain else {RETAIN: "false"},
            adopt=declared.adopt,
        ),
    }


def with_pod_security(labels: Mapping[str, str]) -> dict[str, str]:
    """Add default Pod Security levels: `restricted` for `enforce`, and the enforced level for `warn` and `audit`."""
    level = labels.get(ENFORCE, "restricted")
    return {**{f"{POD_SECURITY}{mode}": level for mode in ("enforce", "warn", "audit")}, **labels}


def enforced(declared: Namespace) -> str:
    """Return the Pod Security level that the namespace enforces; empty if the settings do not set it."""
    return _labels(declared).get(ENFORCE, "")


def _labels(declared: Namespace) -> Mapping[str, str]:
    return declared.labels if declared.adopt else with_pod_security(declared.labels)
