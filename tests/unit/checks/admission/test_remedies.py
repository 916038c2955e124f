"""What would help, tried before it is told."""

from dataclasses import replace

from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tests.admission.cases import Case, cases
from tests.unit.checks.admission.make import make_model, make_pods, make_queue, make_workload
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.model import Flavor, LocalQueue, Model, Requirement, Taint, Workload
from trainstack.kueue.verdict import Change, Remedy


def told(workload: Workload, model: Model) -> list[str]:
    """The remedies' texts."""
    return [each.text for each in remedies(workload, model)]


def remedies(workload: Workload, model: Model) -> tuple[Remedy, ...]:
    """What is told of a workload that never fits."""
    found = AdmissionSimulator(model).verdict(workload)
    assert found.outcome == "never fits"
    return found.remedies


def test_another_queue_of_the_namespace_comes_first() -> None:
    """Only one where it fits, with the setting that would change."""
    model = make_model(make_queue(), make_queue("small"), make_queue("large", {"cpu": {"cpu": 9}}))
    others = {("other", "huge"): LocalQueue("other", "huge", "large"), **(model.local_queues or {})}
    asked = make_workload(make_pods(cpu=8), path="workloads.runs[train]")
    first = remedies(asked, replace(model, local_queues=others))[0]
    assert first == Remedy("use queue large", (Change("workloads.runs[train].queue", "q", "large"),), "fits")


def test_quota_is_raised_by_what_is_missing() -> None:
    """Of all resources that are too few at once, with the settings' paths."""
    model = make_model(make_queue("q", {"cpu": {"cpu": 4, "memory": "4Gi"}}))
    asked = make_workload(make_pods(cpu=5, memory="6Gi"))
    (raise_,) = (each for each in remedies(asked, model) if "raise" in each.text)
    assert raise_.text == (
        "in cluster queue q, raise nominalQuota of cpu on cpu from 4 to 5 and raise nominalQuota of memory on cpu from "
        "4Gi to 6Gi"
    )
    place = "queues.clusterQueues[q].resourceGroups[0].flavors[cpu].resources"
    assert raise_.changes == (
        Change(f"{place}[cpu].nominalQuota", "4", "5"),
        Change(f"{place}[memory].nominalQuota", "4Gi", "6Gi"),
    )


def test_where_a_limit_holds_it_back_that_may_be_raised() -> None:
    """The cohort has enough; else only quota of its own would help."""
    queue = make_queue("q", {"cpu": {"cpu": (4, 1)}}, "lab")
    rich, poor = make_queue("r", {"cpu": {"cpu": 9}}, "lab"), make_queue("r", {"cpu": {"cpu": 1}}, "lab")
    limit = "in cluster queue q, raise borrowingLimit of cpu on cpu from 1 to 3"
    asked = make_workload(make_pods(cpu=7))
    assert limit in told(asked, make_model(queue, rich))
    assert limit not in told(asked, make_model(queue, poor))


def test_as_many_pods_as_fit() -> None:
    """Beside the others of the gang."""
    asked = make_workload(make_pods("master", cpu=1), make_pods("worker", count=5, cpu=1, path="here"))
    (fewer,) = (each for each in remedies(asked, make_model(make_queue())) if "run" in each.text)
    assert (fewer.text, fewer.changes) == ("run 3 worker pods instead of 5", (Change("here", "5", "3"),))


def test_as_much_in_each_pod_as_there_is() -> None:
    """Nothing of something is no remedy."""
    assert "decrease cpu in each pod from 6 to 4" in told(make_workload(make_pods(cpu=6)), make_model(make_queue()))
    none = make_model(make_queue("q", {"cpu": {"cpu": 0}}))
    assert told(make_workload(make_pods(cpu=6)), none) == [
        "in cluster queue q, raise nominalQuota of cpu on cpu from 0 to 6"
    ]


def test_what_is_not_covered_is_covered_or_left_out() -> None:
    """With the least quota that it takes."""
    asked = make_workload(make_pods(count=2, cpu=1, gpu=3))
    assert told(asked, make_model(make_queue())) == [
        "cover nvidia.com/gpu (at least 6) in cluster queue q",
        "remove nvidia.com/gpu from the resources",
    ]


def test_pods_may_be_let_onto_other_nodes() -> None:
    """By tolerating, or by selecting, what a flavor has that holds them."""
    model = make_model(
        make_queue("q", {"a": {"cpu": 4}, "b": {"cpu": 4}}),
        flavors={
            "a": Flavor("a", {"pool": "a"}, (Taint("kind", "spot", "NoSchedule"),)),
            "b": Flavor("b", {"pool": "b"}),
        },
    )
    asked = make_workload(replace(make_pods(cpu=1), selector={"pool": "a"}), path="run")
    assert [(each.text, each.changes) for each in remedies(asked, model)] == [
        ("select pool=b for flavor b", (Change("run.nodeSelector", "pool=a", "pool=b"),)),
        (
            "tolerate kind=spot:NoSchedule, the taints of flavor a",
            (Change("run.tolerations", "", "kind=spot:NoSchedule"),),
        ),
    ]


def test_what_a_run_says_for_all_its_pods_is_changed_for_all_of_them() -> None:
    """Told once, though each role lacks it; what has no place on the flavor is left out."""
    master, worker = make_pods("master", cpu=1), make_pods("worker", count=2, cpu=1)
    tainted = Flavor("cpu", taints=(Taint("kind", "spot", "NoSchedule"),))
    asked = make_workload(master, worker, path="run")
    assert told(asked, make_model(make_queue(), flavors={"cpu": tainted})) == [
        "tolerate kind=spot:NoSchedule, the taints of flavor cpu"
    ]
    picky = make_workload(*(replace(each, selector={"pool": "b", "disk": "ssd"}) for each in asked.pod_sets))
    either = make_queue("q", {"a": {"cpu": 4}, "b": {"cpu": 1}})
    flavors = {"a": Flavor("a"), "b": Flavor("b", {"pool": "a"})}
    assert told(picky, make_model(either, flavors=flavors)) == ["select disk=ssd for flavor a"]
    simple = make_workload(*(replace(each, selector={"pool": "b"}) for each in asked.pod_sets), path="run")
    (left_out,) = remedies(simple, make_model(either, flavors=flavors))
    assert left_out.text == "remove pool=b from nodeSelector for flavor a"
    assert left_out.changes == (Change("run.nodeSelector", "pool=b", ""),)


def test_a_queue_may_be_opened() -> None:
    """To the run's namespace."""
    model = make_model(make_queue(namespaces=(Requirement("kubernetes.io/metadata.name", "In", ("other",)),)))
    (opened,) = remedies(make_workload(), model)
    assert (opened.text, opened.changes) == (
        "add ns to the namespaces of cluster queue q",
        (Change("queues.clusterQueues[q].namespaces", "", "ns"),),
    )


def test_what_would_not_help_is_not_told() -> None:
    """A circle of cohorts is not mended by more quota."""
    model = make_model(make_queue(checks=("gone",)), make_queue("r", checks=("gone",)))
    assert told(make_workload(make_pods(cpu=9)), model) == []


@hypothesis_settings(max_examples=hypothesis_settings().max_examples // 4)
@given(cases())
def test_remedies_leave_no_trace_and_come_with_what_never_fits_alone(case: Case) -> None:
    """Whatever is tried, the next verdict is the same; at most three are told."""
    simulator, asked = AdmissionSimulator(case.model), case.workload(case.asked, 1)
    first = simulator.verdict(asked)
    assert simulator.verdict(asked) == first
    assert len(first.remedies) <= 3
    assert first.outcome == "never fits" or not first.remedies
    assert bool(first.reasons) == (not first.fits)
