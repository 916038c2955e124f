"""Workloads as RayJobs."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.live_objects import NOW
from tests.unit.make import make_run
from tests.unit.platform.restricted import violations
from tests.unit.runs.launches import LAUNCH_LABELS, OBJECT_LABELS, make_launch
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import identity
from trainstack.runs.launches import live_launch
from trainstack.runs.manifests.build import check_names, manifest
from trainstack.runs.manifests.kind import Replicas
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.trials import TrialOverrides, with_overrides
from trainstack.runs.status.launch_kinds import KINDS
from trainstack.runs.status.pods import pod_views
from trainstack.runs.status.run_view import bare_view
from trainstack.settings.sections.workloads import Resources, Role, Workload

GPU = Resources(limits={"nvidia.com/gpu": "1"})


def make_rayjob(**changes: Any) -> Workload:
    """Return `make_run` as an unmanaged RayJob with a head, two worker groups and a submitter."""
    roles = {"head": Role(), "submitter": Role(), "small": Role(replicas=2), "large": Role(resources=GPU)}
    base = {"kind": "RayJob", "managed": False, "record": None, "volumes": (), "roles": roles}
    return make_run(**{**base, **changes})


def make_template(role: str, **spec: Any) -> dict[str, Any]:
    """Return the template of a role's pods, without a program."""
    container = {"name": "training", "image": "python:3.11", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    labels = {**LAUNCH_LABELS, "trainstack.dev/role": role}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}


def make_live(workload: Workload | None = None, **status: Any) -> dict[str, Any]:
    """Return a live RayJob with this status."""
    body = manifest(workload or make_rayjob(), "dev", make_launch())
    return {**body, "metadata": {**body["metadata"], "creationTimestamp": NOW}, "status": status}


def test_a_separate_ray_cluster_runs_the_program() -> None:
    """The head and the workers start Ray; the program is the entrypoint, quoted for a shell."""
    workload = make_rayjob(
        args=("--name", "two words"),
        security="baseline",
        backoff_limit=1,
        active_deadline_seconds=60,
        roles={"head": Role(), "workers": Role(replicas=2)},
    )
    assert manifest(workload, "dev", make_launch()) == {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "train-1-2", "namespace": "research", "labels": OBJECT_LABELS},
        "spec": {
            "entrypoint": "python3 train.py --name 'two words'",
            "submissionMode": "HTTPMode",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": {}, "template": make_template("head")},
                "workerGroupSpecs": [
                    {
                        "groupName": "workers",
                        "replicas": 2,
                        "minReplicas": 2,
                        "maxReplicas": 2,
                        "rayStartParams": {},
                        "template": make_template("workers"),
                    }
                ],
            },
            "backoffLimit": 1,
            "activeDeadlineSeconds": 60,
        },
    }


def test_parameters_of_ray_and_its_runtime_environment() -> None:
    """KubeRay reads them; an autoscaler may change the number of workers within the limits."""
    runtime_env = "pip: [torch]\nenv_vars: {A: b}\n"
    workers = Role(replicas=2, min_replicas=0, max_replicas=4, ray_start_params={"num-gpus": "1"})
    head = Role(ray_start_params={"num-cpus": "0"})
    run = make_rayjob(roles={"head": head, "workers": workers}, ray_version="2.52.0", runtime_env_yaml=runtime_env)
    spec = manifest(run, "dev", make_launch())["spec"]
    cluster = spec["rayClusterSpec"]
    assert (spec["runtimeEnvYAML"], cluster["rayVersion"]) == (runtime_env, "2.52.0")
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    (group,) = cluster["workerGroupSpecs"]
    limits = {key: group[key] for key in ("replicas", "minReplicas", "maxReplicas", "rayStartParams")}
    assert limits == {"replicas": 2, "minReplicas": 0, "maxReplicas": 4, "rayStartParams": {"num-gpus": "1"}}


def test_a_submitter_is_a_pod_with_the_programs_log() -> None:
    """The builder sets it, because KubeRay's default has neither the required labels nor a security context."""
    spec = manifest(make_rayjob(security="baseline"), "dev", make_launch())["spec"]
    assert spec["submissionMode"] == "K8sJobMode"
    assert spec["submitterPodTemplate"] == make_template("submitter", restartPolicy="Never")
    templates = [pods.template for pods in launched_pods(manifest(make_rayjob(run_as_user=1), "dev", make_launch()))]
    assert [violations(template["spec"]) for template in templates] == [[]] * 4


def test_the_pods_are_kueues_pod_sets() -> None:
    """The head, the groups, the submitter. A group counts its hosts; the default is one replica."""
    launch = manifest(make_rayjob(), "dev", make_launch())
    expected = [("head", 1), ("large", 1), ("small", 2), ("submitter", 1)]
    assert [(pods.name, pods.count) for pods in launched_pods(launch)] == expected
    assert [(pods.name, pods.count) for pods in KINDS["RayJob"].pod_sets("run", make_rayjob())] == expected
    large, small = launch["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    del large["replicas"]
    small["numOfHosts"] = 3
    assert [pods.count for pods in launched_pods(launch)] == [1, 1, 6, 1]
    launch["spec"]["submissionMode"] = "HTTPMode"
    assert [pods.name for pods in launched_pods(launch)] == ["head", "large", "small"]


@pytest.mark.parametrize(
    ("suspend", "status", "phase"),
    [
        (True, {}, "queued"),
        (True, {"jobDeploymentStatus": "Suspended"}, "queued"),
        (False, {"jobDeploymentStatus": "Initializing"}, "running"),
        (False, {"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}, "running"),
        (False, {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "succeeded"),
        (False, {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "failed"),
        (False, {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed"}, "failed"),
        (False, {"jobDeploymentStatus": "Failed", "jobStatus": "", "reason": "DeadlineExceeded"}, "failed"),
        (False, {"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed"}, "failed"),
    ],
)
def test_the_phase_of_a_rayjob(suspend: bool, status: dict[str, Any], phase: str) -> None:
    """It is derived from the status of the deployment and of the job, because a RayJob has no conditions."""
    body = make_live(**status)
    body["spec"]["suspend"] = suspend
    assert live_launch(body).phase == phase


def test_the_view_of_an_ended_rayjob() -> None:
    """`status` shows KubeRay's reason and message, and the end time."""
    status: dict[str, Any] = {"jobDeploymentStatus": "Failed", "reason": "AppFailed", "message": "exit code 1"}
    view = bare_view(make_live(**status, startTime=NOW, endTime=NOW))
    assert view.summary() == "failed: AppFailed: exit code 1"
    assert view.started == view.completed is not None
    assert [(condition.type, condition.status, condition.since) for condition in view.conditions] == [
        ("Failed", "True", view.completed)
    ]
    (waiting,) = bare_view(make_live(jobDeploymentStatus="Initializing")).conditions
    assert (waiting.type, waiting.reason, waiting.since) == ("Initializing", "", None)


def test_the_replicas_of_a_rayjob() -> None:
    """KubeRay counts the workers of all groups together."""
    cluster = {"state": "ready", "readyWorkerReplicas": 2}
    assert KINDS["RayJob"].replicas(make_live(rayClusterStatus=cluster)) == (
        Replicas("head", 1, active=1),
        Replicas("large, small", 3, active=2),
    )
    assert KINDS["RayJob"].replicas(make_live(make_rayjob(roles={"head": Role()}))) == (Replicas("head", 1),)


def test_a_rayjob_on_an_existing_cluster_has_only_its_own_submitter() -> None:
    """KubeRay starts no head and no workers for it."""
    spec: dict[str, Any] = {"entrypoint": "python a.py", "clusterSelector": {"ray.io/cluster": "shared"}}
    body = {"kind": "RayJob", "metadata": {}, "spec": spec}
    assert launched_pods(body) == ()
    assert KINDS["RayJob"].replicas(body) == ()
    spec["submitterPodTemplate"] = {"spec": {"containers": [{"name": "submitter"}]}}
    assert [(pods.name, pods.path) for pods in launched_pods(body)] == [("submitter", "spec.submitterPodTemplate")]


def test_the_pods_of_a_rayjob_by_role() -> None:
    """The run's log is that of the submitter, or of the head without one. KubeRay sets no index on workers."""
    roles = ("large", "head", "small", "small", "submitter")
    pods = [
        {"metadata": {"name": f"pod-{n}", "uid": str(n), "labels": {"trainstack.dev/role": role}}}
        for n, role in enumerate(roles)
    ]
    found = [(view.role, view.index, view.name) for view in pod_views(pods, "RayJob")]
    assert found == [
        ("submitter", 0, "pod-4"),
        ("head", 0, "pod-1"),
        ("large", 0, "pod-0"),
        ("small", 0, "pod-2"),
        ("small", 1, "pod-3"),
    ]


def test_the_name_leaves_room_for_kuberays_suffixes() -> None:
    """It has at most 47 characters, and starts with a letter."""
    check_names(make_rayjob(), "a" * 47)
    with pytest.raises(WorkloadError, match="a-xxxxx-serve-svc with 64 characters"):
        check_names(make_rayjob(), "a" * 48)
    with pytest.raises(WorkloadError, match="KubeRay gives it a Service named after it"):
        check_names(make_rayjob(), "1-a")


def test_the_number_of_workers_is_part_of_the_identity() -> None:
    """Their resources are not."""

    def identity_of(worker: Role) -> Any:
        return identity(make_rayjob(roles={"head": Role(), "workers": worker}), make_launch().facts)

    assert identity_of(Role(replicas=2)) != identity_of(Role(replicas=3))
    assert identity_of(Role(resources=GPU)) == identity_of(Role())
    assert identity_of(Role(max_replicas=3)) == identity_of(Role())
    assert identity_of(Role(ray_start_params={"num-gpus": "1"})) != identity_of(Role())
    facts = make_launch().facts
    assert identity(make_rayjob(ray_version="2.52.0"), facts) == identity(make_rayjob(), facts)
    assert identity(make_rayjob(runtime_env_yaml="pip: [torch]"), facts) != identity(make_rayjob(), facts)


def test_the_arguments_of_a_trial_are_appended_to_the_entrypoint() -> None:
    """In other kinds they are appended to the arguments."""
    trial = with_overrides(make_rayjob(), TrialOverrides(args=("--lr=0.1",), env={"SET": "1"}))
    launch = manifest(trial, "dev", make_launch())
    assert launch["spec"]["entrypoint"] == "python3 train.py --lr=0.1"
    envs = [pods.spec["containers"][0]["env"] for pods in launched_pods(launch)]
    assert envs == [[{"name": "SET", "value": "1"}]] * 4


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"managed": True}, "a RayJob starts its program through Ray, outside the wrapper: set managed to false"),
        ({"command": ()}, "a RayJob needs a command, its entrypoint: add it"),
        ({"roles": {"workers": Role()}}, "a RayJob needs roles.head, which runs the program: add it"),
        ({"roles": {"head": Role(replicas=2)}}, "a RayJob has one head: leave out its replicas"),
        ({"roles": {"head": Role(), "Worker": Role()}}, "worker group Worker is not a DNS label"),
        ({"roles": {"head": Role(args=("--a",))}}, r"one list of arguments: move roles\.head\.args to args"),
        ({"roles": {"head": Role(command=("a",))}}, "head has no command of its own"),
        ({"roles": {"head": Role(restart_policy="ExitCode")}}, "pods of head cannot have restartPolicy ExitCode"),
        (
            {"roles": {"head": Role(), "submitter": Role(restart_policy="Always")}},
            "pods of submitter cannot have restartPolicy Always",
        ),
        (
            {"roles": {"head": Role(max_replicas=2)}},
            "only workers are scaled: leave out minReplicas and maxReplicas of head",
        ),
        ({"roles": {"head": Role(), "w": Role(min_replicas=2)}}, r"replicas of w \(1\) are not between minReplicas"),
        ({"roles": {"head": Role(), "w": Role(replicas=3, max_replicas=2)}}, r"replicas of w \(3\) are not between"),
        (
            {"roles": {"head": Role(), "submitter": Role(ray_start_params={"a": "b"})}},
            "the submitter does not start Ray: leave out its rayStartParams",
        ),
        ({"runtime_env_yaml": "pip: ["}, "is not YAML"),
        ({"runtime_env_yaml": "torch"}, "is not a map; write a text such as"),
        ({"ray_version": "latest"}, "pattern"),
        (
            {"kind": "MPIJob", "ssh_auth_mount_path": "/a", "roles": {"Launcher": Role(ray_start_params={"a": "b"})}},
            r"an MPIJob has no roles\.Launcher\.rayStartParams: leave it out \(only a RayJob has it\)",
        ),
        ({"ttl_seconds_after_finished": 60}, "a RayJob has no ttlSecondsAfterFinished"),
    ],
)
def test_an_invalid_rayjob_is_refused(changes: dict[str, Any], problem: str) -> None:
    """KubeRay or Kueue would refuse it, or it would have no effect."""
    with pytest.raises(ValidationError, match=problem):
        make_rayjob(**changes)
