"""The rule about loaders that cannot be admitted while runs and trials wait for their data."""

from pathlib import Path
from typing import Any

from tests.unit.make import make_cluster_queue, make_queues, make_run, make_settings, make_sweep, make_sweeps
from trainstack.preflight.file_checks import check
from trainstack.settings.model import Cluster, Loader, Settings
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.workloads import Data, Resources, Workload

ROOT = Path(__file__).resolve().parents[4]
LOADED = Data(manifest="workloads/digits/data.json", volume="training", path="data", prepare="workloads.digits.prepare")
SMALL = Cluster(loader=Loader(resources=Resources(requests={"cpu": "50m", "memory": "64Mi"})))


def trial(**changes: Any) -> Workload:
    """Return the run of a sweep: half of the queue's cpu per trial, and data that `up` loads."""
    return make_run(**{"name": "search", "data": LOADED, **changes})


def searching(cluster: Cluster, *, strategy: str = "BestEffortFIFO", **changes: Any) -> Settings:
    """Return an environment with four such trials on a queue with this strategy, with this loader."""
    queue = make_cluster_queue(queueing_strategy=strategy)
    sweeps = make_sweeps(**{"run": trial(), **changes})
    return make_settings(sweeps=sweeps, queues=make_queues(cluster_queues=(queue,)), cluster=cluster)


def findings(settings: Settings) -> list[tuple[str, str, str]]:
    """Return the severities, paths and messages of the rule's findings."""
    own = [finding for finding in check(settings, ROOT) if finding.id == "loader-shut-out"]
    return [(finding.severity, finding.path, finding.message) for finding in own]


def message_about(holders: str) -> str:
    """Return the rule's message."""
    return f"the loader of its data may wait in queue research behind {holders} for that data"


def test_a_loader_without_requests_is_always_admitted() -> None:
    """Trials that wait before it in the queue and use the whole quota do not delay it."""
    assert check(searching(Cluster()), ROOT) == []


def test_a_loader_with_requests_needs_quota_that_the_trials_leave() -> None:
    """Two trials fill the queue; one trial at a time leaves quota."""
    path = "sweeps.sweeps[search].run"
    assert findings(searching(SMALL)) == [("error", path, message_about("2 of 4 trials, which wait"))]
    assert findings(searching(SMALL, parallelism=2)) == [("error", path, message_about("2 of 2 trials, which wait"))]
    assert findings(searching(SMALL, parallelism=1)) == []
    assert findings(searching(SMALL, form="indexed", parallelism=2)) == [
        ("error", path, message_about("the run itself, which waits"))
    ]
    assert findings(searching(SMALL, form="indexed", parallelism=1)) == []


def test_a_run_that_uses_the_whole_queue_leaves_no_quota_for_its_loader() -> None:
    """Another queue may have quota for the loader."""
    run = make_run(data=LOADED, resources=Resources(requests={"cpu": "2", "memory": "1Gi"}))
    assert findings(make_settings(run, cluster=SMALL)) == [
        ("error", "workloads.runs[train]", message_about("the run itself, which waits"))
    ]
    queues = make_queues(
        cluster_queues=(make_cluster_queue(cohort=None), make_cluster_queue(name="loaders", cohort=None)),
        local_queues=(
            *make_queues().local_queues,
            make_queues().local_queues[0].model_copy(update={"name": "loaders", "cluster_queue": "loaders"}),
        ),
    )
    with_own_queue = SMALL.model_copy(update={"loader": SMALL.loader.model_copy(update={"queue": "loaders"})})
    assert check(make_settings(run, cluster=with_own_queue, queues=queues), ROOT) == []


def test_a_loader_cannot_pass_waiting_trials_of_a_strict_queue() -> None:
    """The loader's requests do not matter. If all trials are admitted, none waits before it."""
    path = "sweeps.sweeps[search].run"
    assert findings(searching(Cluster(), strategy="StrictFIFO")) == [
        ("error", path, message_about("2 of 4 trials, which wait"))
    ]
    assert findings(searching(Cluster(), strategy="StrictFIFO", parallelism=2)) == []


def test_the_rule_applies_only_to_pods_that_wait_for_data_that_up_loads() -> None:
    """It ignores runs without such data, unmanaged or never admitted runs, and sweeps that are not expanded."""
    uploaded = LOADED.model_copy(update={"prepare": None})
    for data in (None, uploaded):
        assert findings(searching(SMALL, run=trial(data=data))) == []
    assert findings(searching(SMALL, run=trial(managed=False, record=None))) == []
    assert findings(searching(SMALL, expansion=None)) == []
    assert findings(searching(SMALL, run=trial(resources=Resources(requests={"cpu": "3", "memory": "1Gi"})))) == []
    stopped_queue = make_cluster_queue(stop_policy="Hold")
    sweep = make_sweep(run=trial())
    sweeps = make_sweeps().model_copy(update={"sweeps": (sweep,)})
    assert (
        findings(make_settings(sweeps=sweeps, queues=make_queues(cluster_queues=(stopped_queue,)), cluster=SMALL)) == []
    )


def test_the_loaders_quota_is_unknown_for_a_tenant() -> None:
    """There is no finding if the loader requests nothing."""
    tenant = {
        "environment": Environment(profile="tenant", layers=("training",)),
        "queues": make_queues().model_copy(
            update={"flavors": (), "cohorts": (), "cluster_queues": (), "local_queues": ()}
        ),
    }
    sweeps = make_sweeps(run=trial())
    message = "the loader of its data needs quota of queue research; whether any is free is unknown"
    assert findings(make_settings(sweeps=sweeps, cluster=SMALL, **tenant)) == [
        ("unknown", "sweeps.sweeps[search].run", message)
    ]
    assert findings(make_settings(sweeps=sweeps, **tenant)) == []
