"""The page of Kubernetes' fields, docs/kubernetes-fields.md: where the settings of a workload have them."""

from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel

from trainstack.settings.loading.kubernetes_keys import kubernetes_remedy, object_keys
from trainstack.settings.sections.workloads import Mount, Workload
from trainstack.settings.values.pod_fields import FieldForm

PAGE = "docs/kubernetes-fields.md"
_HEAD = """\
<!-- Written by `trainstack dev fields-page`. -->
# Kubernetes' fields

Where a workload has the fields of Kubernetes' objects, if it has [settings](runs.md) and is no
[manifest](runs.md#manifests). Messages about unknown keys are from the same table.
[`trainstack convert --native`](yaml.md) translates a Job or PyTorchJob of which the settings say everything.
"""


_OTHER_FORMS: Mapping[tuple[str, str], str] = {
    ("Pods", "priority"): "leave it out: it is that of priorityClassName",
    ("Pods", "resources"): "those of the whole pod: set them under podPatch.spec.resources",
    (
        "Pods",
        "volumes",
    ): "list claims under volumes, empty volumes under scratch, and others under podPatch.spec.volumes",
    ("Containers", "env"): "set env, a map, and secretEnv or fieldEnv for values of Secrets and of the pod",
    ("Containers", "envFrom"): "set envFrom, whose entries have secret or configMap",
    ("Containers", "name"): "set container",
    ("Containers", "restartPolicy"): "set it in podPatch.spec.containers, as {name: <container>, restartPolicy: …}",
}
"""Fields of a heading with the name of a setting of another form."""


def render_page() -> str:
    """Return the page."""
    tables: dict[str, tuple[type[BaseModel], list[str]]] = {
        "Objects": (Workload, object_keys()),
        "Pods": (Workload, sorted(FieldForm("PodSpec").fields or ())),
        "Containers": (Workload, sorted(FieldForm("Container").fields or ())),
        "Volumes and mounts": (Mount, sorted({*(FieldForm("VolumeMount").fields or ()), *_volume_sources()})),
    }
    return _HEAD + "".join(
        f"\n## {heading}\n\n| field | in the settings |\n|---|---|\n" + "".join(_rows(heading, model, keys))
        for heading, (model, keys) in tables.items()
    )


def _volume_sources() -> set[str]:
    return {*(FieldForm("Volume").fields or ())} - {"name"}


def _rows(heading: str, model: type[BaseModel], keys: Iterable[str]) -> Iterator[str]:
    settings = {field.alias for field in model.model_fields.values()}
    for key in keys:
        text = _OTHER_FORMS.get((heading, key)) or ("the same" if key in settings else kubernetes_remedy(model, key))
        if text is not None:
            yield f"| `{key}` | {text} |\n"
