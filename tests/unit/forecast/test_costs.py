"""GPU-hours, cost and use over time."""

from dataclasses import replace

import pytest

from tests.unit.forecast.make import make_plan, make_task
from tests.unit.kueue.make import make_model, make_pods, make_queue
from trainstack.forecast.costs import display_amount, flavor_usages, gpu_hours, run_cost, run_gpus
from trainstack.kueue.model import Flavor, Model, Preemption
from trainstack.preflight.gpu_resources import GPU_PRODUCT_LABEL
from trainstack.settings.sections.plan import Plan, Prices

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-2g.10gb"
PLAN = Plan(
    prices=(
        Prices(name="whole", per_hour={GPU: 2.0, "cpu": 0.1, "memory": 0.01}),
        Prices(name="sliced", per_hour={GPU: 0.5}),
    )
)


def make_gpus() -> Model:
    """Return a queue with GPUs, and one with slices of GPUs."""
    whole = make_queue("q", {"whole": {"cpu": 64, "memory": "64Gi", GPU: 8, SLICE: 8}})
    sliced = make_queue("r", {"sliced": {"cpu": 64, GPU: 7}}, preemption=Preemption("LowerPriority"))
    model = make_model(whole, sliced)
    product = {GPU_PRODUCT_LABEL: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}
    return replace(model, flavors={"whole": Flavor("whole"), "sliced": Flavor("sliced", product)})


def test_gpu_hours_count_slices_by_their_share() -> None:
    """The share is that of the product of the flavor's nodes or of the selected nodes, or of the resource's name."""
    model = make_gpus()
    mixed = replace(make_pods(count=2), requests={SLICE: 4})
    selects = replace(make_pods(count=2, gpu=2), selector={GPU_PRODUCT_LABEL: "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"})
    schedule = make_plan(
        make_task("whole", 1800, pods=make_pods(count=2, gpu=2)),
        make_task("sliced", 3600, queue="r", pods=make_pods(gpu=3)),
        make_task("mixed", 3600, pods=mixed),
        make_task("selects", 1800, pods=selects),
        make_task("free", 1800, queue="", pods=make_pods(count=2, gpu=1)),
        model=model,
    )
    assert [run_gpus(timeline, model) for timeline in schedule.timelines] == pytest.approx([4, 3 / 7, 8 / 7, 12 / 7, 2])
    assert [gpu_hours(timeline, model) for timeline in schedule.timelines] == pytest.approx([2, 3 / 7, 8 / 7, 6 / 7, 1])


def test_repeated_work_counts_twice_and_runs_without_an_end_are_unbounded() -> None:
    """The time before the eviction of a run that restarts counts too."""
    model = make_gpus()
    schedule = make_plan(
        make_task("low", 3600, queue="r", pods=make_pods(gpu=7)),
        make_task("urgent", 3600, queue="r", pods=make_pods(gpu=7), priority=5, dependencies=("ns/before",)),
        make_task("before", 1800, pods=make_pods(cpu=1)),
        make_task("endless", None, pods=make_pods(gpu=1)),
        make_task("never", 60, pods=make_pods(gpu=9)),
        model=model,
    )
    low, urgent, before, endless, never = schedule.timelines
    assert [gpu_hours(timeline, model) for timeline in (low, urgent, before)] == pytest.approx([1.5, 1, 0], abs=1e-4)
    assert (gpu_hours(endless, model), gpu_hours(never, model)) == (None, None)
    assert (run_cost(endless, PLAN), run_cost(never, PLAN)) == (None, None)
    assert run_gpus(never, model) == 9


def test_cost_is_by_flavor_and_resource() -> None:
    """Prices are per GiB and core. A resource without a price is free; without any prices there is no cost."""
    model = make_gpus()
    schedule = make_plan(
        make_task("whole", 1800, pods=make_pods(gpu=2, cpu=4, memory="8Gi")),
        make_task("sliced", 3600, queue="r", pods=make_pods(gpu=3, cpu=4)),
        make_task("free", 60, queue="", pods=make_pods(gpu=1)),
        model=model,
    )
    assert [run_cost(timeline, PLAN) for timeline in schedule.timelines[:2]] == pytest.approx(
        [0.5 * (4 + 0.4 + 0.08), 1.5]
    )
    assert run_cost(schedule.timelines[2], PLAN) is None
    assert [run_cost(timeline, Plan()) for timeline in schedule.timelines] == [None, None, None]


def test_the_use_over_time_is_the_sum_of_the_runs() -> None:
    """It has a peak, and a mean until the last known end. A run without an end always uses its quota."""
    model = make_model(make_queue("q", {"cpu": {"cpu": 4}}), make_queue("r", {"cpu": {"cpu": 2}}))
    schedule = make_plan(
        make_task("one", 10, cpu=2),
        make_task("two", 20, cpu=1),
        make_task("swap", 10, cpu=1, dependencies=("ns/two",)),
        make_task("endless", None, queue="r"),
        model=model,
    )
    (use,) = flavor_usages(schedule, model)
    steps = [(round(at), used) for at, used in use.steps]
    assert (use.flavor, use.resource, use.quota, use.peak) == ("cpu", "cpu", 6, 4)
    assert steps == [(0, 4), (10, 2), (30, 1)]
    assert use.mean == pytest.approx(80 / 30, abs=1e-3)


def test_units() -> None:
    """The units are cores, GiB and pieces."""
    assert [display_amount(*amount) for amount in (("cpu", 1500), ("memory", 2**31), (GPU, 3))] == [1.5, 2.0, 3.0]
