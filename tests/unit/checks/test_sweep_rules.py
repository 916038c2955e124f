"""The rules of sweeps, and how the others see a sweep's trials."""

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
from trainstack.preflight.preflight import check
from trainstack.preflight.rules.sweeps import gpu_hours, gpus
from trainstack.settings.search_space.hyperparams import Expansion
from trainstack.settings.sections.workloads import Resources, Role

EMPTY = Path("/nonexistent")
GPU = Resources(requests={"cpu": "1"}, limits={"nvidia.com/gpu": "1"})
SETS = make_expansion()


def edited(**changes: Any) -> Expansion:
    """The sets, of which the first says something else."""
    return SETS.model_copy(update={"sets": (SETS.sets[0].model_copy(update=changes), *SETS.sets[1:])})


def test_a_current_sweep_has_no_findings() -> None:
    """In both forms."""
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
def test_a_file_that_is_not_as_it_was_made_is_stale(expansion: Expansion | None, message: str) -> None:
    """Missing, with another value under an id, misnumbered, or with a set twice."""
    (found,) = check(make_settings(sweeps=make_sweeps(expansion=expansion)), EMPTY)
    assert (found.id, found.message) == ("sweep-stale", message)


def test_an_indexed_sweep_is_a_gang() -> None:
    """Its pods stand at once, as many as its parallelism and its sets allow; Kueue admits all or none."""
    (found,) = check(make_settings(sweeps=make_sweeps(form="indexed", parallelism=3)), EMPTY)
    assert (found.id, found.path) == ("never-fits", "sweeps.sweeps[search].run")
    assert "3 pods" in found.message
    few = make_expansion({"batch_size": 32}, {"batch_size": 64})
    assert check(make_settings(sweeps=make_sweeps(form="indexed", parallelism=3, expansion=few)), EMPTY) == []
    assert check(make_settings(sweeps=make_sweeps(form="jobs", parallelism=3)), EMPTY) == []


def test_trials_are_checked_as_runs_are() -> None:
    """With the paths of the sweep."""
    run = make_run(name="search", queue="reserch")
    (found,) = check(make_settings(sweeps=make_sweeps(run=run)), EMPTY)
    assert (found.id, found.path) == ("queue-unknown", "sweeps.sweeps[search].run.queue")


def test_a_run_does_not_depend_on_a_sweep() -> None:
    """A sweep's trials are many, and which of them would be meant?"""
    (found,) = check(make_settings(make_run(depends_on=("search",)), sweeps=make_sweeps()), EMPTY)
    assert (found.id, found.path) == ("dependency-unknown", "workloads.runs[train].dependsOn[0]")


def test_a_cost_within_the_limit_is_no_finding() -> None:
    """Four sets of a GPU for half an hour each are two GPU hours, however often the Job tries within that time."""
    run = make_run(name="search", queue=None, active_deadline_seconds=1800, backoff_limit=3, resources=GPU)
    sweep = make_sweep(run=run, max_gpu_hours=2.0)
    assert gpu_hours(sweep) == 2
    assert (
        check(make_settings(queues=make_queues(local_queues=()), sweeps=make_sweeps(run=run, max_gpu_hours=2.0)), EMPTY)
        == []
    )


def test_gpus_of_all_pods_are_counted() -> None:
    """Of every role, whole ones and slices."""
    slice_ = Resources(limits={"nvidia.com/mig-1g.5gb": "2", "memory": "1Gi"})
    roles = {"Master": Role(resources=GPU), "Worker": Role(replicas=2, resources=slice_)}
    assert gpus(make_sweep(run=make_distributed(name="search", roles=roles))) == 5


def test_gpus_of_a_patch_are_counted() -> None:
    """Those of an added container, too; a run whose pods cannot be built has other findings."""
    helper = {"name": "helper", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    sweep = make_sweep(run=make_run(name="search", pod_patch={"spec": {"containers": [helper]}}))
    assert gpus(sweep) == 2
    refused = make_run(name="search", pod_patch={"spec": {"nodeName": "n", "containers": [helper]}})
    assert gpus(make_sweep(run=refused)) == 0
