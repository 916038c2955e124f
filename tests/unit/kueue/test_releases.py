"""Verdicts on releases of Kueue that the simulator models, on newer ones, and on older ones."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.kueue.make import make_model, make_pods, make_queue, make_workload
from tests.unit.make import make_kueue, make_manifest, make_run, make_settings
from trainstack.cli.output.forecast_format import gantt_of, sentences
from trainstack.forecast.forecast import forecast
from trainstack.forecast.report import build_report
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.differences import release_of
from trainstack.kueue.format import describe_release, summary
from trainstack.kueue.from_objects import read_model
from trainstack.kueue.model import Flavor, FlavorFungibility, ResourceGroup, Transformation
from trainstack.kueue.releases import has_rules
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.verdicts import stack_verdicts
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.stack_objects.stack_objects import StackObjects


@pytest.mark.parametrize(
    ("release", "calculated"),
    [
        ("v0.15.0", True),
        ("v0.15.2", True),
        ("0.15.9", True),
        ("", True),
        ("v0.14.4", False),
        ("v0.17.0", True),
        ("v0.13.9", False),
        ("v0.18.4", True),
        ("v0.19.2", True),
        ("v0.20.0", True),
        ("v1.2.3", True),
        ("main", False),
    ],
)
def test_verdicts_are_calculated_for_modelled_and_newer_releases(release: str, calculated: bool) -> None:
    assert has_rules(release) is calculated


def declare(release: str, **feature_gates: bool) -> Settings:
    """Return an environment that installs a release of Kueue."""
    kueue = make_kueue(feature_gates=feature_gates).model_copy(update={"manifest": make_manifest(version=release)})
    return make_settings(make_run(), operators=Operators(kueue=kueue))


def test_a_declared_release_that_is_older_than_all_rules_makes_every_verdict_unknown() -> None:
    settings = declare("v0.14.4")
    assert (
        "the plan models Kueue v0.15, v0.16, v0.17, v0.18, v0.19, but Kueue v0.14.4 admits the runs"
        in forecast(settings).notes
    )
    (verdict,) = stack_verdicts(StackObjects(settings))
    assert (verdict.name, verdict.outcome) == ("train", "unknown")
    assert [reason.message for reason in verdict.reasons] == [
        "the verdict models Kueue v0.15, v0.16, v0.17, v0.18, v0.19, but Kueue v0.14.4 admits the run"
    ]


@pytest.mark.parametrize(
    ("release", "rules", "mark"),
    [
        ("v0.20.7", "v0.19", "v0.20"),
        ("v1.2.3", "v0.19", "v1.2"),
        ("v0.19.2", "v0.19", ""),
        ("v0.19.3", "v0.19", "v0.19 after v0.19.2"),
        ("v0.17.8", "v0.17", ""),
        ("v0.17.99", "v0.17", "v0.17 after v0.17.8"),
    ],
)
def test_a_verdict_on_a_release_that_was_not_compared_is_by_the_nearest_rules_and_marked(
    release: str, rules: str, mark: str
) -> None:
    """It has the outcome of the run by these rules, and so has a forecast."""
    settings = declare(release)
    (verdict,) = stack_verdicts(StackObjects(settings))
    assert (verdict.outcome, verdict.source, verdict.release) == ("fits", "files", release)
    assert (verdict.rules, verdict.not_compared) == (rules, mark)
    origin = f"the rules of {rules}; {mark} is not compared"
    assert summary(verdict) == (f"fits (by {origin}): on cpu" if mark else "fits: on cpu")
    assert describe_release([verdict]) == (
        f"Kueue {release}, from the files, by {origin if mark else f'the rules of {rules}'}"
    )
    report = build_report(forecast(settings))
    assert (report.release, report.rules, report.not_compared) == (release, rules, mark)
    assert (f"For Kueue {release}, by {origin}." in sentences(report)) is bool(mark)
    assert gantt_of(report).title == f"Forecast of test{f', by {origin}' if mark else ''}"


def test_the_rules_for_an_unknown_release_are_those_that_all_share() -> None:
    (verdict,) = stack_verdicts(StackObjects(make_settings(make_run(), operators=Operators())))
    assert (verdict.outcome, verdict.release, verdict.rules, verdict.not_compared) == ("fits", "", "", "")
    assert describe_release([verdict]) == (
        "a Kueue of unknown release, from the files, by the rules that v0.15 to v0.19 share"
    )
    assert describe_release([]) == ""


def test_a_gate_that_the_nearest_rules_lack_makes_a_verdict_unknown() -> None:
    """What a newer release does with it is unknown; one that both have is calculated."""
    (verdict,) = stack_verdicts(StackObjects(declare("v0.20.7", NewInTwenty=True)))
    assert (verdict.outcome, verdict.not_compared) == ("unknown", "v0.20")
    assert "NewInTwenty=true" in verdict.reasons[0].message
    (verdict,) = stack_verdicts(StackObjects(declare("v0.20.7", PartialAdmission=False)))
    assert verdict.outcome == "fits"


def test_a_field_that_the_nearest_rules_lack_makes_a_verdict_unknown() -> None:
    spec = {"namespaceSelector": {}, "resourceGroups": [], "newInTwenty": 1}
    objects: list[dict[str, Any]] = [
        {"kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": spec},
        {"kind": "LocalQueue", "metadata": {"name": "q", "namespace": "ns"}, "spec": {"clusterQueue": "q"}},
    ]
    verdict = simulate(make_workload(make_pods()), read_model(objects, release="v0.20.7"))
    assert (verdict.outcome, verdict.reasons[0].cause) == ("unknown", "unmodelled")
    assert "spec.newInTwenty" in verdict.reasons[0].message


@pytest.mark.parametrize(
    ("release", "keeps"),
    [
        ("v0.18.4", False),
        ("v0.18.5", True),
        ("v0.18.6", True),
        ("v0.19.0", False),
        ("v0.19.1", True),
        ("v0.20.7", True),
    ],
)
def test_patch_releases_have_their_own_default_for_the_progress_of_scans(release: str, keeps: bool) -> None:
    assert read_model([], release=release).gates.is_enabled("FlavorFungibilityPreserveScanProgress") is keeps


def make_zero(release: str) -> Verdict:
    """Return the verdict on a run that requests 1 cpu and 0 GPUs, of a queue that covers only cpu."""
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
            }
        ],
    }
    objects: list[dict[str, Any]] = [
        {"kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}},
        {"kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": spec},
        {"kind": "LocalQueue", "metadata": {"name": "q", "namespace": "ns"}, "spec": {"clusterQueue": "q"}},
    ]
    pods = make_pods(cpu=1, gpu=0)
    return simulate(make_workload(pods), read_model(objects, release=release))


@pytest.mark.parametrize(
    ("release", "outcome"), [("v0.15.2", "never fits"), ("v0.16.2", "fits"), ("v0.17.0", "fits"), ("", "unknown")]
)
def test_a_request_of_zero_needs_no_group_since_v0_16(release: str, outcome: str) -> None:
    assert make_zero(release).outcome == outcome


@pytest.mark.parametrize(
    ("release", "preference"), [("v0.15.2", "PreemptionOverBorrowing"), ("v0.16.2", "BorrowingOverPreemption")]
)
def test_the_preference_of_flavors_matches_its_name_since_v0_16(release: str, preference: str) -> None:
    """The model uses the meanings of v0.15, in which the names are swapped."""
    queue = {"flavorFungibility": {"preference": "PreemptionOverBorrowing"}}
    body = {"kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": queue}
    queues = read_model([body], release=release).cluster_queues
    assert queues is not None
    assert queues["q"].fungibility.preference == preference


@pytest.mark.parametrize(
    ("release", "unknown"),
    [
        *(("v0.14.8", False), ("v0.15.4", False), ("0.15.5", True), ("v0.15.6-rc.1", True)),
        *(("v0.16.1", True), ("v0.16.2", False), ("v0.16", False), ("v0.16.3", True), ("v0.17.0", False), ("", True)),
    ],
)
def test_fair_sharing_of_an_unknown_release_is_not_modelled(release: str, unknown: bool) -> None:
    """That of a patch release with fixes of a later release is not modelled either; see `differences`."""
    model = replace(make_model(make_queue()), release=release_of(release), fair_sharing=("LessThanInitialShare",))
    verdict = simulate(make_workload(), model)
    assert (verdict.outcome == "unknown") is unknown


def test_gates_are_those_of_the_release() -> None:
    """The releases have different defaults, and one lacks a gate."""
    gates = {"AdmissionFairSharing": True, "ReclaimablePods": True}
    assert read_model([], kueue_configuration={"featureGates": gates}, release="v0.15.2").gates.overrides == {}
    assert read_model([], kueue_configuration={"featureGates": gates}, release="v0.14.0").gates.overrides == gates


def test_queues_of_v0_14_are_read_in_v1beta1() -> None:
    """The cohort and the policies have other names in v1beta1."""
    fungibility = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}
    body = {
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": {"cohort": "lab", "flavorFungibility": fungibility},
    }
    model = read_model([body], release="v0.14.0")
    queue = (model.cluster_queues or {})["q"]
    assert (queue.cohort, queue.fungibility) == ("lab", FlavorFungibility("MayStopSearch", "MayStopSearch"))
    assert model.unmodeled_fields == {}


def test_pods_without_a_flavor_have_no_verdict_since_v0_16() -> None:
    """Kueue's assignment ends with them, and skips the pod sets after them."""
    sets = (make_pods("leader", gpu=0), make_pods("worker", cpu=1))
    queue = make_queue()
    verdicts = [
        simulate(make_workload(*sets), replace(make_model(queue), release=release_of(release)))
        for release in ("v0.15.2", "v0.16.2")
    ]
    assert [verdict.outcome for verdict in verdicts] == ["never fits", "unknown"]
    assert [reason.message for reason in verdicts[1].reasons] == [
        "pod set leader requests only zero amounts, of resources that cluster queue q does not cover"
    ]


@pytest.mark.parametrize(
    ("release", "unknown"),
    [("v0.15.2", False), ("v0.15.6", False), ("v0.16.1", True), ("v0.16.2", False), ("", True)],
)
def test_a_preference_of_flavors_has_no_meaning_in_an_unknown_release(release: str, unknown: bool) -> None:
    queue = make_queue(fungibility=FlavorFungibility(preference="BorrowingOverPreemption"))
    verdict = simulate(make_workload(), replace(make_model(queue), release=release_of(release)))
    assert (verdict.outcome == "unknown") is unknown


@pytest.mark.parametrize(
    ("release", "cause"),
    [
        *(("v0.15.2", "topology"), ("v0.16.2", "topology"), ("v0.17.0", "topology")),
        *(("v0.15.6", "unmodelled"), ("v0.16.3", "unmodelled"), ("", "unmodelled")),
    ],
)
@pytest.mark.parametrize("own", [frozenset({"cpu"}), frozenset({"cpu", "x"})])
def test_quota_of_transformations_needs_no_topology_since_v0_17(release: str, cause: str, own: frozenset[str]) -> None:
    """The flavor `credit` has only quota, which is not enough if the pods themselves request `x`."""
    groups = tuple(ResourceGroup(frozenset({name}), (flavor,)) for name, flavor in (("cpu", "cpu"), ("x", "credit")))
    queue = make_queue(groups=groups, quotas={"cpu": {"cpu": 4}, "credit": {"x": 4}})
    model = replace(
        make_model(queue),
        flavors={"cpu": Flavor("cpu", topology="racks"), "credit": Flavor("credit")},
        topologies={"racks": ("rack",)},
        transformations={"cpu": Transformation({"x": 1}, replaces=False)},
        release=release_of(release),
    )
    pods = replace(make_pods(cpu=1, x=1), requests_topology=True, own_resources=own)
    found = simulate(make_workload(pods), model)
    if own == {"cpu"}:
        assert {reason.cause for reason in found.reasons} == {cause}
    fits = release == "v0.17.0" and own == {"cpu"}
    assert [dict(pod_set.flavors) for pod_set in found.assigned] == ([{"cpu": "cpu", "x": "credit"}] if fits else [])
    assert (found.outcome == "never fits") is not (fits or (cause == "unmodelled" and own == {"cpu"}))


@pytest.mark.parametrize(("release", "outcome"), [("v0.16.2", "never fits"), ("v0.17.0", "unknown"), ("", "unknown")])
def test_the_number_of_pods_needs_no_topology_since_v0_17(release: str, outcome: str) -> None:
    """Found by a drawn case: the quota of `pods` is on a separate flavor."""
    groups = tuple(ResourceGroup(frozenset({name}), (name,)) for name in ("cpu", "pods"))
    queue = make_queue(groups=groups, quotas={"cpu": {"cpu": 4}, "pods": {"pods": 4}})
    model = replace(
        make_model(queue),
        flavors={"cpu": Flavor("cpu", topology="racks"), "pods": Flavor("pods")},
        topologies={"racks": ("rack",)},
        release=release_of(release),
    )
    pods = replace(make_pods(cpu=1), requests_topology=True, own_resources=frozenset({"cpu"}))
    assert simulate(make_workload(pods), model).outcome == outcome


@pytest.mark.parametrize(("release", "outcome"), [("v0.15.2", "unknown"), ("v0.16.2", "never fits"), ("", "unknown")])
def test_multikueue_and_provisioning_exclude_each_other_since_v0_16(release: str, outcome: str) -> None:
    """In v0.15 the run is dispatched; whether an unknown release does so is unknown."""
    model = replace(
        make_model(make_queue(checks=("west", "nodes"))),
        active_checks={"west": True, "nodes": True},
        multikueue_checks=frozenset({"west"}),
        provisioning_checks=frozenset({"nodes"}),
        release=release_of(release),
    )
    verdict = simulate(make_workload(), model)
    cause = {"v0.15.2": "dispatched", "v0.16.2": "queue-inactive", "": "unmodelled"}[release]
    assert (verdict.outcome, verdict.reasons[0].cause) == (outcome, cause)
    assert "west" not in verdict.reasons[0].message, "the verdict lists its checks"
