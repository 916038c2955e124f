"""The dev environment, from its first `up` to the fetched model, as a new user runs it."""

import json
from pathlib import Path

import pytest

from tests.cluster.image_runs import run_in_image
from tests.cluster.lab import true_conditions
from tests.cluster.project import ROOT, Project, eventually
from trainstack.objects.labels import RELEASE
from trainstack.runs.images.content_tags import base_reference

pytestmark = pytest.mark.cluster


def record(dev: Project) -> Path:
    """Return the only fetched run of the dev environment; other tests fetch runs with other names."""
    (folder,) = (dev.root / "results").glob("digits-*")
    return folder


def test_make_with_a_kubeconfig_starts_no_local_cluster(tmp_path: Path) -> None:
    """`make up KUBECONFIG=<file>` builds nothing itself, and needs no privileges on this machine."""
    words = ["make", "--dry-run", "-C", str(ROOT), "up", "KUBECONFIG=some/file"]
    done = Project(ROOT, tmp_path, "dev").run(words)
    assert done.code == 0, done.text
    assert "trainstack up -s dev --yes" in done.out
    assert "trainstack dev " not in done.out


def test_up_with_a_kubeconfig_starts_no_local_cluster(dev: Project) -> None:
    """The run trained on the cluster of KUBECONFIG."""
    assert record(dev).is_dir()
    assert not (dev.root / ".trainstack" / "cluster").exists()


def test_kueue_admitted_the_job_and_the_operator_ran_it(dev: Project) -> None:
    """The job is complete, and Kueue had admitted its Workload, whose quota is free again."""
    (job,) = dev.get("trainjobs", namespace="research")["items"]
    assert "Complete" in true_conditions(job)
    workloads = dev.get("workloads", namespace="research")["items"]
    (workload,) = (body for body in workloads if body["metadata"]["ownerReferences"][0]["kind"] == "TrainJob")
    assert {"QuotaReserved", "Admitted", "Finished"} <= true_conditions(workload)
    queue_name = workload["status"]["admission"]["clusterQueue"]

    def is_unused() -> bool:
        status = dev.get("clusterqueues", queue_name)["status"]
        return (status["admittedWorkloads"], status["reservingWorkloads"]) == (0, 0)

    eventually("the quota is free", is_unused)
    events = dev.get("events", namespace="research")["items"]
    assert "Admitted" in {
        event["reason"] for event in events if event["involvedObject"]["name"] == workload["metadata"]["name"]
    }
    assert [pod_set["count"] for pod_set in workload["spec"]["podSets"]] == [3]


def test_three_processes_trained_one_accurate_model(dev: Project) -> None:
    """The log of node 0 has world size 3, the test accuracy is at least 0.95, and the output of `up` has it."""
    (log,) = (record(dev) / "logs").glob("rank-0.*.log")
    assert "world size 3" in log.read_text()
    last = json.loads((record(dev) / "result" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["test_accuracy"] >= 0.95
    assert f"{last['test_accuracy']:.4f}" in (dev.root / "up.log").read_text()


def test_the_fetched_model_has_the_same_accuracy_outside_the_cluster(dev: Project, tmp_path: Path) -> None:
    """The evaluation uses the run's data and the base image, which has all requirements of the model."""
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


def test_a_second_up_repairs_definitions_and_changes_nothing_else(dev: Project) -> None:
    """It fetches nothing either.

    `--refresh` reads all live objects except the definitions; a preview without it reports changed definitions.
    """
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


def test_status_has_the_same_run_for_users_and_programs(dev: Project) -> None:
    """It has the run's id and its success."""
    (view,) = json.loads(dev.trainstack("status", "--json").out)
    assert (view["launch"]["phase"], view["done"]) == ("succeeded", 1.0)
    assert (view["admitted"], view["waits_because"]) == (False, ""), "its quota is free for others"
    assert view["launch"]["run_id"] in dev.trainstack("status").out


def test_check_has_no_findings_for_the_running_environment(dev: Project) -> None:
    done = dev.trainstack("check", "--cluster")
    assert (done.code, "no findings" in done.err) == (0, True), done.text


def test_an_edit_of_a_priority_class_updates_only_the_class(dev: Project) -> None:
    """The edit is of its description, and no run uses the class."""
    file = dev.root / f"Pulumi.{dev.stack}.yaml"
    before = file.read_text()
    low = {"name": "low", "value": 100, "description": "For the night."}
    dev.edit_stack(lambda config: config["trainstack:queues"].update(priorityClasses=[low]))
    try:
        assert dev.changes() == {"update": 1}
    finally:
        file.write_text(before)
