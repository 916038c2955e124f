"""The metadata of every launch."""

from collections.abc import Mapping

from trainstack.objects.labels import PRIORITY, QUEUE, Manifest, metadata
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.pod_template import launch_labels
from trainstack.runs.names import object_name
from trainstack.settings.sections.workloads import Workload


def launch_metadata(
    workload: Workload, stack: str, launch: Launch, annotations: Mapping[str, str] | None = None
) -> Manifest:
    """The object's name, trainstack's labels, and the labels by which Kueue suspends it until it has quota."""
    labels = launch_labels(workload, launch)
    if workload.queue is not None:
        labels[QUEUE] = workload.queue
    if workload.priority is not None:
        labels[PRIORITY] = workload.priority
    name = object_name(workload, launch.name, launch.number)
    result = metadata(name, stack, namespace=workload.namespace, labels=labels, annotations=annotations)
    if workload.naming == "generated":
        del result["name"]
        return {"generateName": f"{workload.name}-", **result}
    return result
