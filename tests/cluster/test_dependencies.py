"""Runs that depend on a run that fills a volume, on the cluster."""

import pytest

from tests.cluster.lab import (
    MOUNT,
    NAMESPACE,
    assert_no_changes,
    await_end,
    edit_run,
    launches,
    ledgers,
    outputs,
    run_id,
    team_config,
    unmanaged_run,
)
from tests.cluster.project import Project

pytestmark = pytest.mark.cluster


def test_dependent_runs_are_launched_once_their_dependency_succeeded(lab: Project) -> None:
    """Until then they have no object; each finds the file, and nothing is launched twice."""
    file = f"{MOUNT}/staged"
    config = team_config(
        lab.stack,
        unmanaged_run("stage", command=["sh", "-c", f"test ! -e {file} && echo whole > {file}"]),
        *(unmanaged_run(name, command=["grep", "whole", file], dependsOn=["stage"]) for name in ("first", "second")),
    )
    project = lab.other_stack("staging", config)
    try:
        done = project.up()
        assert done.code == 0, done.text
        stage = run_id(await_end(project, "stage", "Complete"))
        assert [run_id(body) for body in launches(project)] == [stage]
        assert list(ledgers(project)) == [stage]
        waiting = outputs(project)["waiting"]
        assert [run.partition("-")[0] for run in waiting] == ["first", "second"]
        assert set(map(tuple, waiting.values())) == {(stage,)}
        assert f"{next(iter(waiting))} is not launched yet: it depends on {stage}" in done.text

        done = project.up("--refresh")
        assert done.code == 0, done.text
        for name in ("first", "second"):
            await_end(project, name, "Complete")
        assert outputs(project)["waiting"] == {}

        # The edited run is launched again; its dependents have been launched, so they are kept.
        edit_run(project, "stage", lambda run: run.update(command=["sh", "-c", f"echo again >> {file}"]))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        await_end(project, "stage", "Complete")
        assert_no_changes(project)
        assert len(launches(project, namespace=NAMESPACE)) == 3
    finally:
        project.take_down()
