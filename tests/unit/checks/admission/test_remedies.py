"""Remedies are simulated before they are reported."""

from dataclasses import replace

from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tests.admission.cases import Case, cases
from tests.unit.checks.admission.make import make_model, make_pods, make_queue, make_workload
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.model import Flavor, LocalQueue, Model, Requirement, Taint, Workload
from trainstack.kueue.verdict import Change, Remedy


def texts(workload: Workload, model: Model) -> list[str]:
    """Return the texts of the remedies."""
    return [remedy.text for remedy in remedies(workload, model)]


def remedies(workload: Workload, model: Model) -> tuple[Remedy, ...]:
    """Return the remedies for a workload that never fits."""
    found = AdmissionSimulator(model).verdict(workload)
    assert found.outcome == "never fits"
    return found.remedies


def test_another_queue_of_the_namespace_is_the_first_remedy() -> None:
    """The workload must fit on that queue. The remedy has the setting that would change."""
    model = make_model(make_queue(), make_queue("small"), make_queue("large", {"cpu": {"cpu": 9}}))
    others = {("other", "huge"): LocalQueue("other", "huge", "large"), **(model.local_queues or {})}
    workload = make_workload(make_pods(cpu=8), path="workloads.runs[train]")
    first = remedies(workload, replace(model, local_queues=others))[0]
    assert first == Remedy("use queue large", (Change("workloads.runs[train].queue", "q", "large"),), "fits")


def test_quota_is_raised_by_the_missing_amount() -> None:
    """One remedy has all insufficient resources, with the settings' paths."""
    model = make_model(make_queue("q", {"cpu": {"cpu": 4, "memory": "4Gi"}}))
    workload = make_workload(make_pods(cpu=5, memory="6Gi"))
    (raise_,) = (remedy for remedy in remedies(workload, model) if "raise" in remedy.text)
    assert raise_.text == (
        "in cluster queue q, raise nominalQuota of cpu on cpu from 4 to 5 and raise nominalQuota of memory on cpu from "
        "4Gi to 6Gi"
    )
    path = "queues.clusterQueues[q].resourceGroups[0].flavors[cpu].resources"
    assert raise_.changes == (
        Change(f"{path}[cpu].nominalQuota", "4", "5"),
        Change(f"{path}[memory].nominalQuota", "4Gi", "6Gi"),
    )


def test_a_borrowing_limit_may_be_raised() -> None:
    """The cohort must have enough quota; otherwise only the queue's own quota would help."""
    queue = make_queue("q", {"cpu": {"cpu": (4, 1)}}, "lab")
    rich, poor = make_queue("r", {"cpu": {"cpu": 9}}, "lab"), make_queue("r", {"cpu": {"cpu": 1}}, "lab")
    limit = "in cluster queue q, raise borrowingLimit of cpu on cpu from 1 to 3"
    workload = make_workload(make_pods(cpu=7))
    assert limit in texts(workload, make_model(queue, rich))
    assert limit not in texts(workload, make_model(queue, poor))


def test_fewer_pods_may_fit() -> None:
    """They must fit in addition to the other pod sets of the gang."""
    workload = make_workload(make_pods("master", cpu=1), make_pods("worker", count=5, cpu=1, path="here"))
    (fewer,) = (remedy for remedy in remedies(workload, make_model(make_queue())) if "run" in remedy.text)
    assert (fewer.text, fewer.changes) == ("run 3 worker pods instead of 5", (Change("here", "5", "3"),))


def test_a_smaller_request_of_each_pod_may_fit() -> None:
    """A request of 0 is no remedy."""
    assert "decrease cpu in each pod from 6 to 4" in texts(make_workload(make_pods(cpu=6)), make_model(make_queue()))
    none = make_model(make_queue("q", {"cpu": {"cpu": 0}}))
    assert texts(make_workload(make_pods(cpu=6)), none) == [
        "in cluster queue q, raise nominalQuota of cpu on cpu from 0 to 6"
    ]


def test_an_uncovered_resource_may_be_covered_or_removed() -> None:
    """The remedy has the minimum quota."""
    workload = make_workload(make_pods(count=2, cpu=1, gpu=3))
    assert texts(workload, make_model(make_queue())) == [
        "cover nvidia.com/gpu (at least 6) in cluster queue q",
        "remove nvidia.com/gpu from the resources",
    ]


def test_a_toleration_or_selector_may_match_another_flavor() -> None:
    """The flavor must have enough quota."""
    model = make_model(
        make_queue("q", {"a": {"cpu": 4}, "b": {"cpu": 4}}),
        flavors={
            "a": Flavor("a", {"pool": "a"}, (Taint("kind", "spot", "NoSchedule"),)),
            "b": Flavor("b", {"pool": "b"}),
        },
    )
    workload = make_workload(replace(make_pods(cpu=1), selector={"pool": "a"}), path="run")
    assert [(remedy.text, remedy.changes) for remedy in remedies(workload, model)] == [
        ("select pool=b for flavor b", (Change("run.nodeSelector", "pool=a", "pool=b"),)),
        (
            "tolerate kind=spot:NoSchedule, the taints of flavor a",
            (Change("run.tolerations", "", "kind=spot:NoSchedule"),),
        ),
    ]


def test_a_setting_of_all_pods_has_one_remedy() -> None:
    """The remedy is reported once for all roles. A selector that the flavor cannot match is removed."""
    master, worker = make_pods("master", cpu=1), make_pods("worker", count=2, cpu=1)
    tainted = Flavor("cpu", taints=(Taint("kind", "spot", "NoSchedule"),))
    workload = make_workload(master, worker, path="run")
    assert texts(workload, make_model(make_queue(), flavors={"cpu": tainted})) == [
        "tolerate kind=spot:NoSchedule, the taints of flavor cpu"
    ]
    with_two_selectors = make_workload(
        *(replace(pods, selector={"pool": "b", "disk": "ssd"}) for pods in workload.pod_sets)
    )
    queue = make_queue("q", {"a": {"cpu": 4}, "b": {"cpu": 1}})
    flavors = {"a": Flavor("a"), "b": Flavor("b", {"pool": "a"})}
    assert texts(with_two_selectors, make_model(queue, flavors=flavors)) == ["select disk=ssd for flavor a"]
    with_one_selector = make_workload(
        *(replace(pods, selector={"pool": "b"}) for pods in workload.pod_sets), path="run"
    )
    (removed,) = remedies(with_one_selector, make_model(queue, flavors=flavors))
    assert removed.text == "remove pool=b from nodeSelector for flavor a"
    assert removed.changes == (Change("run.nodeSelector", "pool=b", ""),)


def test_a_queue_may_be_opened_to_the_runs_namespace() -> None:
    model = make_model(make_queue(namespaces=(Requirement("kubernetes.io/metadata.name", "In", ("other",)),)))
    (opened,) = remedies(make_workload(), model)
    assert (opened.text, opened.changes) == (
        "add ns to the namespaces of cluster queue q",
        (Change("queues.clusterQueues[q].namespaces", "", "ns"),),
    )


def test_an_ineffective_remedy_is_not_reported() -> None:
    """More quota does not help if an admission check is missing."""
    model = make_model(make_queue(checks=("gone",)), make_queue("r", checks=("gone",)))
    assert texts(make_workload(make_pods(cpu=9)), model) == []


@hypothesis_settings(max_examples=hypothesis_settings().max_examples // 4)
@given(cases())
def test_remedies_do_not_change_the_simulator_and_are_only_for_never_fits(case: Case) -> None:
    """The next verdict is the same. At most three remedies are reported."""
    simulator, workload = AdmissionSimulator(case.model), case.workload(case.candidate, 1)
    first = simulator.verdict(workload)
    assert simulator.verdict(workload) == first
    assert len(first.remedies) <= 3
    assert first.outcome == "never fits" or not first.remedies
    assert bool(first.reasons) == (not first.fits)
