"""Sweeps on the cluster: each trial is trained once, whatever the form, and finds its set in the way it knows."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cluster import forge
from tests.cluster.lab import NAMESPACE, OPEN, Config, outputs, quiet, true_conditions, uid
from tests.cluster.project import ROOT, Project, eventually
from tests.cluster.search import (
    DIGITS,
    edit_sweep,
    expire,
    launched,
    records,
    search_config,
    sets,
    space,
    told,
    trials_of,
    up,
    values,
)
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.images import ensure_images, git, workload

pytestmark = pytest.mark.cluster

IMAGE = "nvcr.io/nvidia/pytorch:22.01-py3"
PLACE = "/mnist-training"
KNOWS_NOTHING = """\
import os, yaml
sets = yaml.safe_load(open("hyperparams.yml"))
mine = sets[int(os.environ["JOB_ID"]) - 1]["hyperparam_set"]
print(f"val_accuracy={1 - abs(mine['batch_size'] - 64) / 1000:.4f}")
print("batch size", mine["batch_size"], "of commit NUMBER", sorted(mine), flush=True)
"""
"""The published program's way to its set; it prints what it has reached, and writes nothing."""

SIZES, RATES = (32, 64, 128), (0.01, 0.05)
TRIALS = len(SIZES) * len(RATES)
ARGS = ["--batch-size=${parameters.batch_size}", "--lr=${parameters.lr}"]


def digits_space(project: Project, *rates: float) -> None:
    """The space of the repository's example, with these learning rates."""
    space(project, "digits-search", {"batch_size": values(*SIZES), "lr": values(*rates)}, args=ARGS)


def trained(project: Project) -> set[str]:
    """The run ids of all trials that a ledger remembers."""
    found = project.select("configmaps", f"trainstack.dev/ledger,trainstack.dev/stack={project.stack}", NAMESPACE)
    return {run_id for body in found for run_id in trials_of_ledger(body)}


def trials_of_ledger(body: Config) -> list[str]:
    """The run ids that a ledger holds."""

    listed = json.loads(body["data"].get("trials", "[]"))
    return [each for each in listed if each] or [body["data"]["run"]]


def test_trials_of_real_data_as_one_job(lab: Project) -> None:
    """By the one command; the best by validation is good on the test data. Then one value more, TTL, another form."""
    digits_space(lab, *RATES)
    sweep = {"name": "digits-search", "form": "indexed", "parallelism": 2, "run": DIGITS}
    project = lab.other("search", search_config(lab.stack, sweep))
    try:
        done = project.trainstack("up", "--yes", seconds=400)
        assert done.code == 0, done.text
        ((batch, first),) = launched(project, "digits-search").items()
        assert (first["spec"]["completions"], first["spec"]["parallelism"]) == (TRIALS, 2)
        assert first["status"]["completedIndexes"] == f"0-{TRIALS - 1}"
        first_trials = {each["run_id"] for each in trials_of(project, first)}

        found = records(project)
        assert set(found) == first_trials
        assert all(each["finished"] and each["attempts"] == 1 for each in found.values())
        assert sets(list(found.values())) == sorted((size, rate) for size in SIZES for rate in RATES)
        as_told(found, 12)
        best = max(found.values(), key=validation)
        assert best["metrics"][-1]["test_accuracy"] >= 0.95
        best_is_told(project, found)
        quiet(project)

        digits_space(project, *RATES, 0.2)
        up(project)
        jobs = launched(project, "digits-search")
        (added,) = (body for run_id, body in jobs.items() if run_id != batch)
        assert uid(jobs[batch]) == uid(first)
        assert [each["parameters"] for each in trials_of(project, added)] == [
            {"batch_size": size, "lr": 0.2} for size in SIZES
        ]
        eventually("the new trials", lambda: "Complete" in true_conditions(second_of(project, batch)))
        quiet(project)

        # After a TTL, and in the other form too: everything is settled.
        expire(project, "digits-search")
        for form in ("indexed", "jobs"):
            edit_sweep(project, "digits-search", form=form)
            text = up(project)
            assert f"{TRIALS} trials were launched before and are settled" in text
            assert f"{len(SIZES)} trials were launched before and are settled" in text
            assert launched(project, "digits-search") == {}
        assert len(trained(project)) == TRIALS + len(SIZES)
    finally:
        project.take_down()


@pytest.mark.parametrize("epochs", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_trials_of_real_data_one_by_one(lab: Project, epochs: int) -> None:
    """A Job for each, at most so many at once: `trainstack up` launches the others as places get free."""
    digits_space(lab, *RATES)
    base = yaml.safe_load((ROOT / "workloads" / "digits" / "workload.yaml").read_text())
    args = [f"--epochs={epochs}" if each.startswith("--epochs=") else each for each in base["args"]]
    sweep = {"name": "digits-search", "parallelism": 4, "run": {**DIGITS, "args": args}}
    project = lab.other(f"one-by-one-{epochs}", search_config(lab.stack, sweep))
    try:
        up(project)
        assert len(launched(project, "digits-search")) == 4
        assert outputs(project)["waitingTrials"] == {"digits-search": TRIALS - 4}
        done = project.trainstack("up", "--yes", seconds=500)
        assert done.code == 0, done.text
        assert "digits-search: 4 of 4 slots in use" in done.text
        jobs = launched(project, "digits-search")
        assert len(jobs) == TRIALS
        assert all("Complete" in true_conditions(body) for body in jobs.values())
        assert outputs(project)["waitingTrials"] == {}
        # The same folder holds those of other launches of this sweep.
        found = {run_id: record for run_id, record in records(project).items() if run_id in jobs}
        assert set(found) == set(jobs)
        assert sets(list(found.values())) == sorted((size, rate) for size in SIZES for rate in RATES)
        as_told(found, epochs)
        best_is_told(project, found)
        if epochs == 12:
            best = max(found.values(), key=validation)
            assert best["metrics"][-1]["test_accuracy"] >= 0.95
        quiet(project)
    finally:
        project.take_down()


def test_trials_that_hold_all_quota_while_they_wait_get_their_data(lab: Project) -> None:
    """The loader comes past them: four hold the queue's memory, two more wait before it, none goes on without it."""
    space(lab, "digits-search", {"batch_size": values(64, 128), "lr": values(0.01, 0.05, 0.1)}, args=ARGS)
    base = yaml.safe_load((ROOT / "workloads" / "digits" / "workload.yaml").read_text())
    args = ["--epochs=1" if each.startswith("--epochs=") else each for each in base["args"]]
    quarter = {"requests": {"cpu": "100m", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    sweep = {"name": "digits-search", "run": {**DIGITS, "args": args, "resources": quarter}}
    project = lab.other("all-quota", search_config(lab.stack, sweep))
    try:
        up(project)
        eventually("all quota is taken", lambda: reserved(project) == "8Gi")
        done = project.trainstack("up", "--yes", seconds=400)
        assert done.code == 0, done.text
        assert len(launched(project, "digits-search")) == 6
        assert [each["state"] for each in told(project, "status", "digits-search")["trials"]] == ["succeeded"] * 6
        expire(project, "digits-search")
        up(project)
        assert launched(project, "digits-search") == {}
        assert [each["state"] for each in told(project, "status", "digits-search")["trials"]] == ["succeeded"] * 6
    finally:
        project.take_down()


def reserved(project: Project) -> str:
    """The memory of the open queue that is held."""
    (flavor,) = project.get("clusterqueue", f"{NAMESPACE}-{OPEN}")["status"]["flavorsReservation"]
    (total,) = (each["total"] for each in flavor["resources"] if each["name"] == "memory")
    return str(total)


def second_of(project: Project, first: str) -> Config:
    """The Job of a sweep that is not the first."""
    (other,) = (body for run_id, body in launched(project, "digits-search").items() if run_id != first)
    return other


def validation(record: Config) -> float:
    """The best validation accuracy that a record tells, read without any of our code."""
    return max(float(line["val_accuracy"]) for line in record["metrics"] if "val_accuracy" in line)


def best_is_told(project: Project, found: dict[str, Config]) -> None:
    """The commands tell of every trial what its metrics file tells, and which is the best of them."""
    states = told(project, "status", "digits-search")
    assert [each["state"] for each in states["trials"]] == ["succeeded"] * TRIALS
    results = told(project, "results", "digits-search")
    assert {each["run_id"]: each["objective"] for each in results["trials"]} == {
        run_id: validation(record) for run_id, record in found.items()
    }
    (best,) = told(project, "best", "digits-search")["best"]
    equal = [run_id for run_id, record in found.items() if validation(record) == best["value"]]
    assert best["value"] == max(map(validation, found.values()))
    assert best["run_id"] in equal
    assert best["number"] == min(each["number"] for each in results["trials"] if each["run_id"] in equal)


def as_told(found: dict[str, Config], epochs: int) -> None:
    """Each trial was trained with its own set, and says so."""
    for record in found.values():
        told = record["definition"]["sweep"]
        size, rate = told["parameters"]["batch_size"], told["parameters"]["lr"]
        assert record["definition"]["args"][-2:] == [f"--batch-size={size}", f"--lr={rate}"]
        steps = {line["epoch"]: line["step"] for line in record["metrics"] if "val_accuracy" in line}
        assert len(steps) == epochs
    per_epoch = {
        record["definition"]["sweep"]["parameters"]["batch_size"]: record["metrics"][0]["step"]
        for record in found.values()
    }
    assert sorted(per_epoch, key=lambda size: -per_epoch[size]) == sorted(SIZES)


def test_a_program_that_knows_nothing_of_us_takes_its_set_by_number(
    lab: Project, cluster: Cluster, tmp_path: Path
) -> None:
    """The published example: four Jobs of a program from git, each told JOB_ID and nothing else; then a fifth set.

    Its best set is named from logs, and still is when the Jobs and their pods are gone.
    """
    recipes = [git(), git(("git", "openssh-server"), serve_as=(forge.IMAGE,))]
    recipes.append(workload(ROOT / "workloads" / "digits", serve_as=(IMAGE,)))
    ensure_images(recipes, cluster.registry, lambda _: None)
    try:
        server = forge.start(lab, tmp_path, KNOWS_NOTHING)
        forge.secret(lab, NAMESPACE, "code-authority", "Opaque", ca_crt=server.authority)
        project = lab.other("published", search_config(lab.stack, published(server.url("public"), server.commits[2])))
        try:
            up(project)
            first = ended(project, 4)
            assert said(project, first) == {str(n): size for n, size in enumerate((32, 64, 128, 512), 1)}
            for body in first.values():
                verbatim(body)
            before = told(project, "best", "mnist-single-job")
            assert [(each["number"], each["parameters"], each["value"]) for each in before["best"]] == [
                (2, {"batch_size": 64}, 1.0)
            ]
            assert before["unranked"] == []
            # The ledgers hold the outcomes now, and are as declared all the same.
            quiet(project)

            space(
                project,
                "mnist-single-job",
                {"batch_size": values(16, 32, 64, 128, 512)},
                file=f"{PLACE}/hyperparams.yml",
            )
            up(project)
            both = ended(project, 5)
            assert {run_id: uid(both[run_id]) for run_id in first} == {run_id: uid(first[run_id]) for run_id in first}
            # Each keeps the file that its number is of.
            assert said(project, {run_id: both[run_id] for run_id in both.keys() - first.keys()}) == {"1": 16}
            files = project.select("configmaps", "trainstack.dev/sweep,!trainstack.dev/ledger", NAMESPACE)
            assert len(files) == 2
            quiet(project)

            reached = told(project, "results", "mnist-single-job")
            expire(project, "mnist-single-job")
            selector = "trainstack.dev/sweep=mnist-single-job"
            eventually("the pods are gone", lambda: not project.select("pods", selector, NAMESPACE))
            assert told(project, "results", "mnist-single-job") == reached
            (best,) = told(project, "best", "mnist-single-job")["best"]
            assert (best["number"], best["parameters"], best["value"]) == (3, {"batch_size": 64}, 1.0)
        finally:
            project.take_down()
    finally:
        forge.stop(lab)


def published(url: str, revision: str) -> Config:
    """The repository's example on the lab's queue."""
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


def ended(project: Project, count: int) -> dict[str, Config]:
    """The Jobs of the published sweep, once so many have succeeded."""

    def found() -> dict[str, Config]:
        jobs = launched(project, "mnist-single-job")
        assert not [body for body in jobs.values() if "Failed" in true_conditions(body)]
        done = {run_id: body for run_id, body in jobs.items() if "Complete" in true_conditions(body)}
        return done if len(done) == count else {}

    jobs: dict[str, Config] = eventually(f"{count} trials", found)
    return jobs


def said(project: Project, jobs: dict[str, Config]) -> dict[str, int]:
    """By JOB_ID, the batch size that the program printed."""
    result = {}
    for body in jobs.values():
        (container,) = body["spec"]["template"]["spec"]["containers"]
        (number,) = (each["value"] for each in container["env"])
        log = project.kubectl("logs", "-n", NAMESPACE, f"job/{body['metadata']['name']}", "-c", "training").out
        assert log.endswith("of commit 3 ['batch_size']\n")
        result[number] = int(log.splitlines()[-1].split()[2])
    return result


def verbatim(body: Config) -> None:
    """The container is as it was published: nothing of ours beside the number and the file."""
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["bash", "-c", "python main.py"]
    assert [each["name"] for each in container["env"]] == ["JOB_ID"]
    assert {each["mountPath"] for each in container["volumeMounts"]} == {PLACE, f"{PLACE}/hyperparams.yml"}
    assert body["spec"].get("completionMode") == "NonIndexed"
