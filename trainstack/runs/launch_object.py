"""The object of a launch with its metadata, common to all kinds."""

from collections.abc import Mapping

from trainstack.objects.labels import PRIORITY, QUEUE, Manifest, metadata
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.pod_template import launch_labels
from trainstack.runs.names import generated_prefix, object_name
from trainstack.settings.sections.workloads import Workload


def launch_object(
    kind: str,
    api_version: str,
    workload: Workload,
    stack: str,
    launch: Launch,
    spec: Manifest,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the object of a launch with trainstack's labels and Kueue's labels for the queue and the priority."""
    labels = launch_labels(workload, launch)
    if workload.queue is not None:
        labels[QUEUE] = workload.queue
    if workload.priority is not None:
        labels[PRIORITY] = workload.priority
    name = object_name(workload, launch.name, launch.trial_number)
    annotations = {**workload.object_annotations, **(annotations or {})}
    object_metadata = metadata(name, stack, namespace=workload.namespace, labels=labels, annotations=annotations)
    if workload.naming == "generated":
        del object_metadata["name"]
        object_metadata = {"generateName": generated_prefix(workload), **object_metadata}
    return {"apiVersion": api_version, "kind": kind, "metadata": object_metadata, "spec": spec}
