"""A workload as a RayJob of KubeRay: a dedicated Ray cluster, which is deleted when the program has ended.

Source: https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainstack.objects.labels import ROLE, Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.kind import (
    Body,
    LaunchedPods,
    OperatorController,
    Replicas,
    RunPodSet,
    WorkloadKind,
    explicit_fields,
    role_pod_sets,
)
from trainstack.runs.manifests.pod_template import TRAINING_CONTAINER, pod_template
from trainstack.runs.names import GENERATED_SUFFIX
from trainstack.runs.role_pods import RolePods, role_pods
from trainstack.settings.sections.workloads import Role, Workload

API_VERSION = "ray.io/v1"
_HEAD, _SUBMITTER = "head", "submitter"
"""The roles, which are also Kueue's names of their pod sets."""
_K8S_JOB_MODE = "K8sJobMode"
"""The submission mode with a pod that submits the program; the default of the API."""


def rayjob(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the RayJob, without `suspend`, which Kueue sets."""
    templates = {pod.role: _template(workload, pod, launch) for pod in role_pods(workload)}
    spec: Manifest = {
        # Ray passes the entrypoint to a shell.
        "entrypoint": shlex.join([*workload.command, *workload.args]),
        "submissionMode": _K8S_JOB_MODE if _SUBMITTER in templates else "HTTPMode",
        # Kueue requires this: otherwise the cluster would keep its nodes after the quota is released.
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {
            "headGroupSpec": {
                "rayStartParams": dict(workload.roles[_HEAD].ray_start_params),
                "template": templates[_HEAD],
            },
            "workerGroupSpecs": [
                _worker_group(name, workload.roles[name], templates[name]) for name in _worker_groups(workload)
            ],
            **explicit_fields(workload, "ray_version"),
        },
        **explicit_fields(workload, "backoff_limit", "active_deadline_seconds"),
    }
    if workload.runtime_env_yaml is not None:
        spec["runtimeEnvYAML"] = workload.runtime_env_yaml
    if _SUBMITTER in templates:
        spec["submitterPodTemplate"] = templates[_SUBMITTER]
    return launch_object("RayJob", API_VERSION, workload, stack, launch, spec)


def _worker_group(name: str, role: Role, template: Manifest) -> Manifest:
    return {
        "groupName": name,
        "replicas": role.replicas,
        # The API's default of `minReplicas` is 0.
        "minReplicas": role.replicas if role.min_replicas is None else role.min_replicas,
        "maxReplicas": role.max_replicas or role.replicas,
        "rayStartParams": dict(role.ray_start_params),
        "template": template,
    }


def _worker_groups(workload: Workload) -> list[str]:
    return sorted(workload.roles.keys() - {_HEAD, _SUBMITTER})


def _template(workload: Workload, pod: RolePods, launch: Launch) -> Manifest:
    """Return the template of a role's pods without the program, because KubeRay starts Ray in them or submits it."""
    policy = pod.restart_policy or ("Never" if pod.role == _SUBMITTER else None)
    bare = replace(pod, command=(), args=())
    template = pod_template(workload, bare, launch, container=TRAINING_CONTAINER, restart_policy=policy)
    template["metadata"]["labels"] = {**template["metadata"]["labels"], ROLE: pod.role}
    return template


def _launched_pods(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    spec = launch["spec"]
    if "clusterSelector" in spec:
        # The program runs on another RayCluster. Its image, which the default submitter has, is not known here.
        if own_template := spec.get("submitterPodTemplate"):
            yield LaunchedPods(_SUBMITTER, 1, own_template, "spec.submitterPodTemplate")
        return
    cluster = spec["rayClusterSpec"]
    head_template = cluster["headGroupSpec"]["template"]
    yield LaunchedPods(_HEAD, 1, head_template, "spec.rayClusterSpec.headGroupSpec.template")
    for index, group in enumerate(cluster.get("workerGroupSpecs") or ()):
        path = f"spec.rayClusterSpec.workerGroupSpecs[{index}]"
        count = group.get("replicas", 1) * max(group.get("numOfHosts", 1), 1)
        counts = {f"{path}.replicas": group["replicas"]} if "replicas" in group else {}
        yield LaunchedPods(group["groupName"], count, group["template"], f"{path}.template", counts)
    if spec.get("submissionMode", _K8S_JOB_MODE) == _K8S_JOB_MODE:
        own_template = spec.get("submitterPodTemplate")
        yield (
            LaunchedPods(_SUBMITTER, 1, own_template, "spec.submitterPodTemplate")
            if own_template
            else LaunchedPods(_SUBMITTER, 1, _default_submitter(head_template))
        )


def _default_submitter(head_template: Body) -> Body:
    """Return the pod that KubeRay creates to submit the program. Source: getSubmitterTemplate of Kueue."""
    image = head_template["spec"]["containers"][0].get("image", "")
    resources = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "ray-job-submitter", "image": image, "resources": resources}
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _pod_sets(path: str, run: Workload) -> Iterator[RunPodSet]:
    return role_pod_sets(path, run, (_HEAD, *_worker_groups(run), *({_SUBMITTER} & run.roles.keys())))


def _replicas(body: Body) -> tuple[Replicas, ...]:
    """Return the replicas of the head and of the workers. KubeRay counts the workers of all groups together."""
    if "clusterSelector" in body["spec"]:
        return ()
    cluster = (body.get("status") or {}).get("rayClusterStatus") or {}
    groups = [pods for pods in _launched_pods(body) if pods.name not in (_HEAD, _SUBMITTER)]
    workers = Replicas(
        ", ".join(pods.name for pods in groups),
        sum(pods.count for pods in groups),
        active=cluster.get("readyWorkerReplicas") or 0,
    )
    return (Replicas(_HEAD, 1, active=int(cluster.get("state") == "ready")), *([workers] if groups else []))


_END_STATES = ("Complete", "Failed", "ValidationFailed")
"""The values of `jobDeploymentStatus` of a RayJob that has ended or that KubeRay does not start."""


def _conditions(body: Body) -> Sequence[Body]:
    """Return the state of a RayJob as a condition, because its status has no conditions."""
    status = body.get("status") or {}
    state = status.get("jobDeploymentStatus")
    if not state:
        return ()
    result = status.get("jobStatus")
    if state in _END_STATES:
        state = "Complete" if state != "ValidationFailed" and result == "SUCCEEDED" else "Failed"
    return (
        {
            "type": state,
            "status": "True",
            "reason": status.get("reason") or result or "",
            "message": status.get("message") or "",
            "lastTransitionTime": status.get("endTime"),
        },
    )


RAYJOB = WorkloadKind(
    build=rayjob,
    # KubeRay limits the name so that a Service for Ray Serve can be named after it.
    derived_names=lambda _, name: [f"{name}{GENERATED_SUFFIX}-serve-svc"],
    service_note="KubeRay gives it a Service",
    launched_pods=_launched_pods,
    pod_sets=_pod_sets,
    api_version=API_VERSION,
    definition="rayjobs.ray.io",
    operator="kuberay",
    controller=OperatorController(
        title="KubeRay",
        names=("kuberay-operator",),
        labels={"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/component": "kuberay-operator"},
        images=(),
    ),
    connects_to_pods=True,
    role_label=ROLE,
    first_roles=(_SUBMITTER, _HEAD),
    owners_of_pods=("rayclusters.ray.io",),
    framework="ray.io/rayjob",
    replicas=_replicas,
    conditions=_conditions,
)
