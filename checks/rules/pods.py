"""Pods that a namespace would not take, or not let out."""

from collections.abc import Iterator

from checks.finding import Finding
from checks.scene import Rule, Scene
from manifests.labels import POD_SECURITY
from manifests.namespaces import enforced


def pods_refused(scene: Scene) -> Iterator[Finding]:
    """A run that is built for Pod Security `baseline` is in no namespace that this stack lets enforce `restricted`."""
    strict = {one.name for one in scene.settings.environment.namespaces if enforced(one) == "restricted"}
    for path, run in scene.runs():
        if run.security == "baseline" and run.namespace in strict:
            message = f"namespace {run.namespace} enforces Pod Security restricted, and refuses pods of baseline"
            remedy = f"leave security out, or give the namespace the label {POD_SECURITY}enforce: baseline"
            yield Finding("pods-refused", "error", f"{path}.security", message, remedy)


def egress_missing(scene: Scene) -> Iterator[Finding]:
    """A run that checks code out stands where its pods may connect to something."""
    shut = {one.name: one for one in scene.settings.environment.namespaces if one.isolated and not one.network.egress}
    for path, run in scene.runs():
        if run.code is not None and run.namespace in shut:
            message = f"its pods fetch from {run.code.git}, and namespace {run.namespace} lets them connect to nothing"
            remedy = f"name the server's addresses under environment.namespaces[{run.namespace}].network.egress"
            yield Finding("egress-missing", "warning", f"{path}.code", message, remedy)


RULES: tuple[Rule, ...] = (pods_refused, egress_missing)
