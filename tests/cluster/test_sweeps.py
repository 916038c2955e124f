"""Sweeps on the cluster: each trial is trained once with its own set, in either form."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cluster import forge
from tests.cluster.lab import NAMESPACE, OPEN, Config, assert_no_changes, outputs, true_conditions, uid
from tests.cluster.project import ROOT, Project, eventually
from tests.cluster.search import (
    DIGITS,
    edit_sweep,
    expire,
    launches_by_id,
    records,
    search_config,
    sorted_parameters,
    sweep_report,
    trials_of,
    up,
    values,
    write_space,
)
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, git, workload

pytestmark = pytest.mark.cluster

IMAGE = "nvcr.io/nvidia/pytorch:22.01-py3"
PLACE = "/mnist-training"
PUBLISHED_PROGRAM = """\
import os, yaml
sets = yaml.safe_load(open("hyperparams.yml"))
mine = sets[int(os.environ["JOB_ID"]) - 1]["hyperparam_set"]
print(f"val_accuracy={1 - abs(mine['batch_size'] - 64) / 1000:.4f}")
print("batch size", mine["batch_size"], "of commit NUMBER", sorted(mine), flush=True)
"""
"""It selects its set like the published program, prints its result, and writes no file."""

SIZES, RATES = (32, 64, 128), (0.01, 0.05)
TRIALS = len(SIZES) * len(RATES)
ARGS = ["--batch-size=${parameters.batch_size}", "--lr=${parameters.lr}"]


def digits_space(project: Project, *rates: float) -> None:
    """Write the space of the repository's example with these learning rates."""
    write_space(project, "digits-search", {"batch_size": values(*SIZES), "lr": values(*rates)}, args=ARGS)


def trained_run_ids(project: Project) -> set[str]:
    """Return the run ids of all trials in the stack's ledgers."""
    found = project.select("configmaps", f"trainstack.dev/ledger,trainstack.dev/stack={project.stack}", NAMESPACE)
    return {run_id for body in found for run_id in trials_of_ledger(body)}


def trials_of_ledger(body: Config) -> list[str]:
    """Return the run ids in a ledger."""

    listed = json.loads(body["data"].get("trials", "[]"))
    return [run_id for run_id in listed if run_id] or [body["data"]["run"]]


def test_trials_on_real_data_as_one_job(lab: Project) -> None:
    """`trainstack up` trains all trials, and the best one by validation is good on the test data.

    An added value launches only its own trials; a TTL or another form launches nothing.
    """
    digits_space(lab, *RATES)
    sweep = {"name": "digits-search", "form": "indexed", "parallelism": 2, "run": DIGITS}
    project = lab.other_stack("search", search_config(lab.stack, sweep))
    try:
        done = project.trainstack("up", "--yes", seconds=400)
        assert done.code == 0, done.text
        ((batch, first),) = launches_by_id(project, "digits-search").items()
        assert (first["spec"]["completions"], first["spec"]["parallelism"]) == (TRIALS, 2)
        assert first["status"]["completedIndexes"] == f"0-{TRIALS - 1}"
        first_trials = {trial["run_id"] for trial in trials_of(project, first)}

        found = records(project)
        assert set(found) == first_trials
        assert all(record["finished"] and record["attempts"] == 1 for record in found.values())
        assert sorted_parameters(list(found.values())) == sorted((size, rate) for size in SIZES for rate in RATES)
        assert_trained_with_own_sets(found, 12)
        best = max(found.values(), key=best_validation_accuracy)
        assert best["metrics"][-1]["test_accuracy"] >= 0.95
        assert_best_reported(project, found)
        assert_no_changes(project)

        digits_space(project, *RATES, 0.2)
        up(project)
        jobs = launches_by_id(project, "digits-search")
        (added,) = (body for run_id, body in jobs.items() if run_id != batch)
        assert uid(jobs[batch]) == uid(first)
        assert [trial["parameters"] for trial in trials_of(project, added)] == [
            {"batch_size": size, "lr": 0.2} for size in SIZES
        ]
        eventually("the new trials", lambda: "Complete" in true_conditions(second_job(project, batch)))
        assert_no_changes(project)

        # All trials remain settled after a TTL, and in the other form too.
        expire(project, "digits-search")
        for form in ("indexed", "jobs"):
            edit_sweep(project, "digits-search", form=form)
            text = up(project)
            assert f"{TRIALS} trials were launched before and are settled" in text
            assert f"{len(SIZES)} trials were launched before and are settled" in text
            assert launches_by_id(project, "digits-search") == {}
        assert len(trained_run_ids(project)) == TRIALS + len(SIZES)
    finally:
        project.take_down()


@pytest.mark.parametrize("epochs", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_trials_on_real_data_as_separate_jobs(lab: Project, epochs: int) -> None:
    """Each trial has its own Job. `trainstack up` launches further trials as slots become free."""
    digits_space(lab, *RATES)
    base = yaml.safe_load((ROOT / "workloads" / "digits" / "workload.yaml").read_text())
    args = [f"--epochs={epochs}" if arg.startswith("--epochs=") else arg for arg in base["args"]]
    sweep = {"name": "digits-search", "parallelism": 4, "run": {**DIGITS, "args": args}}
    project = lab.other_stack(f"one-by-one-{epochs}", search_config(lab.stack, sweep))
    try:
        up(project)
        assert len(launches_by_id(project, "digits-search")) == 4
        assert outputs(project)["waitingTrials"] == {"digits-search": TRIALS - 4}
        done = project.trainstack("up", "--yes", seconds=500)
        assert done.code == 0, done.text
        assert "digits-search: 4 of 4 slots in use" in done.text
        jobs = launches_by_id(project, "digits-search")
        assert len(jobs) == TRIALS
        assert all("Complete" in true_conditions(body) for body in jobs.values())
        assert outputs(project)["waitingTrials"] == {}
        # The folder also has the records of other launches of this sweep.
        found = {run_id: record for run_id, record in records(project).items() if run_id in jobs}
        assert set(found) == set(jobs)
        assert sorted_parameters(list(found.values())) == sorted((size, rate) for size in SIZES for rate in RATES)
        assert_trained_with_own_sets(found, epochs)
        assert_best_reported(project, found)
        if epochs == 12:
            best = max(found.values(), key=best_validation_accuracy)
            assert best["metrics"][-1]["test_accuracy"] >= 0.95
        assert_no_changes(project)
    finally:
        project.take_down()


def test_data_is_loaded_while_waiting_trials_hold_all_quota(lab: Project) -> None:
    """Four trials hold the queue's memory and two are queued; the loader is admitted, and all trials get their data."""
    write_space(lab, "digits-search", {"batch_size": values(64, 128), "lr": values(0.01, 0.05, 0.1)}, args=ARGS)
    base = yaml.safe_load((ROOT / "workloads" / "digits" / "workload.yaml").read_text())
    args = ["--epochs=1" if arg.startswith("--epochs=") else arg for arg in base["args"]]
    quarter = {"requests": {"cpu": "100m", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    sweep = {"name": "digits-search", "run": {**DIGITS, "args": args, "resources": quarter}}
    project = lab.other_stack("all-quota", search_config(lab.stack, sweep))
    try:
        up(project)
        eventually("all quota is taken", lambda: reserved_memory(project) == "8Gi")
        done = project.trainstack("up", "--yes", seconds=400)
        assert done.code == 0, done.text
        assert len(launches_by_id(project, "digits-search")) == 6
        assert [trial["state"] for trial in sweep_report(project, "status", "digits-search")["trials"]] == [
            "succeeded"
        ] * 6
        expire(project, "digits-search")
        up(project)
        assert launches_by_id(project, "digits-search") == {}
        assert [trial["state"] for trial in sweep_report(project, "status", "digits-search")["trials"]] == [
            "succeeded"
        ] * 6
    finally:
        project.take_down()


def reserved_memory(project: Project) -> str:
    """Return the reserved memory of the open queue."""
    (flavor,) = project.get("clusterqueue", f"{NAMESPACE}-{OPEN}")["status"]["flavorsReservation"]
    (total,) = (resource["total"] for resource in flavor["resources"] if resource["name"] == "memory")
    return str(total)


def second_job(project: Project, first: str) -> Config:
    """Return the sweep's Job that is not the first."""
    (other,) = (body for run_id, body in launches_by_id(project, "digits-search").items() if run_id != first)
    return other


def best_validation_accuracy(record: Config) -> float:
    """Return the best validation accuracy in a record, independently of our code."""
    return max(float(line["val_accuracy"]) for line in record["metrics"] if "val_accuracy" in line)


def assert_best_reported(project: Project, found: dict[str, Config]) -> None:
    """Assert that the commands report the objective of every trial's metrics file, and the best trial."""
    states = sweep_report(project, "status", "digits-search")
    assert [trial["state"] for trial in states["trials"]] == ["succeeded"] * TRIALS
    results = sweep_report(project, "results", "digits-search")
    assert {trial["run_id"]: trial["objective"] for trial in results["trials"]} == {
        run_id: best_validation_accuracy(record) for run_id, record in found.items()
    }
    (best,) = sweep_report(project, "best", "digits-search")["best"]
    best_run_ids = [run_id for run_id, record in found.items() if best_validation_accuracy(record) == best["value"]]
    assert best["value"] == max(map(best_validation_accuracy, found.values()))
    assert best["run_id"] in best_run_ids
    assert best["number"] == min(trial["number"] for trial in results["trials"] if trial["run_id"] in best_run_ids)


def assert_trained_with_own_sets(found: dict[str, Config], epochs: int) -> None:
    """Assert that each trial was trained with its own set."""
    for record in found.values():
        sweep = record["definition"]["sweep"]
        size, rate = sweep["parameters"]["batch_size"], sweep["parameters"]["lr"]
        assert record["definition"]["args"][-2:] == [f"--batch-size={size}", f"--lr={rate}"]
        steps = {line["epoch"]: line["step"] for line in record["metrics"] if "val_accuracy" in line}
        assert len(steps) == epochs
    per_epoch = {
        record["definition"]["sweep"]["parameters"]["batch_size"]: record["metrics"][0]["step"]
        for record in found.values()
    }
    assert sorted(per_epoch, key=lambda size: -per_epoch[size]) == sorted(SIZES)


@pytest.mark.slow
def test_an_unmanaged_program_selects_its_set_by_job_id(lab: Project, cluster: LocalCluster, tmp_path: Path) -> None:
    """Four Jobs run the published program from git with only JOB_ID; then a fifth set is added.

    `make test` runs this sweep without the fifth set: tests/cluster/test_systems.py.

    The best set is read from logs, and remains known after the Jobs and their pods are deleted.
    """
    recipes = [git(), git(("git", "openssh-server"), serve_as=(forge.IMAGE,))]
    recipes.append(workload(ROOT / "workloads" / "digits", serve_as=(IMAGE,)))
    ensure_images(recipes, cluster.registry, lambda _: None)
    try:
        server = forge.start(lab, tmp_path, PUBLISHED_PROGRAM)
        forge.create_secret(lab, NAMESPACE, "code-authority", "Opaque", ca_crt=server.authority)
        project = lab.other_stack(
            "published", search_config(lab.stack, published_config(server.url("public"), server.commits[2]))
        )
        try:
            up(project)
            first = await_succeeded(project, 4)
            assert printed_batch_sizes(project, first) == {
                str(number): size for number, size in enumerate((32, 64, 128, 512), 1)
            }
            for body in first.values():
                assert_verbatim(body)
            before = sweep_report(project, "best", "mnist-single-job")
            assert [(trial["number"], trial["parameters"], trial["value"]) for trial in before["best"]] == [
                (2, {"batch_size": 64}, 1.0)
            ]
            assert before["unranked"] == []
            # The ledgers now have the outcomes, but are still as declared.
            assert_no_changes(project)

            write_space(
                project,
                "mnist-single-job",
                {"batch_size": values(16, 32, 64, 128, 512)},
                file=f"{PLACE}/hyperparams.yml",
            )
            up(project)
            jobs = await_succeeded(project, 5)
            assert {run_id: uid(jobs[run_id]) for run_id in first} == {run_id: uid(first[run_id]) for run_id in first}
            # Each Job keeps the file that its JOB_ID refers to.
            assert printed_batch_sizes(project, {run_id: jobs[run_id] for run_id in jobs.keys() - first.keys()}) == {
                "1": 16
            }
            files = project.select("configmaps", "trainstack.dev/sweep,!trainstack.dev/ledger", NAMESPACE)
            assert len(files) == 2
            assert_no_changes(project)

            results = sweep_report(project, "results", "mnist-single-job")
            expire(project, "mnist-single-job")
            selector = "trainstack.dev/sweep=mnist-single-job"
            eventually("the pods are gone", lambda: not project.select("pods", selector, NAMESPACE))
            assert sweep_report(project, "results", "mnist-single-job") == results
            (best,) = sweep_report(project, "best", "mnist-single-job")["best"]
            assert (best["number"], best["parameters"], best["value"]) == (3, {"batch_size": 64}, 1.0)
        finally:
            project.take_down()
    finally:
        forge.stop(lab)


def published_config(url: str, revision: str) -> Config:
    """Return the repository's example on the lab's queue."""
    run = {
        "kind": "Job",
        "namespace": NAMESPACE,
        "queue": OPEN,
        "managed": False,
        "image": {"name": IMAGE},
        "code": {"git": url, "revision": revision, "mountPath": PLACE, "secret": "code-authority"},
        "workingDir": PLACE,
        "command": ["bash", "-c", "python main.py"],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "runAsUser": 1000,
        "backoffLimit": 0,
    }
    return {"name": "mnist-single-job", "run": run}


def await_succeeded(project: Project, count: int) -> dict[str, Config]:
    """Wait until this number of Jobs of the published sweep have succeeded, and return them."""

    def found() -> dict[str, Config]:
        jobs = launches_by_id(project, "mnist-single-job")
        assert not [body for body in jobs.values() if "Failed" in true_conditions(body)]
        done = {run_id: body for run_id, body in jobs.items() if "Complete" in true_conditions(body)}
        return done if len(done) == count else {}

    jobs: dict[str, Config] = eventually(f"{count} trials", found)
    return jobs


def printed_batch_sizes(project: Project, jobs: dict[str, Config]) -> dict[str, int]:
    """Return the batch sizes that the programs printed, by JOB_ID."""
    result = {}
    for body in jobs.values():
        (container,) = body["spec"]["template"]["spec"]["containers"]
        (number,) = (variable["value"] for variable in container["env"])
        log = project.kubectl("logs", "-n", NAMESPACE, f"job/{body['metadata']['name']}", "-c", "training").out
        assert log.endswith("of commit 3 ['batch_size']\n")
        result[number] = int(log.splitlines()[-1].split()[2])
    return result


def assert_verbatim(body: Config) -> None:
    """Assert that the container is as published, except for JOB_ID and the file of sets."""
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["bash", "-c", "python main.py"]
    assert [variable["name"] for variable in container["env"]] == ["JOB_ID"]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {PLACE, f"{PLACE}/hyperparams.yml"}
    assert body["spec"].get("completionMode") == "NonIndexed"
