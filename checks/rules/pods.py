"""Pods that a namespace would not take."""

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


RULES: tuple[Rule, ...] = (pods_refused,)
