"""The rule that loaders come where runs and trials wait for what they bring."""

from pathlib import Path
from typing import Any

from tests.unit.make import make_cluster_queue, make_queues, make_run, make_settings, make_sweep, make_sweeps
from trainstack.preflight.preflight import check
from trainstack.settings.model import Cluster, Loader, Settings
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.workloads import Data, Resources, Workload

ROOT = Path(__file__).resolve().parents[3]
BROUGHT = Data(
    manifest="workloads/digits/data.json", volume="training", path="data", prepare="workloads.digits.prepare"
)
SMALL = Cluster(loader=Loader(resources=Resources(requests={"cpu": "50m", "memory": "64Mi"})))


def trial(**changes: Any) -> Workload:
    """What the trials of `make_sweep` are made of: half of the queue's cpu each, and data that `up` brings."""
    return make_run(**{"name": "search", "data": BROUGHT, **changes})


def searching(cluster: Cluster, *, strategy: str = "BestEffortFIFO", **changes: Any) -> Settings:
    """Four such trials on a queue of this strategy, with this loader."""
    queue = make_cluster_queue(queueing_strategy=strategy)
    sweeps = make_sweeps(**{"run": trial(), **changes})
    return make_settings(sweeps=sweeps, queues=make_queues(cluster_queues=(queue,)), cluster=cluster)


def found(settings: Settings) -> list[tuple[str, str, str]]:
    """What the rule says."""
    every = [each for each in check(settings, ROOT) if each.id == "loader-shut-out"]
    return [(each.severity, each.path, each.message) for each in every]


def said(holders: str) -> str:
    """The message."""
    return f"the loader of its data may wait in queue research behind {holders} for that data"


def test_a_loader_that_requests_nothing_comes_always() -> None:
    """Also where trials wait in the queue, before it and with all quota."""
    assert check(searching(Cluster()), ROOT) == []


def test_a_loader_with_requests_needs_what_the_trials_leave() -> None:
    """Of their own trials alone: two fill the queue; one at once leaves room."""
    path = "sweeps.sweeps[search].run"
    assert found(searching(SMALL)) == [("error", path, said("2 of 4 trials, which wait"))]
    assert found(searching(SMALL, parallelism=2)) == [("error", path, said("2 of 2 trials, which wait"))]
    assert found(searching(SMALL, parallelism=1)) == []
    assert found(searching(SMALL, form="indexed", parallelism=2)) == [
        ("error", path, said("the run itself, which waits"))
    ]
    assert found(searching(SMALL, form="indexed", parallelism=1)) == []


def test_a_run_that_takes_the_whole_queue_shuts_the_loader_out() -> None:
    """As trials do; another queue may have room."""
    whole = make_run(data=BROUGHT, resources=Resources(requests={"cpu": "2", "memory": "1Gi"}))
    assert found(make_settings(whole, cluster=SMALL)) == [
        ("error", "workloads.runs[train]", said("the run itself, which waits"))
    ]
    two = make_queues(
        cluster_queues=(make_cluster_queue(cohort=None), make_cluster_queue(name="loaders", cohort=None)),
        local_queues=(
            *make_queues().local_queues,
            make_queues().local_queues[0].model_copy(update={"name": "loaders", "cluster_queue": "loaders"}),
        ),
    )
    own = SMALL.model_copy(update={"loader": SMALL.loader.model_copy(update={"queue": "loaders"})})
    assert check(make_settings(whole, cluster=own, queues=two), ROOT) == []


def test_in_a_strict_queue_who_waits_is_not_passed() -> None:
    """Whatever the loader requests; where all trials are admitted nobody waits before it."""
    path = "sweeps.sweeps[search].run"
    assert found(searching(Cluster(), strategy="StrictFIFO")) == [("error", path, said("2 of 4 trials, which wait"))]
    assert found(searching(Cluster(), strategy="StrictFIFO", parallelism=2)) == []


def test_only_what_waits_in_its_pods_for_data_that_up_brings_is_looked_at() -> None:
    """Not what knows no such data, what is unmanaged, what is not expanded, and what is admitted by nobody."""
    brought = BROUGHT.model_copy(update={"prepare": None})
    for data in (None, brought):
        assert found(searching(SMALL, run=trial(data=data))) == []
    assert found(searching(SMALL, run=trial(managed=False, record=None))) == []
    assert found(searching(SMALL, expansion=None)) == []
    assert found(searching(SMALL, run=trial(resources=Resources(requests={"cpu": "3", "memory": "1Gi"})))) == []
    held = make_cluster_queue(stop_policy="Hold")
    run = make_sweep(run=trial())
    sweeps = make_sweeps().model_copy(update={"sweeps": (run,)})
    assert found(make_settings(sweeps=sweeps, queues=make_queues(cluster_queues=(held,)), cluster=SMALL)) == []


def test_a_tenant_is_told_that_it_is_not_known() -> None:
    """Where the loader requests anything."""
    tenant = {
        "environment": Environment(profile="tenant", layers=("training",)),
        "queues": make_queues().model_copy(
            update={"flavors": (), "cohorts": (), "cluster_queues": (), "local_queues": ()}
        ),
    }
    sweeps = make_sweeps(run=trial())
    message = "the loader of its data needs quota of queue research; whether any is free is unknown"
    assert found(make_settings(sweeps=sweeps, cluster=SMALL, **tenant)) == [
        ("unknown", "sweeps.sweeps[search].run", message)
    ]
    assert found(make_settings(sweeps=sweeps, **tenant)) == []
