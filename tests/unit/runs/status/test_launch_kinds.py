"""Counts, pods and claims of JobSets and TrainJobs."""

from typing import Any

from tests.unit.make import make_distributed, make_run
from tests.unit.runs.launches import make_launch
from trainstack.runs.manifests.build import companions, manifest
from trainstack.runs.manifests.kind import Replicas
from trainstack.runs.status.launch_kinds import KINDS, mounted_claims
from trainstack.runs.status.pods import pod_views
from trainstack.settings.sections.workloads import ReplicatedJob

DRIVER, WORKERS = ReplicatedJob(name="driver"), ReplicatedJob(name="workers", replicas=2, parallelism=2)
COUNTS = {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}


def make_live(kind: str, **status: Any) -> dict[str, Any]:
    """Return a live launch of this kind with this status; a JobSet has a driver and workers."""
    jobs = {"managed": False, "replicated_jobs": (DRIVER, WORKERS)}
    workload = make_run(kind=kind, **jobs) if kind == "JobSet" else make_distributed(kind=kind)
    return {**manifest(workload, "dev", make_launch()), "status": status}


def make_pod(name: str, job: str, index: int) -> dict[str, Any]:
    """Return a pod of a JobSet's Job."""
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": job,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    return {"metadata": {"name": name, "uid": name, "labels": labels}, "status": {"phase": "Running"}}


def test_replicas_are_counted_by_their_declared_names() -> None:
    """They are counted also before the controller has set a status."""
    counted = [{**COUNTS, "name": "driver", "succeeded": 1}, {**COUNTS, "name": "workers", "active": 2}]
    expected = (Replicas("driver", 1, succeeded=1), Replicas("workers", 2, active=2))
    assert KINDS["JobSet"].replicas(make_live("JobSet", replicatedJobsStatus=counted)) == expected
    assert KINDS["JobSet"].replicas(make_live("JobSet")) == (Replicas("driver", 1), Replicas("workers", 2))
    counted = [{**COUNTS, "name": "node", "failed": 1}]
    assert KINDS["TrainJob"].replicas(make_live("TrainJob", jobsStatus=counted)) == (Replicas("node", 1, failed=1),)


def test_pods_have_the_job_as_role_and_an_index() -> None:
    """`logs` selects by them; node 0, from which a TrainJob's log is read, is the first."""
    pods = [make_pod(f"x-node-0-{index}", "node", index) for index in (10, 2, 0)]
    views = pod_views(pods, "TrainJob")
    assert [(view.role, view.index) for view in views] == [("node", 0), ("node", 2), ("node", 10)]


def test_the_claims_of_pods_are_read() -> None:
    """A TrainJob refers to its runtime, which has the claims; without the runtime they are unknown."""
    assert mounted_claims(make_live("JobSet")) == ("training",)
    live = make_live("TrainJob")
    (runtime,) = companions(make_distributed(kind="TrainJob"), "dev", make_launch())
    assert mounted_claims(live, [runtime]) == ("training",)
    assert mounted_claims(live) == ()
    reference = KINDS["TrainJob"].companion_reference(live)
    assert reference is not None
    assert (reference["apiVersion"], reference["kind"]) == (runtime["apiVersion"], runtime["kind"])
    assert reference["metadata"] == {key: runtime["metadata"][key] for key in ("name", "namespace")}
    assert KINDS["JobSet"].companion_reference(make_live("JobSet")) is None
