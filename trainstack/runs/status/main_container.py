"""The choice of the training container among the containers of a pod."""

from collections.abc import Mapping
from typing import Any

from trainstack.objects.labels import DEFAULT_CONTAINER
from trainstack.runs.manifests import data_loader, pod_template, pytorchjob
from trainstack.runs.role_pods import NODE

_MAIN_CONTAINERS = (pod_template.TRAINING_CONTAINER, pytorchjob.PYTORCH_CONTAINER, NODE, data_loader.LOADER_CONTAINER)
"""The names of training containers, unless the workload sets one."""


def main_container_name(pod: Mapping[str, Any]) -> str:
    """Return the name of a live pod's training container; empty for a pod without containers.

    The container is identified by name, because sidecars may be injected before and after it. If the workload sets
    another name, the pod has it in an annotation, or the workload has no further container: then the first is assumed.
    """
    names = [str(container["name"]) for container in (pod.get("spec") or {}).get("containers") or ()]
    annotated_name = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER, "")
    candidates = (*(name for name in names if name in _MAIN_CONTAINERS), *({annotated_name} & {*names}), *names)
    return next(iter(candidates), "")
