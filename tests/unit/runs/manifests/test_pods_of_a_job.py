"""How many pods a Job has: with `completions` unset, an unmanaged Job has as many as its `parallelism`.

Kubernetes takes such a Job for a work queue: `parallelism` pods start, and no further one once any has succeeded.
Kueue counts its pods by `parallelism` alone (`podsCount` of its integration batch/job).
"""

from typing import Any

import pytest

from tests.unit.make import (
    make_cluster_queue,
    make_group,
    make_queues,
    make_run,
    make_settings,
    make_storage,
    make_sweep,
    make_sweeps,
    make_volume,
)
from tests.unit.preflight.cases import ROOT
from tests.unit.runs.launches import make_launch
from tests.unit.runs.test_identity import make_facts
from trainstack.kueue.verdicts import stack_verdicts
from trainstack.preflight.file_checks import check
from trainstack.runs.identity import run_id
from trainstack.runs.manifests.build import longest_derived_name, manifest
from trainstack.runs.manifests.kind import DEFAULT_REPLICA_ROLE, Replicas
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.runs.status.queued_workloads import pod_sets, queued_workloads
from trainstack.settings.sections.topology import TopologyRequest
from trainstack.settings.sections.workloads import Workload
from trainstack.stack_objects.stack_objects import StackObjects


def make_queue_of_work(parallelism: int = 4, **changes: Any) -> Workload:
    """Return an unmanaged Job that does not set `completions`."""
    return make_run(**{"managed": False, "record": None, "parallelism": parallelism, **changes})


def make_fixed(completions: int, parallelism: int) -> Workload:
    """Return an unmanaged Job that sets both numbers."""
    return make_queue_of_work(parallelism, completions=completions)


def findings(run: Workload, **changes: Any) -> list[tuple[str, str]]:
    """Return the findings about a run: rule and message."""
    return [(finding.id, finding.message) for finding in check(make_settings(run, **changes), ROOT)]


def test_the_manifest_leaves_completions_to_kubernetes() -> None:
    spec = manifest(make_queue_of_work(), "dev", make_launch())["spec"]
    assert (spec["parallelism"], "completions" in spec) == (4, False)


def test_as_many_pods_run_at_once_as_its_parallelism() -> None:
    """The settings and the object agree."""
    (pods,) = pod_sets("run", make_queue_of_work())
    (launched,) = launched_pods(manifest(make_queue_of_work(), "dev", make_launch()))
    assert (pods.count, launched.count) == (4, 4)


@pytest.mark.parametrize(("completions", "parallelism", "at_once"), [(1, 4, 1), (2, 4, 2), (4, 2, 2), (3, 3, 3)])
def test_set_completions_limit_the_pods(completions: int, parallelism: int, at_once: int) -> None:
    (pods,) = pod_sets("run", make_fixed(completions, parallelism))
    (launched,) = launched_pods(manifest(make_fixed(completions, parallelism), "dev", make_launch()))
    assert (pods.count, launched.count) == (at_once, at_once)


def test_min_parallelism_is_compared_with_parallelism() -> None:
    assert make_queue_of_work(min_parallelism=3).min_parallelism == 3
    with pytest.raises(ValueError, match="minParallelism is 4, but must be less than 4"):
        make_queue_of_work(min_parallelism=4)


def test_another_parallelism_is_another_run() -> None:
    """As another number of completions is; where completions are set, parallelism only changes the speed."""

    def of(run: Workload) -> str:
        return run_id(run, make_facts())

    assert len({of(make_queue_of_work(number)) for number in (1, 2, 4)}) == 3
    assert of(make_queue_of_work(1)) == of(make_queue_of_work(1, completions=1))
    assert of(make_fixed(4, 1)) == of(make_fixed(4, 4))


@pytest.mark.parametrize(
    ("mode", "rule"), [("ReadWriteOncePod", "volume-one-pod"), ("ReadWriteOnce", "volume-one-node")]
)
def test_its_pods_share_its_volumes(mode: str, rule: str) -> None:
    """Volumes for one pod or one node are reported with the number of pods."""
    queues = make_queues(cluster_queues=(make_cluster_queue(resource_groups=(EIGHT,)),))
    storage = make_storage(volumes=(make_volume(access_modes=(mode,)),))
    ((found, message),) = findings(make_queue_of_work(), storage=storage, queues=queues)
    assert found == rule
    assert message.startswith("4 pods mount volume training")
    assert findings(make_queue_of_work(1), storage=storage, queues=queues) == []


EIGHT = make_group(("cpu", {"cpu": "8", "memory": "8Gi"}))


def test_kueue_admits_all_of_them_or_none() -> None:
    """The verdict counts the quota of four pods, of 1 cpu each."""
    (fitting,) = stack_verdicts(StackObjects(make_settings(make_queue_of_work(2))))
    (over,) = stack_verdicts(StackObjects(make_settings(make_queue_of_work(4))))
    assert (fitting.outcome, over.outcome) == ("fits", "never fits")


def test_a_topology_request_is_about_all_of_them() -> None:
    """A slice may have as many pods as there are."""
    request = TopologyRequest(
        required="example.com/rack", pod_set_slice_required_topology="kubernetes.io/hostname", pod_set_slice_size=3
    )
    assert make_queue_of_work(4, topology_request=request).topology_request == request
    with pytest.raises(ValueError, match="podSetSliceSize is 3, but Job has 2 pods"):
        make_queue_of_work(2, topology_request=request)


def test_the_status_counts_up_to_them() -> None:
    """A live object has `completions` only if the Job sets it."""
    body = {**manifest(make_queue_of_work(), "dev", make_launch()), "status": {"active": 3, "succeeded": 1}}
    assert WORKLOAD_KINDS["Job"].replicas(body) == (Replicas(DEFAULT_REPLICA_ROLE, 4, active=3, succeeded=1),)


def test_its_pods_have_no_indexes() -> None:
    """Nor have their names."""
    assert longest_derived_name(make_queue_of_work(), "train-1-2") == longest_derived_name(
        make_queue_of_work(1), "train-1-2"
    )


def test_a_managed_job_has_one_pod_unless_completions_are_set() -> None:
    """It keeps a record of each completion; `parallelism` alone adds none, which is reported."""
    run = make_run(parallelism=4)
    assert manifest(run, "dev", make_launch())["spec"]["completions"] == 1
    assert [pods.count for pods in pod_sets("run", run)] == [1]
    assert findings(run) == [
        ("parallelism-unused", "parallelism is 4, but the run has one pod, because completions is 1 by default")
    ]


def test_a_trial_may_have_several_pods_only_if_it_is_unmanaged() -> None:
    """A managed one has one record; its parallelism does not count."""
    settings = make_settings(sweeps=make_sweeps(run=make_queue_of_work(2, name="search")))
    assert [pods.count for path, run in queued_workloads(settings) for pods in pod_sets(path, run)] == [2]
    with pytest.raises(ValueError, match=r"leave out run\.completions and run\.parallelism"):
        make_sweep(form="indexed", parallelism=2, run=make_run(name="search", parallelism=2))
