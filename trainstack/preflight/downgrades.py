"""Refusals to replace an operator by an older release.

The functions are pure: they compare declared manifests with the labels of live objects.
"""

from collections.abc import Iterator, Mapping

from semver import Version

from trainstack.objects.labels import RELEASE
from trainstack.objects.ownership import Identity, identity
from trainstack.platform.operators.install import OperatorManifests
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.versions import parse_version

DOWNGRADE_RISK = (
    "an older controller may not understand objects that a newer one wrote, and its CRDs may lack the version in which "
    "runs and queues are stored"
)
"""Reason for refusing a downgrade. The API server rejects such CRDs in the middle of a change, see
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/"""


def is_older(running_release: str, declared_release: str) -> bool:
    """Return whether the declared version is older than the running one; False if either is not a version."""
    running_version, declared_version = parse_version(running_release), parse_version(declared_release)
    return running_version is not None and declared_version is not None and declared_version < running_version


def remedy(operator: str, running_release: str) -> str:
    return f"set {OPERATORS[operator].path}.manifest to {running_release} or a later release"


def refusals(
    installs: Mapping[str, OperatorManifests], live_labels: Mapping[Identity, Mapping[str, str]]
) -> tuple[str, ...]:
    """Return a message for each operator whose controller or CRDs on the cluster are of a newer release.

    `installs`: by key of `preflight.operator_facts.OPERATORS`. `live_labels`: labels of those of their objects that
    exist on the cluster.
    """
    messages = []
    for name, install in installs.items():
        if newest := max(_newer_objects(install, live_labels), default=None):
            _, running_release, declared_release, (kind, namespace, object_name) = newest
            qualified_name = f"{namespace}/{object_name}" if namespace else object_name
            messages.append(
                f"{OPERATORS[name].title} {running_release} is installed ({kind} {qualified_name}), and this change "
                f"would downgrade it to {declared_release}: {DOWNGRADE_RISK}; {remedy(name, running_release)}"
            )
    return tuple(messages)


def _newer_objects(
    install: OperatorManifests, live_labels: Mapping[Identity, Mapping[str, str]]
) -> Iterator[tuple[Version, str, str, Identity]]:
    """Yield for each live object of a newer release its version, both releases and its identity."""
    for manifest in (*install.crds, *install.deployments):
        object_, declared_release = identity(manifest), manifest["metadata"]["labels"][RELEASE]
        running_release = live_labels.get(object_, {}).get(RELEASE, "")
        running_version = parse_version(running_release)
        if running_version is not None and is_older(running_release, declared_release):
            yield running_version, running_release, declared_release, object_
