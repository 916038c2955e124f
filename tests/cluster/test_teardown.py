"""The teardown of a stack: in drain order, refused while others use its objects, without leftovers."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.audit import writes
from tests.cluster.inventory import ObjectKey, all_objects
from tests.cluster.lab import Config, run_id, unmanaged_run, volume
from tests.cluster.project import CommandResult, Project, eventually
from tests.permissions import permit_all
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.tenant_kubeconfigs import write_kubeconfig

pytestmark = pytest.mark.cluster

NAMESPACE = "leaving"
ACCOUNT = f"{NAMESPACE}-deployer"
USER = f"system:serviceaccount:default:{ACCOUNT}"
SELECTED = f"trainstack.dev/stack={NAMESPACE}"
KEPT = {("PersistentVolumeClaim", NAMESPACE, "kept"), ("Namespace", "<none>", NAMESPACE)}


def config(*runs: Config, **queue: Any) -> Config:
    """Return a stack of both layers that uses the dev environment's operators: a queue of 1 cpu, and two volumes."""
    quotas = [{"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": "1Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": NAMESPACE, "resources": quotas}]}
    return {
        "trainstack:environment": {"namespaces": [{"name": NAMESPACE}], "existing": {"storageClasses": ["shared"]}},
        "trainstack:queues": {
            "flavors": [{"name": NAMESPACE}],
            "cohorts": [{"name": NAMESPACE}],
            "clusterQueues": [{"name": NAMESPACE, "cohort": NAMESPACE, "resourceGroups": [group], **queue}],
            "localQueues": [{"name": "open", "namespace": NAMESPACE, "clusterQueue": NAMESPACE}],
            "priorityClasses": None,
        },
        "trainstack:storage": {
            "volumes": [volume("gone", NAMESPACE), {**volume("kept", NAMESPACE), "retain": True}],
        },
        "trainstack:workloads": {"runs": list(runs)},
    }


def run(name: str, cpu: str) -> Config:
    """Return a run that ends only if it is stopped, with the volume that is deleted."""
    mounts = [{"volume": "gone", "mountPath": "/mnt/gone"}]
    requests = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    # A shell that waits for its child ends on the signal, without the grace period of 30 s.
    command = ["sh", "-c", "trap 'exit 1' TERM; sleep 3600 & wait"]
    return unmanaged_run(name, namespace=NAMESPACE, volumes=mounts, resources=requests, command=command)


RUNS = (run("trains", "800m"), run("waits", "800m"))
LOCAL_QUEUE = f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: theirs, namespace: default}}
spec: {{clusterQueue: {NAMESPACE}}}
"""


@pytest.fixture
def leaving(dev: Project) -> Iterator[Project]:
    """Yield the stack, deployed, with one running run and one that waits for its quota."""
    project = dev.other_stack(NAMESPACE, config(*RUNS))
    done = project.up()
    assert done.code == 0, done.text
    yield project
    project.kubectl("delete", "localqueue", "theirs", "-n", "default", "--ignore-not-found")
    project.take_down()
    done = project.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=90s")
    assert done.code == 0, done.text


@pytest.fixture
def audited(leaving: Project, cluster: LocalCluster, tmp_path: Path) -> Iterator[Project]:
    """Yield the stack for an administrator whose requests the audit log has; it omits the cluster's own user."""
    done = leaving.kubectl("create", "serviceaccount", ACCOUNT, "-n", "default")
    assert done.code == 0, done.text
    words = ("clusterrolebinding", ACCOUNT)
    done = leaving.kubectl("create", *words, "--clusterrole=cluster-admin", f"--serviceaccount=default:{ACCOUNT}")
    assert done.code == 0, done.text
    file = write_kubeconfig(cluster, f"default/{ACCOUNT}", tmp_path / "kubeconfig")
    project = replace(leaving, kubeconfig=file)
    done = project.kubectl("create", "configmap", ACCOUNT, "-n", "default")
    assert done.code == 0, done.text
    assert [uri.partition("?")[0] for uri in writes(cluster, USER)] == ["/api/v1/namespaces/default/configmaps"]
    yield project
    leaving.kubectl("delete", *words)
    leaving.kubectl("delete", f"serviceaccount/{ACCOUNT}", f"configmap/{ACCOUNT}", "-n", "default")


def test_an_unconfirmed_change_writes_nothing(audited: Project, cluster: LocalCluster) -> None:
    """Without a terminal, it is a usage error.

    A change that would delete active runs is refused with another exit code, and names them.
    """
    runs = {run_id(body) for body in audited.select("jobs", SELECTED, NAMESPACE)}
    assert len(runs) == 2
    audited.edit_stack(lambda config: config["trainstack:environment"]["namespaces"].append({"name": "unwanted"}))
    before, state = writes(cluster, USER), audited.pulumi("stack", "export").out
    for words in (("up",), ("destroy",), ("destroy", "--keep-platform")):
        done = audited.trainstack(*words)
        assert (done.code, done.out) == (2, ""), done.text
        assert "there is no terminal; add --yes to confirm" in done.err
    preview = audited.trainstack("preview", "--refresh")
    assert preview.code == 0, preview.text
    assert "create: Namespace unwanted" in preview.out
    for words in (("destroy",), ("destroy", "--keep-platform")):
        done = audited.trainstack(*words, "--yes")
        assert done.code == 3, done.text
        output = " ".join(done.text.split())
        assert all(f"(run {active}) has been " in output for active in runs)
        command = " ".join(("trainstack destroy -s", NAMESPACE, *words[1:]))
        assert all(f"{command} --stop {active}" in output for active in runs)
    assert audited.pulumi("stack", "export").out == state
    audited.edit_stack(lambda config: config["trainstack:workloads"].update(runs=[]))
    for words in (("preview",), ("up", "--yes")):
        done = audited.trainstack(*words)
        assert done.code == 3, done.text
        assert "and this change would delete it" in done.text
    assert writes(cluster, USER) == before


def test_keep_platform_keeps_retained_objects(leaving: Project) -> None:
    """Runs and queues are deleted; retained objects are kept with their data, and named."""
    runs = sorted(run_id(body) for body in leaving.select("jobs", SELECTED, NAMESPACE))
    stops = [word for active in runs for word in ("--stop", active)]
    done = leaving.trainstack("destroy", "--keep-platform", "--yes", *stops)
    assert done.code == 0, done.text
    assert stack_objects(leaving) == KEPT
    assert f"kept: PersistentVolumeClaim {NAMESPACE}/kept: its data is kept" in done.out
    assert f"kept: Namespace {NAMESPACE}: " in done.out


def test_a_teardown_is_refused_for_other_users_and_keeps_listed_objects(leaving: Project) -> None:
    """The refusal names other users and active runs, and nothing is deleted.

    Once these are deleted or named, only the listed objects are left.
    """
    # Kueue may admit either run first.
    eventually("one trains", lambda: "Running" in phases(leaving).values())
    runs = {run_id(body) for body in leaving.select("jobs", SELECTED, NAMESPACE)}
    assert len(runs) == 2
    applied = leaving.kubectl("apply", stdin=LOCAL_QUEUE)
    assert applied.code == 0, applied.text
    before = stack_objects(leaving)

    refused = teardown(leaving, "--yes")
    assert refused.code == 3
    for done in (refused, engine_destroy(leaving)):
        assert done.code != 0
        output = " ".join(done.text.split())
        assert f"LocalQueue default/theirs, of another owner, points to ClusterQueue {NAMESPACE}" in output
        assert all(f"(run {active}) has been " in output for active in runs)
        assert "Traceback" not in done.text
        assert stack_objects(leaving) == before
    deleted = leaving.kubectl("delete", "localqueue", "theirs", "-n", "default", "--timeout=30s")
    assert deleted.code == 0, deleted.text

    stops = [word for active in sorted(runs) for word in ("--stop", active)]
    plan = json.loads(teardown(leaving, "--json", *stops).out)
    assert plan["refusals"] == []
    assert set(plan["stays"]) == {f"PersistentVolumeClaim {NAMESPACE}/kept", f"Namespace {NAMESPACE}"}
    assert stack_objects(leaving) == before

    done = teardown(leaving, "--yes", *stops)
    assert done.code == 0, done.text
    assert stack_objects(leaving) == KEPT
    assert f"kept: PersistentVolumeClaim {NAMESPACE}/kept: its data is kept" in done.out
    again = teardown(leaving, "--yes")
    assert again.code == 0, again.text
    assert f"no object of {NAMESPACE} is deleted" in again.out


def test_active_runs_are_stopped_only_by_their_names(leaving: Project) -> None:
    """No edit of their queues or namespace stops them, no option of the engine, and no plan of an earlier state."""
    eventually("one trains", lambda: "Running" in phases(leaving).values())
    first, second = leaving.select("jobs", SELECTED, NAMESPACE)
    applied = leaving.kubectl("create", stdin=json.dumps(make_foreign_job()))
    assert applied.code == 0, applied.text
    eventually(
        "the other owner's job is admitted", lambda: not leaving.get("job", "theirs", NAMESPACE)["spec"]["suspend"]
    )
    before, uids = stack_objects(leaving), uids_of_jobs(leaving)

    leaving.write_stack(NAMESPACE, config(*RUNS, stopPolicy="HoldAndDrain"))
    for done in (leaving.pulumi("preview"), leaving.up()):
        assert_refused(done, "stopPolicy HoldAndDrain, which would evict Job", f"stop: [{NAMESPACE}/theirs]")
    leaving.write_stack(NAMESPACE, config(*RUNS, stopPolicy="Hold"))
    assert leaving.pulumi("preview").code == 0

    leaving.write_stack(NAMESPACE, config())
    stops = sorted(run_id(body) for body in (first, second))
    leaving.edit_stack(lambda edited: edited.update({"trainstack:queues": {"priorityClasses": None}}))
    leaving.edit_stack(lambda edited: edited["trainstack:workloads"].update({"stop": stops}))
    edit_namespace(leaving, {"network": {"isolated": False}})
    assert_refused(
        leaving.up(),
        f"Job {NAMESPACE}/theirs, of another owner, holds quota in LocalQueue {NAMESPACE}/open",
        "is isolated by NetworkPolicy trainstack-",
    )

    leaving.write_stack(NAMESPACE, config(*RUNS))
    urn = next(
        item["urn"] for item in leaving.resources() if item.get("id") == f"{NAMESPACE}/{first['metadata']['name']}"
    )
    for done in (leaving.pulumi("preview", "--replace", urn), leaving.up("--replace", urn)):
        assert_refused(done, "belongs to a launch of run", "would launch the run a second time")

    # The second run was launched after the plan.
    earlier = [item for item in leaving.resources() if run_id(second) not in str(item.get("id"))]
    with permit_all(leaving.root, NAMESPACE, earlier) as variables:
        words = ("destroy", "--yes", "--skip-preview", "--run-program")
        done = leaving.pulumi(*words, environment=variables)
    assert_refused(done, "the stack has changed since its plan was shown", f"(run {run_id(second)}) has been ")
    assert stack_objects(leaving) == before
    assert uids_of_jobs(leaving) == uids
    assert leaving.kubectl("delete", "job", "theirs", "-n", NAMESPACE, "--timeout=60s").code == 0


def make_foreign_job() -> Config:
    """Return a small Job of another owner in the stack's queue, which ends only if it is stopped."""
    (template,) = [run("theirs", "50m")]
    pod = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "main",
                "image": template["image"]["name"],
                "command": template["command"],
                "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
    metadata = {"name": "theirs", "namespace": NAMESPACE, "labels": {"kueue.x-k8s.io/queue-name": "open"}}
    spec = {"suspend": True, "backoffLimit": 0, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def uids_of_jobs(project: Project) -> set[str]:
    """Return the UIDs of the stack's Jobs."""
    return {body["metadata"]["uid"] for body in project.select("jobs", SELECTED, NAMESPACE)}


def edit_namespace(project: Project, changes: Config) -> None:
    """Change the settings of the stack's namespace."""
    project.edit_stack(lambda edited: edited["trainstack:environment"]["namespaces"][0].update(changes))


def assert_refused(done: CommandResult, *words: str) -> None:
    """Assert that the command failed with these words in its output and without a traceback."""
    assert done.code != 0, done.text
    assert "Traceback" not in done.text
    text = " ".join(done.text.split())
    assert all(word in text for word in words), done.text


def teardown(project: Project, *words: str) -> CommandResult:
    """Run `trainstack destroy`."""
    return project.trainstack("destroy", *words)


def engine_destroy(project: Project) -> CommandResult:
    """Run `pulumi destroy`, which hooks make equivalent to `trainstack destroy`."""
    return project.pulumi("destroy", "--yes", "--skip-preview", "--run-program")


def stack_objects(project: Project) -> frozenset[ObjectKey]:
    """Return all objects in the cluster with the stack's label."""
    return all_objects(project, SELECTED)


def phases(project: Project) -> dict[str, str]:
    """Return the phase of each workload's pod."""
    pods = project.select("pods", "trainstack.dev/workload", NAMESPACE)
    return {pod["metadata"]["labels"]["trainstack.dev/workload"]: pod["status"]["phase"] for pod in pods}
