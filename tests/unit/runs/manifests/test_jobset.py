"""Workloads as JobSets."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.make import make_run
from tests.unit.platform.restricted import violations
from tests.unit.runs.launches import LAUNCH_LABELS, OBJECT_LABELS, make_launch
from trainstack.runs.identity import identity
from trainstack.runs.manifests.build import manifest
from trainstack.settings.sections.jobsets import DependsOn, FailurePolicy, FailurePolicyRule, Network, SuccessPolicy
from trainstack.settings.sections.workloads import ReplicatedJob, Workload


def make_jobset(*jobs: ReplicatedJob, **changes: Any) -> Workload:
    """Return `make_run` as an unmanaged JobSet with these Jobs and without volumes."""
    base = {"kind": "JobSet", "managed": False, "record": None, "volumes": (), "security": "baseline"}
    return make_run(**{**base, "replicated_jobs": jobs, **changes})


def spec_of(workload: Workload) -> dict[str, Any]:
    """Return the spec of the JobSet."""
    spec: dict[str, Any] = manifest(workload, "dev", make_launch())["spec"]
    return spec


def make_pod(command: list[str], restart: dict[str, str], **container: Any) -> dict[str, Any]:
    """Return the template of a pod that runs this command."""
    training = {
        "name": "training",
        "image": "python:3.11",
        "command": command,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        **container,
    }
    return {"metadata": {"labels": LAUNCH_LABELS}, "spec": {"containers": [training], **restart}}


def test_a_driver_and_its_workers() -> None:
    """The set succeeds with its driver, and restarts when a worker fails. Each Job has its own command."""
    workload = make_jobset(
        ReplicatedJob(name="driver", command=("python3", "drive.py"), restart_policy="Never"),
        ReplicatedJob(
            name="workers",
            replicas=2,
            parallelism=4,
            args=("--b",),
            backoff_limit=0,
            depends_on=(DependsOn(name="driver", status="Ready"),),
        ),
        success_policy=SuccessPolicy(operator="All", target_replicated_jobs=("driver",)),
        failure_policy=FailurePolicy(
            max_restarts=3,
            rules=(FailurePolicyRule(action="FailJobSet", target_replicated_jobs=("driver",)),),
        ),
        network=Network(subdomain="training"),
        ttl_seconds_after_finished=60,
    )
    driver = {
        "completionMode": "Indexed",
        "completions": 1,
        "parallelism": 1,
        "template": make_pod(["python3", "drive.py"], {"restartPolicy": "Never"}),
    }
    workers = {
        "completionMode": "Indexed",
        "completions": 4,
        "parallelism": 4,
        "template": make_pod(["python3", "train.py"], {}, args=["--b"]),
        "backoffLimit": 0,
    }
    assert manifest(workload, "dev", make_launch()) == {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train-1-2", "namespace": "research", "labels": OBJECT_LABELS},
        "spec": {
            "replicatedJobs": [
                {"name": "driver", "replicas": 1, "template": {"spec": driver}},
                {
                    "name": "workers",
                    "replicas": 2,
                    "template": {"spec": workers},
                    "dependsOn": [{"name": "driver", "status": "Ready"}],
                },
            ],
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["driver"]},
            "failurePolicy": {
                "maxRestarts": 3,
                "rules": [{"action": "FailJobSet", "targetReplicatedJobs": ["driver"]}],
            },
            "network": {"subdomain": "training"},
            "ttlSecondsAfterFinished": 60,
        },
    }


def test_the_pods_of_a_managed_set_are_the_ranks_of_its_run() -> None:
    """Rank 0 writes the record; the others reach it through the set's Service."""
    workload = make_run(kind="JobSet", replicated_jobs=(ReplicatedJob(name="node", parallelism=3),), run_as_user=1000)
    (job,) = spec_of(workload)["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert container["command"] == ["python3", "/opt/trainstack/run.py", "--", "python3", "train.py"]
    assert variables["MASTER_ADDR"] == "train-1-2-node-0-0.train-1-2"
    assert (variables["WORLD_SIZE"], variables["TRAINSTACK_RECORD"]) == ("3", "/mnt/training/runs")
    assert job["template"]["spec"]["backoffLimit"] == 0
    assert violations(pod) == []


def test_completions_replicas_and_commands_are_part_of_the_identity() -> None:
    """Parallelism is not."""

    def identity_of(**changes: Any) -> Any:
        return identity(make_jobset(ReplicatedJob(name="a", completions=4, **changes)), make_launch().facts)

    assert identity_of(parallelism=2) == identity_of(parallelism=4)
    assert identity_of(command=("sh",)) != identity_of()
    assert identity_of(replicas=2) != identity_of()
    # The same number of pods, but in four Jobs with separate ranks instead of one Job.
    whole, parts = ReplicatedJob(name="a", parallelism=4), ReplicatedJob(name="a", replicas=4)
    assert identity(make_jobset(whole), make_launch().facts) != identity(make_jobset(parts), make_launch().facts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replicated_jobs": ()}, "a JobSet needs replicatedJobs"),
        ({"kind": "Job"}, "a Job has no replicatedJobs"),
        (
            {"replicated_jobs": (ReplicatedJob(name="a"), ReplicatedJob(name="a", replicas=2))},
            "replicatedJobs has several entries named a",
        ),
        (
            {"success_policy": SuccessPolicy(operator="Any", target_replicated_jobs=("b",))},
            "successPolicy refers to b, which is not in replicatedJobs: correct the name",
        ),
        (
            {"replicated_jobs": (ReplicatedJob(name="a", depends_on=(DependsOn(name="c", status="Ready"),)),)},
            "dependsOn refers to c, which is not in replicatedJobs: correct the name",
        ),
        (
            {"managed": True, "replicated_jobs": (ReplicatedJob(name="a"), ReplicatedJob(name="b"))},
            "the ranks of a managed JobSet are the pods of one Job, but this JobSet has several: keep one entry",
        ),
        (
            {"managed": True, "replicated_jobs": (ReplicatedJob(name="a", replicas=2),)},
            "the ranks of a managed JobSet are the pods of one Job, but this JobSet has several: keep one entry",
        ),
    ],
)
def test_an_invalid_set_is_refused(changes: dict[str, Any], message: str) -> None:
    """The settings refuse it before it is built."""
    with pytest.raises(ValidationError, match=message):
        make_jobset(ReplicatedJob(name="a"), **changes)
