"""Kueue's feature gates: read from its Configuration and arguments, modelled, or named in an unknown verdict."""

from typing import Any

import pytest

from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.feature_gates import GATES, FeatureGates, parse_gate_arguments
from trainstack.kueue.from_objects import read_model
from trainstack.kueue.model import Model, Preemption

Body = dict[str, Any]


def make_objects(*others: Body) -> list[Body]:
    """Return two queues in one cohort: `q` without quota, and `r` with 4 cpu of which it lends 1."""
    queues = {"q": {"nominalQuota": "0"}, "r": {"nominalQuota": "4", "lendingLimit": "1"}}
    objects = [{"kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}}, *others]
    for name, quota in queues.items():
        flavor = {"name": "f", "resources": [{"name": "cpu", **quota}]}
        spec = {
            "cohortName": "lab",
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        }
        objects.append({"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
        local = {"name": name, "namespace": "ns"}
        objects.append({"kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": name}})
    return objects


def read(*others: Body, **gates: bool) -> Model:
    return read_model(make_objects(*others), kueue_configuration={"featureGates": gates})


def test_each_gate_is_modelled_irrelevant_or_unknown_for_a_reason() -> None:
    assert {gate.treatment for gate in GATES.values()} == {"modelled", "irrelevant", "unknown"}
    assert all(bool(gate.reason) is (gate.treatment != "modelled") for gate in GATES.values())


@pytest.mark.parametrize("name", [*GATES, "AllAlpha", "FromALaterRelease"])
def test_the_verdict_is_unknown_and_names_a_gate_that_is_not_modelled(name: str) -> None:
    """A gate that is irrelevant or has its default does not count."""
    gate = GATES.get(name)
    default = gate is not None and gate.default
    model = make_model(make_queue(), gates=read(**{name: not default}).gates)
    found = simulate(make_workload(), model)
    unknown = gate is None or gate.treatment == "unknown"
    assert (found.outcome == "unknown", bool(found.reasons)) == (unknown, unknown)
    if unknown:
        assert f"feature gate {name}={str(not default).lower()}" in found.reasons[0].message
    if gate is not None:
        model = make_model(make_queue(), gates=read(**{name: default}).gates)
        assert simulate(make_workload(), model).outcome == "fits"


@pytest.mark.parametrize(
    ("arguments", "gates"),
    [
        ([], {}),
        (["--config=/c.yaml", "--feature-gates=A=true,B=false"], {"A": True, "B": False}),
        (["--feature-gates", "A=True, B=0", "--zap-log-level=2"], {"A": True, "B": False}),
        (["-feature-gates=A=1"], {"A": True}),
        (["--feature-gates="], {}),
    ],
)
def test_gates_are_read_from_the_managers_arguments(arguments: list[str], gates: dict[str, bool]) -> None:
    """Source: addFlags in cmd/kueue/main.go, and the flag's type in k8s.io/component-base/featuregate."""
    assert parse_gate_arguments(arguments) == gates


def test_defaults_are_no_changes() -> None:
    assert FeatureGates.read({"featureGates": {"LendingLimit": True}}) == FeatureGates.read(None) == FeatureGates()


def test_without_lending_limits_a_queue_lends_everything() -> None:
    """Source: createResourceQuotas, pkg/cache/scheduler/resource.go."""
    workload = make_workload(make_pods(cpu=3))
    assert simulate(workload, read()).outcome == "never fits"
    assert simulate(workload, read(LendingLimit=False)).outcome == "fits by borrowing"


def test_without_hierarchical_cohorts_a_cohort_has_no_quota_of_its_own() -> None:
    """Source: setupControllers, pkg/controller/core/core.go, which then ignores Cohort objects."""
    flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "9"}]}
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}
    cohort = {"kind": "Cohort", "metadata": {"name": "lab"}, "spec": spec}
    workload = make_workload(make_pods(cpu=3))
    assert simulate(workload, read(cohort)).outcome == "fits by borrowing"
    assert simulate(workload, read(cohort, HierarchicalCohorts=False)).outcome == "never fits"


def test_without_topologies_flavors_and_pods_need_none() -> None:
    """Source: assignFlavors and checkFlavorForPodSets, flavorassigner.go."""
    topology = {"kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {"topologyName": "racks"}}
    workload = make_workload(make_pods(cpu=1))
    racks = {"kind": "Topology", "metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
    assert simulate(workload, read(topology, racks)).outcome == "unknown"
    assert simulate(workload, read(topology, TopologyAwareScheduling=False)).outcome == "fits by borrowing"


@pytest.mark.parametrize(
    ("implicit", "flavor", "outcome"), [(False, "a", "fits by borrowing"), (True, "b", "fits by preempting")]
)
def test_the_preference_for_preemption_may_follow_from_trying_the_next_flavor(
    implicit: bool, flavor: str, outcome: str
) -> None:
    """Source: isPreferred, flavorassigner.go, with FlavorFungibilityImplicitPreferenceDefault."""
    objects = make_objects()
    for body in objects:
        if body["kind"] == "ClusterQueue":
            body["spec"]["flavorFungibility"] = {"whenCanBorrow": "TryNextFlavor"}
    gates = {"FlavorFungibilityImplicitPreferenceDefault": implicit}
    fungibility = (read_model(objects, kueue_configuration={"featureGates": gates}).cluster_queues or {})[
        "q"
    ].fungibility
    queue = make_queue(
        "q",
        {"a": {"cpu": 0}, "b": {"cpu": 1}},
        "lab",
        fungibility=fungibility,
        preemption=Preemption(within_cluster_queue="LowerPriority"),
    )
    model = make_model(queue, make_queue("r", {"a": {"cpu": 1}}, "lab"))
    found = simulate(make_workload(priority=5), model, admitted=[make_admitted("low", flavor="b")])
    assert (found.outcome, found.assigned[0].flavors["cpu"]) == (outcome, flavor)
