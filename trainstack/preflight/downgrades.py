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

WHY = (
    "an older controller may not understand objects that a newer one wrote, and its CRDs may lack the version in which "
    "runs and queues are stored"
)
"""Reason for refusing a downgrade. The API server rejects such CRDs in the middle of a change, see
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/"""


def older(running: str, declared: str) -> bool:
    """Return whether the declared version is older than the running one; False if either is not a version."""
    running_version, declared_version = parse_version(running), parse_version(declared)
    return running_version is not None and declared_version is not None and declared_version < running_version


def remedy(operator: str, running: str) -> str:
    return f"set {OPERATORS[operator].path}.manifest to {running} or a later release"


def refusals(installs: Mapping[str, OperatorManifests], live: Mapping[Identity, Mapping[str, str]]) -> tuple[str, ...]:
    """Return a message for each operator whose controller or CRDs on the cluster are of a newer release.

    `installs`: by key of `preflight.operator_facts.OPERATORS`. `live_labels`: labels of those of their objects that
    exist on the cluster.
    """
    found = []
    for name, install in installs.items():
        if newer := max(_newer(install, live), default=None):
            _, running, declared, (kind, namespace, object_name) = newer
            place = f"{namespace}/{object_name}" if namespace else object_name
            found.append(
                f"{OPERATORS[name].title} {running} is installed ({kind} {place}), and this change would downgrade it "
                f"to {declared}: {WHY}; {remedy(name, running)}"
            )
    return tuple(found)


def _newer(
    install: OperatorManifests, live: Mapping[Identity, Mapping[str, str]]
) -> Iterator[tuple[Version, str, str, Identity]]:
    """Yield for each live object of a newer release its version, both releases and its identity."""
    for manifest in (*install.crds, *install.deployments):
        object_, declared = identity(manifest), manifest["metadata"]["labels"][RELEASE]
        running = live.get(object_, {}).get(RELEASE, "")
        running_version = parse_version(running)
        if running_version is not None and older(running, declared):
            yield running_version, running, declared, object_
