"""Workloads as MPIJobs."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.make import make_mount, make_run
from tests.unit.platform.restricted import violations
from tests.unit.runs.launches import LAUNCH_LABELS, OBJECT_LABELS, make_launch
from trainstack.runs.identity import identity
from trainstack.runs.launches import live_launch
from trainstack.runs.manifests.build import longest_derived_name, manifest
from trainstack.runs.manifests.kind import Replicas
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.trials import TrialOverrides, with_overrides
from trainstack.runs.status.launch_kinds import KINDS
from trainstack.runs.status.pods import pod_views
from trainstack.settings.base import Toleration
from trainstack.settings.sections.pod_options import Capabilities, Scratch
from trainstack.settings.sections.workloads import Resources, Role, Workload

SSH = "/home/mpiuser/.ssh"
SERVER = ("/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config")


def make_mpijob(workers: int = 2, **changes: Any) -> Workload:
    """Return `make_run` as an unmanaged MPIJob with a launcher and workers."""
    base = {
        "kind": "MPIJob",
        "managed": False,
        "record": None,
        "volumes": (),
        "command": ("mpirun", "-n", "2", "python3", "train.py"),
        "roles": {"Launcher": Role(), "Worker": Role(replicas=workers)},
        "ssh_auth_mount_path": SSH,
    }
    return make_run(**{**base, **changes})


def make_template(**container: Any) -> dict[str, Any]:
    """Return the template of a pod whose container has these fields."""
    base = {"name": "training", "image": "python:3.11", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {"metadata": {"labels": LAUNCH_LABELS}, "spec": {"containers": [{**base, **container}]}}


def test_only_the_launcher_has_the_program() -> None:
    """The operator starts an SSH server in each worker, and deletes the workers at the end."""
    workload = make_mpijob(args=("--epochs=2",), security="baseline", ssh_auth_mount_path=None)
    command = ["mpirun", "-n", "2", "python3", "train.py"]
    assert manifest(workload, "dev", make_launch()) == {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "train-1-2", "namespace": "research", "labels": OBJECT_LABELS},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": make_template(command=command, args=["--epochs=2"])},
                "Worker": {"replicas": 2, "template": make_template()},
            },
            "runPolicy": {"cleanPodPolicy": "Running"},
        },
    }


def test_every_field_of_an_mpijob() -> None:
    """The names are those of the operator's API. An SSH server that does not need root has its own command."""
    workload = make_mpijob(
        slots_per_worker=4,
        mpi_implementation="Intel",
        clean_pod_policy="All",
        backoff_limit=1,
        active_deadline_seconds=60,
        ttl_seconds_after_finished=0,
        run_as_user=1000,
        roles={
            "Launcher": Role(restart_policy="Never"),
            "Worker": Role(command=SERVER, volumes=(make_mount(),), restart_policy="OnFailure"),
        },
    )
    spec = manifest(workload, "dev", make_launch())["spec"]
    roles = spec.pop("mpiReplicaSpecs")
    assert spec == {
        "slotsPerWorker": 4,
        "mpiImplementation": "Intel",
        "sshAuthMountPath": SSH,
        "runPolicy": {
            "cleanPodPolicy": "All",
            "backoffLimit": 1,
            "activeDeadlineSeconds": 60,
            "ttlSecondsAfterFinished": 0,
        },
    }
    assert {name: role["restartPolicy"] for name, role in roles.items()} == {"Launcher": "Never", "Worker": "OnFailure"}
    (server,) = roles["Worker"]["template"]["spec"]["containers"]
    assert (server["command"], server["volumeMounts"][0]["name"]) == ([*SERVER], "training")
    assert [violations(role["template"]["spec"]) for role in roles.values()] == [[], []]


def test_a_launcher_does_not_have_the_nodes_and_privileges_of_the_workers() -> None:
    """Its own settings replace those of the run, which are meant for GPUs."""
    launcher = Role(node_selector={}, tolerations=(), pod_patch={}, security="restricted", run_as_user=1000)
    run = make_mpijob(
        roles={"Launcher": launcher, "Worker": Role(replicas=2)},
        node_selector={"gpu": "a100"},
        tolerations=(Toleration(key="gpu", operator="Exists"),),
        pod_patch={"spec": {"containers": [{"name": "training", "securityContext": {"privileged": True}}]}},
        security="baseline",
    )
    templates = [pods.spec for pods in launched_pods(manifest(run, "dev", make_launch()))]
    launched, worker = templates
    assert launched.keys().isdisjoint({"nodeSelector", "tolerations"})
    assert launched["securityContext"]["runAsUser"] == 1000
    assert "privileged" not in launched["containers"][0]["securityContext"]
    assert worker["nodeSelector"] == {"gpu": "a100"}
    assert worker["containers"][0]["securityContext"] == {"privileged": True}


def test_the_pods_are_kueues_pod_sets() -> None:
    """The launcher is first; a role without replicas has one pod."""
    launch = manifest(make_mpijob(3), "dev", make_launch())
    assert [(pods.name, pods.count) for pods in launched_pods(launch)] == [("launcher", 1), ("worker", 3)]
    del launch["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
    assert [pods.count for pods in launched_pods(launch)] == [1, 1]
    assert [pods.path for pods in KINDS["MPIJob"].pod_sets("run", make_mpijob())] == [
        "run.roles.Launcher",
        "run.roles.Worker",
    ]


@pytest.mark.parametrize(
    ("spec", "status", "phase"),
    [
        ({"suspend": True}, {"conditions": [{"type": "Suspended", "status": "True"}]}, "queued"),
        ({"suspend": False}, {"conditions": [{"type": "Running", "status": "True"}]}, "running"),
        (
            {},
            {"conditions": [{"type": "Succeeded", "status": "True"}, {"type": "Failed", "status": "False"}]},
            "succeeded",
        ),
        ({}, {"conditions": [{"type": "Failed", "status": "True"}]}, "failed"),
    ],
)
def test_the_phase_of_an_mpijob(spec: dict[str, Any], status: dict[str, Any], phase: str) -> None:
    """It is derived from `runPolicy.suspend` and the conditions."""
    body = manifest(make_mpijob(), "dev", make_launch())
    body["spec"]["runPolicy"] |= spec
    body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert live_launch({**body, "status": status}).phase == phase


def test_replicas_and_pods_by_role() -> None:
    """The launcher is first, because its log is the run's."""
    body = manifest(make_mpijob(), "dev", make_launch())
    counted = {"Launcher": {"active": 1}, "Worker": {"active": 1, "failed": 1}}
    assert KINDS["MPIJob"].replicas({**body, "status": {"replicaStatuses": counted}}) == (
        Replicas("launcher", 1, active=1),
        Replicas("worker", 2, active=1, failed=1),
    )
    labels = [
        {"training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": "1"},
        {"training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": "0"},
        {"training.kubeflow.org/job-role": "launcher"},
    ]
    pods = [
        {"metadata": {"name": f"pod-{n}", "uid": str(n), "labels": pod_labels}} for n, pod_labels in enumerate(labels)
    ]
    assert [view.name for view in pod_views(pods, "MPIJob")] == ["pod-2", "pod-1", "pod-0"]


def test_the_longest_names() -> None:
    """The longest name is that of the launcher's pod, or of the last of many workers."""
    assert longest_derived_name(make_mpijob(), "train-1-2") == "train-1-2-launcher-xxxxx"
    assert longest_derived_name(make_mpijob(10**8), "train-1-2") == "train-1-2-worker-99999999"
    alone = make_mpijob(roles={"Launcher": Role()})
    assert longest_derived_name(alone, "train-1-2") == "train-1-2-launcher-xxxxx"


def test_the_number_of_workers_is_part_of_the_identity() -> None:
    """Their command is part of it too; their resources are not."""

    def identity_of(worker: Role) -> Any:
        return identity(make_mpijob(roles={"Launcher": Role(), "Worker": worker}), make_launch().facts)

    assert identity_of(Role(replicas=2)) != identity_of(Role(replicas=3))
    assert identity_of(Role(command=SERVER)) != identity_of(Role())
    assert identity_of(Role(resources=Resources(requests={"cpu": "4"}))) == identity_of(Role())
    facts = make_launch().facts
    assert identity(make_mpijob(slots_per_worker=2), facts) != identity(make_mpijob(), facts)


def test_the_arguments_of_a_trial_are_added_to_the_program_only() -> None:
    """A worker's SSH server would not start with them."""
    server, *options = SERVER
    roles = {"Launcher": Role(args=("--epochs=2",)), "Worker": Role(command=(server,), args=tuple(options))}
    trial = with_overrides(make_mpijob(roles=roles), TrialOverrides(args=("--lr=0.1",), env={"SET": "1"}))
    launcher, worker = (pods.spec["containers"][0] for pods in launched_pods(manifest(trial, "dev", make_launch())))
    assert launcher["args"] == ["--epochs=2", "--lr=0.1"]
    assert (worker["command"], worker["args"]) == ([server], options)
    assert launcher["env"] == worker["env"] == [{"name": "SET", "value": "1"}]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"managed": True}, "an MPIJob starts its processes over SSH, outside the wrapper: set managed to false"),
        ({"roles": {"Worker": Role()}}, "an MPIJob needs roles.Launcher, which runs the program: add it"),
        ({"roles": {"Launcher": Role(replicas=2)}}, "an MPIJob has one Launcher: leave out its replicas"),
        ({"roles": {"Launcher": Role(), "Master": Role()}}, "an MPIJob has no role Master"),
        (
            {"roles": {"Launcher": Role(restart_policy="Always")}},
            "the MPI operator refuses restartPolicy Always of Launcher: set Never or OnFailure",
        ),
        ({"roles": {"Launcher": Role(command=("mpirun",))}}, "Launcher has no command of its own"),
        ({"ssh_auth_mount_path": None}, "its pods do not run as root, whose folder /root/.ssh gets the SSH keys"),
        ({"ssh_auth_mount_path": None, "security": "baseline", "run_as_user": 1}, "its pods do not run as root"),
        (
            {"ssh_auth_mount_path": None, "security": "baseline", "roles": {"Launcher": Role(run_as_user=1)}},
            "its pods do not run as root",
        ),
        (
            {"roles": {"Launcher": Role(capabilities=Capabilities(drop=("KILL",)))}},
            "roles.Launcher.security restricted drops all capabilities",
        ),
        (
            {"roles": {"Launcher": Role(scratch=(Scratch(name="a", mount_path="/a"),) * 2)}},
            "roles.Launcher.scratch has several entries named a",
        ),
        ({"completions": 2}, "an MPIJob has no completions"),
        ({"kind": "Job", "roles": {}}, "a Job has no sshAuthMountPath: leave it out"),
    ],
)
def test_an_invalid_mpijob_is_refused(changes: dict[str, Any], problem: str) -> None:
    """The operator would refuse it, or the run would not start."""
    with pytest.raises(ValidationError, match=problem):
        make_mpijob(**changes)
