"""The main job: the dev environment, from nothing to a fetched model, as a newcomer runs it."""

import json
from pathlib import Path

import pytest

from tests.cluster.image_runs import run_in_image
from tests.cluster.project import ROOT, Project
from trainstack.objects.labels import RELEASE
from trainstack.runs.images.images import base_reference

pytestmark = pytest.mark.cluster


def record(dev: Project) -> Path:
    """The one fetched run of the dev environment; other tests fetch theirs beside it."""
    (folder,) = (dev.root / "results").glob("digits-*")
    return folder


def test_make_with_a_kubeconfig_builds_no_local_cluster(tmp_path: Path) -> None:
    """`make up KUBECONFIG=<file>` builds nothing by itself, and needs no right on this machine."""
    words = ["make", "--dry-run", "-C", str(ROOT), "up", "KUBECONFIG=some/file"]
    done = Project(ROOT, tmp_path, "dev").run(words)
    assert done.code == 0, done.text
    assert "trainstack up -s dev --yes" in done.out
    assert "trainstack dev " not in done.out


def test_with_a_kubeconfig_no_local_cluster_is_started(dev: Project) -> None:
    """It trained on the cluster that KUBECONFIG names."""
    assert record(dev).is_dir()
    assert not (dev.root / ".trainstack" / "cluster").exists()


def test_the_job_was_created_ran_and_succeeded_through_the_queue(dev: Project) -> None:
    """The operator's conditions are all there, and Kueue admitted a Workload for it before."""
    (job,) = dev.get("pytorchjobs", namespace="research")["items"]
    conditions = [each["type"] for each in job["status"]["conditions"]]
    assert {"Created", "Running", "Succeeded"} <= set(conditions)
    workloads = dev.get("workloads", namespace="research")["items"]
    (workload,) = (each for each in workloads if each["metadata"]["ownerReferences"][0]["kind"] == "PyTorchJob")
    admitted = next(each for each in workload["status"]["conditions"] if each["type"] == "Admitted")
    assert admitted["status"] == "False", "it has finished, so it gave its quota back"
    assert next(e["status"] for e in workload["status"]["conditions"] if e["type"] == "QuotaReserved") == "False"
    events = dev.get("events", namespace="research")["items"]
    assert "Admitted" in {e["reason"] for e in events if e["involvedObject"]["name"] == workload["metadata"]["name"]}
    assert [each["count"] for each in workload["spec"]["podSets"]] == [1, 2]


def test_three_processes_trained_together_and_well(dev: Project) -> None:
    """The master's log says world size 3; the held-out accuracy is at least 0.95; the log told the person both."""
    (log,) = (record(dev) / "logs").glob("rank-0.*.log")
    assert "world size 3" in log.read_text()
    last = json.loads((record(dev) / "result" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["test_accuracy"] >= 0.95
    assert f"{last['test_accuracy']:.4f}" in (dev.root / "up.log").read_text()


def test_the_fetched_model_gives_that_accuracy_again_outside_the_cluster(dev: Project, tmp_path: Path) -> None:
    """On the data that the run read, in the base image, which is all that the model needs."""
    fetched = dev.trainstack("fetch", "training:data/digits", "--to", str(tmp_path))
    assert fetched.code == 0, fetched.text
    last = json.loads((record(dev) / "result" / "metrics.jsonl").read_text().splitlines()[-1])
    done = run_in_image(
        base_reference(),
        ["sh", "-c", "cd /opt && python3 -m digits.evaluate --model /result/model.pt --data /data"],
        {
            ROOT / "workloads" / "digits": "/opt/digits",
            record(dev) / "result": "/result",
            tmp_path: "/data",
        },
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["test_accuracy"] == pytest.approx(last["test_accuracy"])


def test_a_second_up_repairs_definitions_changes_nothing_else_and_fetches_nothing(dev: Project) -> None:
    """With a refresh, which reads every live object, but the definitions. A preview without one names these."""
    assert dev.changes("--refresh") == {}
    kind = "customresourcedefinition"
    deleted, changed = "provisioningrequestconfigs.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io"
    before = dev.get(kind, changed)["metadata"]
    for words in (("delete", kind, deleted), ("label", kind, changed, f"{RELEASE}-")):
        done = dev.kubectl(*words)
        assert done.code == 0, done.text
    preview = dev.trainstack("preview")
    assert preview.code == 0, preview.text
    assert f"note: CustomResourceDefinition {deleted} was deleted outside of this stack" in preview.out
    assert f"note: CustomResourceDefinition {changed} was changed outside of this stack" in preview.out
    again = dev.trainstack("up", "--yes")
    assert again.code == 0, again.text
    after = dev.get(kind, changed)["metadata"]
    assert (after["uid"], after["labels"]) == (before["uid"], before["labels"])
    assert dev.get(kind, deleted)["metadata"]["labels"][RELEASE] == before["labels"][RELEASE]
    assert dev.changes("--refresh") == {}
    assert "loader" not in again.text
    assert "0.9" in again.out


def test_the_status_command_tells_people_and_programs_the_same(dev: Project) -> None:
    """The run's id, and that it has succeeded."""
    (view,) = json.loads(dev.trainstack("status", "--json").out)
    assert (view["launch"]["phase"], view["done"]) == ("succeeded", 1.0)
    assert (view["admitted"], view["waits_because"]) == (False, ""), "its quota is free for others"
    assert view["launch"]["run_id"] in dev.trainstack("status").out


def test_a_cluster_that_has_all_is_found_so(dev: Project) -> None:
    """Of the environment that runs on it."""
    done = dev.trainstack("check", "--cluster")
    assert (done.code, "no findings" in done.err) == (0, True), done.text


def test_an_edit_of_a_priority_is_an_edit_of_nothing_else(dev: Project) -> None:
    """The description of a class that no run names, in the stack that has runs."""
    file = dev.root / f"Pulumi.{dev.stack}.yaml"
    before = file.read_text()
    low = {"name": "low", "value": 100, "description": "For the night."}
    dev.edit_stack(lambda config: config["trainstack:queues"].update(priorityClasses=[low]))
    try:
        assert dev.changes() == {"update": 1}
    finally:
        file.write_text(before)
