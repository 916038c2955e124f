"""The namespaces that a stack declares.

Source: https://kubernetes.io/docs/concepts/security/pod-security-admission/
"""

from collections.abc import Mapping

from trainstack.objects.labels import POD_SECURITY, Manifest, metadata
from trainstack.settings.sections.environment import Namespace

_ENFORCE = f"{POD_SECURITY}enforce"


def namespace(declared: Namespace, stack: str) -> Manifest:
    """A namespace with the labels it was given and, unless it was somebody else's, its Pod Security level."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": metadata(declared.name, stack, labels=_labels(declared), adopt=declared.adopt),
    }


def with_pod_security(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels with a Pod Security level: `restricted`, or what they say themselves.

    Whoever names another level to enforce is warned and audited by that one, where nothing else is said.
    """
    level = labels.get(_ENFORCE, "restricted")
    return {**{f"{POD_SECURITY}{mode}": level for mode in ("enforce", "warn", "audit")}, **labels}


def enforced(declared: Namespace) -> str:
    """The Pod Security level that the namespace enforces; empty where the settings name none."""
    return _labels(declared).get(_ENFORCE, "")


def _labels(declared: Namespace) -> Mapping[str, str]:
    return declared.labels if declared.adopt else with_pod_security(declared.labels)
