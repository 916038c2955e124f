"""The rules of sweeps, and the other rules applied to a sweep's trials."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.make import (
    make_distributed,
    make_expansion,
    make_queues,
    make_run,
    make_settings,
    make_sweep,
    make_sweeps,
)
from trainstack.preflight.file_checks import check
from trainstack.preflight.rules.sweeps import gpu_hours, gpus_per_trial
from trainstack.settings.search_space.hyperparams import Expansion
from trainstack.settings.sections.workloads import Resources, Role

EMPTY = Path("/nonexistent")
GPU = Resources(requests={"cpu": "1"}, limits={"nvidia.com/gpu": "1"})
SETS = make_expansion()


def edited(**changes: Any) -> Expansion:
    """Return the sets with changes in the first one."""
    return SETS.model_copy(update={"sets": (SETS.sets[0].model_copy(update=changes), *SETS.sets[1:])})


def test_a_current_sweep_has_no_findings() -> None:
    """Both forms are valid."""
    for changes in ({}, {"form": "indexed", "parallelism": 2}):
        assert check(make_settings(sweeps=make_sweeps(**changes)), EMPTY) == []


@pytest.mark.parametrize(
    ("expansion", "message"),
    [
        (None, "file sweeps/search/hyperparams.yml does not exist"),
        (edited(parameters={"batch_size": 33}), "sweeps/search/hyperparams.yml was edited by hand"),
        (edited(number=2), "sweeps/search/hyperparams.yml was edited by hand"),
        (
            make_expansion({"batch_size": 32}, {"batch_size": 32}),
            "sweeps/search/hyperparams.yml was edited by hand",
        ),
    ],
)
def test_a_missing_or_edited_file_is_stale(expansion: Expansion | None, message: str) -> None:
    """The edits are another value under an id, a wrong number, or a duplicate set."""
    (finding,) = check(make_settings(sweeps=make_sweeps(expansion=expansion)), EMPTY)
    assert (finding.id, finding.message) == ("sweep-stale", message)


def test_an_indexed_sweep_is_a_gang() -> None:
    """Kueue admits all of its pods or none: as many as its parallelism and its sets allow."""
    (finding,) = check(make_settings(sweeps=make_sweeps(form="indexed", parallelism=3)), EMPTY)
    assert (finding.id, finding.path) == ("never-fits", "sweeps.sweeps[search].run")
    assert "3 pods" in finding.message
    few = make_expansion({"batch_size": 32}, {"batch_size": 64})
    assert check(make_settings(sweeps=make_sweeps(form="indexed", parallelism=3, expansion=few)), EMPTY) == []
    assert check(make_settings(sweeps=make_sweeps(form="jobs", parallelism=3)), EMPTY) == []


def test_trials_are_checked_like_runs() -> None:
    """The findings have the paths of the sweep."""
    run = make_run(name="search", queue="reserch")
    (finding,) = check(make_settings(sweeps=make_sweeps(run=run)), EMPTY)
    assert (finding.id, finding.path) == ("queue-unknown", "sweeps.sweeps[search].run.queue")


def test_a_run_cannot_depend_on_a_sweep() -> None:
    """A sweep has many trials, and the dependency would be ambiguous."""
    (finding,) = check(make_settings(make_run(depends_on=("search",)), sweeps=make_sweeps()), EMPTY)
    assert (finding.id, finding.path) == ("dependency-unknown", "workloads.runs[train].dependsOn[0]")


def test_a_cost_within_the_limit_is_no_finding() -> None:
    """Four sets with a GPU for half an hour are two GPU hours; retries of the Job are within that time."""
    run = make_run(
        name="search", queue=None, priority=None, active_deadline_seconds=1800, backoff_limit=3, resources=GPU
    )
    sweep = make_sweep(run=run, max_gpu_hours=2.0)
    assert gpu_hours(sweep) == 2
    assert (
        check(make_settings(queues=make_queues(local_queues=()), sweeps=make_sweeps(run=run, max_gpu_hours=2.0)), EMPTY)
        == []
    )


def test_gpus_of_all_pods_are_counted() -> None:
    """The sum has all roles, whole GPUs and slices."""
    slice_ = Resources(limits={"nvidia.com/mig-1g.5gb": "2", "memory": "1Gi"})
    roles = {"Master": Role(resources=GPU), "Worker": Role(replicas=2, resources=slice_)}
    assert gpus_per_trial(make_sweep(run=make_distributed(name="search", roles=roles))) == 5


def test_gpus_of_a_patch_are_counted() -> None:
    """The GPUs of an added container count. A run whose pods cannot be built has other findings."""
    helper = {"name": "helper", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    sweep = make_sweep(run=make_run(name="search", pod_patch={"spec": {"containers": [helper]}}))
    assert gpus_per_trial(sweep) == 2
    refused = make_run(name="search", pod_patch={"spec": {"nodeName": "n", "containers": [helper]}})
    assert gpus_per_trial(make_sweep(run=refused)) == 0
