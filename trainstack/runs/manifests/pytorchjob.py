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
"""The operator's webhook refuses a job without a container of this name."""
PORT = {"containerPort": 23456, "name": "pytorchjob-port", "protocol": "TCP"}
"""Where the processes find rank 0. The operator adds it where it is missing; declared, its edit is nobody's drift."""


def pytorchjob(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """The PyTorchJob. `runPolicy.suspend` is Kueue's and is not in it."""
    policy: Manifest = {}
    if workload.says("clean_pod_policy"):
        policy["cleanPodPolicy"] = workload.clean_pod_policy
    if workload.says("backoff_limit"):
        # A reference job that sets none restarts its containers for ever, as it does by hand.
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
