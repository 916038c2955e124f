"""Switches and commands of the engine by which a launch could be missed, or made twice: on an API server alone."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.apiserver import ApiServer
from tests.cluster.project import Project
from tests.faults.launch_cases import MERGE, job_path, launch_server, make_config, objects, only_job

JOBS, CONFIG_MAPS = "**batch/v1:Job**", "**ConfigMap**"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with launch_server(tmp_path_factory.mktemp("switches")) as running:
        yield running


@pytest.fixture(scope="module")
def checkout(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy of the project with its own state."""
    return Project.copy(tmp_path_factory.mktemp("checkout"), server)


def refused(project: Project, reason: str, *words: str) -> None:
    """Run an `up` that is refused for a reason. The next command would fail if the state were not accepted."""
    done = project.up(*words)
    assert done.code != 0, done.text
    assert reason in " ".join(done.text.split()), done.text


def allowed(project: Project, *words: str) -> None:
    """Run an `up` that is not refused."""
    done = project.up(*words)
    assert done.code == 0, done.text


def test_a_launch_that_a_change_leaves_out_is_not_recorded(server: ApiServer, checkout: Project) -> None:
    """The next `up` launches it."""
    project = checkout.other_stack("excluded", make_config("excluded"))
    refused(project, "has not created Job team/excluded-", "--exclude", JOBS)
    allowed(project, "--exclude", JOBS, "--exclude", CONFIG_MAPS)
    allowed(project, "--exclude", JOBS, "--exclude-dependents")
    refused(project, "excluded-", "--target", CONFIG_MAPS)
    assert objects(server, "configmaps", "excluded") == objects(server, "jobs", "excluded") == []
    allowed(project, "--exclude", CONFIG_MAPS)
    job = only_job(server, "excluded")
    allowed(project)
    (ledger,) = objects(server, "configmaps", "excluded")
    assert ledger["data"]["launched"] == "true"
    refused(project, "would launch the run a second time", "--replace", JOBS)
    assert only_job(server, "excluded")["metadata"]["uid"] == job["metadata"]["uid"]
    allowed(project, "--expect-no-changes")


@pytest.mark.parametrize(
    "words",
    [("--exclude", JOBS), pytest.param(("--target", CONFIG_MAPS), marks=pytest.mark.slow)],
    ids=["exclude", "target"],
)
def test_the_ledger_of_a_fixed_name_is_not_completed_without_its_launch(
    server: ApiServer, checkout: Project, words: tuple[str, str]
) -> None:
    """The engine has a resource of that name: the former launch, which has failed."""
    name = f"fixed-{words[0].strip('-')}"
    project = checkout.other_stack(name, make_config(name, naming="fixed"))
    allowed(project)
    job = only_job(server, name)
    condition = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Test"}
    ended = [{"type": kind, **condition} for kind in ("FailureTarget", "Failed")]
    status = {"conditions": ended, "startTime": "2026-01-01T00:00:00Z", "failed": 1, "ready": 0}
    server.send("PATCH", f"{job_path(job)}/status", {"status": status}, MERGE).checked()
    project.write_stack(name, make_config(name, naming="fixed", resources={"requests": {"cpu": 1}}))
    before = objects(server, "configmaps", name)
    refused(project, f"has not created Job team/{name}", *words)
    assert objects(server, "configmaps", name) == before
    assert only_job(server, name)["metadata"]["uid"] == job["metadata"]["uid"]


def test_a_state_with_missing_resources_is_repaired_by_doctors_words(server: ApiServer, checkout: Project) -> None:
    """The engine refuses it: a release without these guards left one behind `--exclude`."""
    project = checkout.other_stack("repaired", make_config("repaired"))
    allowed(project)
    job, file = only_job(server, "repaired"), project._state_file()
    assert file is not None
    content = json.loads(file.read_text())
    latest = content["checkpoint"]["latest"]
    latest["resources"] = [resource for resource in latest["resources"] if not resource["type"].endswith(":Job")]
    file.write_text(json.dumps(content))
    assert "snapshot integrity" in project.pulumi("stack").text
    assert project.trainstack("env").code == 0
    done = project.trainstack("doctor", "--json")
    assert done.code == 4, done.text
    (problem,) = json.loads(done.out)["problems"]
    assert problem["id"] == "state-refused"
    for command in json.loads(done.out)["commands"]:
        repaired = project.run(command.split())
        assert repaired.code == 0, repaired.text
    assert only_job(server, "repaired")["metadata"]["uid"] == job["metadata"]["uid"]
    allowed(project, "--expect-no-changes")


def test_a_renamed_stack_is_refused_until_its_objects_have_the_name(server: ApiServer, checkout: Project) -> None:
    """Its active launch is neither found by the new name nor launched again."""
    project = checkout.other_stack("before", make_config("before"))
    allowed(project)
    job = only_job(server, "before")
    assert project.pulumi("stack", "rename", "after").code == 0
    renamed = replace(project, stack="after")
    refused(renamed, "stack 'before' was renamed to 'after'")
    for command in json.loads(renamed.trainstack("doctor", "--json").out)["commands"]:
        done = renamed.run(command.split())
        assert done.code == 0, done.text
    allowed(renamed, "--refresh", "--expect-no-changes")
    assert only_job(server, "before")["metadata"]["uid"] == job["metadata"]["uid"]
