"""Topology requests of runs: validation, and the annotations that Kueue reads."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.make import make_distributed, make_run
from tests.unit.runs.launches import make_launch
from trainstack.objects.labels import SKIP_AWAIT
from trainstack.runs.identity import PLACEHOLDER_FACTS, run_id
from trainstack.runs.manifests.build import companions, manifest
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.settings.sections.topology import TopologyRequest
from trainstack.settings.sections.workloads import ReplicatedJob, Role, Workload

RACK, BLOCK = "example.com/rack", "example.com/block"
REQUIRED = TopologyRequest(required=RACK)


def annotations(workload: Workload) -> dict[str, dict[str, str]]:
    """Return the annotations of a launch's pods by pod set."""
    launch = make_launch()
    found = launched_pods(manifest(workload, "dev", launch), companions(workload, "dev", launch))
    return {pods.name: pods.template["metadata"].get("annotations", {}) for pods in found}


@pytest.mark.parametrize(
    ("topology_request", "expected"),
    [
        (REQUIRED, {"podset-required-topology": RACK}),
        (TopologyRequest(preferred=RACK), {"podset-preferred-topology": RACK}),
        (TopologyRequest(unconstrained=True), {"podset-unconstrained-topology": "true"}),
        (
            TopologyRequest(required=BLOCK, pod_set_slice_required_topology=RACK, pod_set_slice_size=2),
            {
                "podset-required-topology": BLOCK,
                "podset-slice-required-topology": RACK,
                "podset-slice-size": "2",
            },
        ),
    ],
)
def test_kueue_reads_a_request_from_annotations(topology_request: TopologyRequest, expected: dict[str, str]) -> None:
    """Source: Build in Kueue's pkg/controller/jobframework/tas.go."""
    run = make_run(parallelism=4, completions=4, topology_request=topology_request, annotations={"team": "a"})
    assert annotations(run) == {
        "main": {"team": "a", **{f"kueue.x-k8s.io/{key}": value for key, value in expected.items()}}
    }


def test_every_kind_has_the_annotations() -> None:
    """A role's own request replaces the run's."""
    required = {"kueue.x-k8s.io/podset-required-topology": RACK}
    roles = {"Master": Role(), "Worker": Role(topology_request=TopologyRequest(unconstrained=True))}
    jobs = (ReplicatedJob(name="train", topology_request=REQUIRED),)
    assert annotations(make_run(kind="Pod", topology_request=REQUIRED)) == {"main": {**required, SKIP_AWAIT: "true"}}
    assert annotations(make_run(kind="DataLoader", managed=False, topology_request=REQUIRED)) == {"main": required}
    assert annotations(make_run(kind="JobSet", replicated_jobs=jobs)) == {"train": required}
    assert annotations(make_distributed(kind="TrainJob", topology_request=REQUIRED)) == {"node": required}
    assert annotations(make_distributed(roles=roles, topology_request=REQUIRED)) == {
        "master": required,
        "worker": {"kueue.x-k8s.io/podset-unconstrained-topology": "true"},
    }


def test_a_request_is_not_part_of_a_runs_identity() -> None:
    """Where pods are placed does not change the result."""
    assert run_id(make_run(topology_request=REQUIRED), PLACEHOLDER_FACTS) == run_id(make_run(), PLACEHOLDER_FACTS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the request names no level: set required, preferred or unconstrained"),
        ({"required": RACK, "preferred": RACK}, "required and preferred exclude each other"),
        ({"required": "a b"}, "label key"),
        ({"pod_set_slice_size": 2}, "belong together: set both"),
        ({"required": RACK, "pod_set_slice_required_topology": RACK}, "belong together: set both"),
        ({"unconstrained": True, "pod_set_group_name": "g"}, "podSetGroupName needs a level"),
        ({"required": RACK, "pod_set_group_name": "7"}, "podSetGroupName is a number"),
        (
            {
                "required": RACK,
                "pod_set_group_name": "g",
                "pod_set_slice_required_topology": RACK,
                "pod_set_slice_size": 1,
            },
            "a pod set of a group has no slices",
        ),
    ],
)
def test_requests_that_kueue_refuses_are_refused(fields: dict[str, Any], message: str) -> None:
    """Source: ValidateTASPodSetRequest in Kueue's tas_validation.go."""
    with pytest.raises(ValidationError, match=message):
        TopologyRequest(**fields)


SLICES = TopologyRequest(pod_set_slice_required_topology=RACK, pod_set_slice_size=3)
GROUP = TopologyRequest(required=RACK, pod_set_group_name="g")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"topology_request": SLICES}, "podSetSliceSize is 3, but Job has 1 pods: lower it"),
        ({"topology_request": GROUP}, r"group g has 1 pod sets \(Job\): a group has exactly two"),
        (
            {
                "topology_request": REQUIRED,
                "annotations": {"kueue.x-k8s.io/podset-required-topology": BLOCK},
            },
            "annotations set kueue.x-k8s.io/podset-required-topology, which topologyRequest sets: leave it out",
        ),
    ],
)
def test_a_request_must_match_the_pods(run: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make_run(**run)


def test_a_group_has_a_leader_and_workers() -> None:
    """They have the same level. Source: ValidatePodSetGroupingTopology in Kueue's tas_validation.go."""
    make_distributed(topology_request=GROUP)
    other = TopologyRequest(required=BLOCK, pod_set_group_name="g")
    with pytest.raises(ValidationError, match="request different levels: use one level"):
        make_distributed(roles={"Master": Role(topology_request=other), "Worker": Role(topology_request=GROUP)})
    jobs = tuple(ReplicatedJob(name=name, replicas=2, topology_request=GROUP) for name in ("a", "b"))
    with pytest.raises(ValidationError, match=r"group g has 2 and 2 pods \(a and b\): one of its pod sets must have"):
        make_run(kind="JobSet", managed=False, replicated_jobs=jobs)


def test_the_nodes_of_a_trainjob_are_one_pod_set() -> None:
    """Its roles therefore cannot be a group, and a slice may have pods of both."""
    make_distributed(kind="TrainJob", topology_request=SLICES)
    with pytest.raises(ValidationError, match="group g has 1 pod sets"):
        make_distributed(kind="TrainJob", topology_request=GROUP)
