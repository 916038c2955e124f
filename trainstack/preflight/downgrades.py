"""Whether a change would put an older release of an operator in the place of a newer one.

Pure: from the manifests to be declared and the live objects' labels to refusals.
"""

from collections.abc import Iterator, Mapping

from trainstack.objects.labels import RELEASE
from trainstack.objects.ownership import Identity, identity
from trainstack.platform.operators.install import OperatorManifests
from trainstack.preflight.live_context import OPERATORS
from trainstack.preflight.versions import Version, version

WHY = (
    "an older controller does not know what a newer one has written, and its definitions may lack the version in which "
    "runs and queues are stored"
)
"""Why it is refused. The API server refuses the latter in the middle of a change, see
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/"""


def older(running: str, declared: str) -> bool:
    """Whether what is declared is older than what runs; False where either is no version."""
    found, wanted = version(running), version(declared)
    return found is not None and wanted is not None and wanted < found


def remedy(operator: str, running: str) -> str:
    """What to do instead. `operator`: a key of `preflight.live_context.OPERATORS`."""
    return f"declare {OPERATORS[operator].path}.manifest of {running} or a later release"


def refusals(installs: Mapping[str, OperatorManifests], live: Mapping[Identity, Mapping[str, str]]) -> tuple[str, ...]:
    """Name every operator of which the cluster has a newer release, also where only its definitions are left of it.

    Args:
        installs: what would be declared, by the key of `preflight.live_context.OPERATORS`.
        live: the labels of those objects that exist.

    """
    found = []
    for name, install in installs.items():
        if newer := max(_newer(install, live), default=None):
            _, running, declared, (kind, namespace, object_name) = newer
            place = f"{namespace}/{object_name}" if namespace else object_name
            found.append(
                f"{OPERATORS[name].title} {running} is installed ({kind} {place}), and this change would go back to "
                f"{declared}: {WHY}. Instead, {remedy(name, running)}"
            )
    return tuple(found)


def _newer(
    install: OperatorManifests, live: Mapping[Identity, Mapping[str, str]]
) -> Iterator[tuple[Version, str, str, Identity]]:
    """The live objects of an operator that come from a newer release: its numbers, both releases, the object."""
    for manifest in (*install.crds, *install.deployments):
        who, declared = identity(manifest), manifest["metadata"]["labels"][RELEASE]
        running = live.get(who, {}).get(RELEASE, "")
        numbers = version(running)
        if numbers is not None and older(running, declared):
            yield numbers, running, declared, who
