"""A workload as a PyTorchJob of the Kubeflow training operator (v1).

Source: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/
"""

from trainstack.objects.labels import Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.pod_template import pod_template
from trainstack.runs.metadata import launch_metadata
from trainstack.runs.pods import pods
from trainstack.settings.sections.workloads import Workload

CONTAINER = "pytorch"
"""The operator's webhook requires a container of this name."""
PORT = {"containerPort": 23456, "name": "pytorchjob-port", "protocol": "TCP"}
"""The port of rank 0. The operator adds it if it is missing; declaring it avoids drift."""


def pytorchjob(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """The PyTorchJob, without `runPolicy.suspend`, which Kueue sets."""
    policy: Manifest = {}
    if workload.says("clean_pod_policy"):
        policy["cleanPodPolicy"] = workload.clean_pod_policy
    if workload.says("backoff_limit"):
        # Without it, the job restarts its containers indefinitely, which an unmanaged job may rely on.
        policy["backoffLimit"] = workload.backoff_limit
    if workload.active_deadline_seconds is not None:
        policy["activeDeadlineSeconds"] = workload.active_deadline_seconds
    if workload.ttl_seconds_after_finished is not None:
        policy["ttlSecondsAfterFinished"] = workload.ttl_seconds_after_finished
    replicas = {}
    for pod in pods(workload):
        role: Manifest = {"replicas": pod.replicas}
        if pod.restart_policy is not None:
            role["restartPolicy"] = pod.restart_policy
        port = PORT if workload.managed else None
        role["template"] = pod_template(workload, pod, launch, container=CONTAINER, port=port)
        replicas[pod.role] = role
    spec: Manifest = {"pytorchReplicaSpecs": replicas}
    if policy:
        spec["runPolicy"] = policy
    if workload.elastic is not None:
        spec["elasticPolicy"] = workload.elastic.model_dump(by_alias=True, exclude_none=True)
    if workload.nproc_per_node is not None:
        spec["nprocPerNode"] = workload.nproc_per_node
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": launch_metadata(workload, stack, launch),
        "spec": spec,
    }
