"""The end of a stack: in drain order, past nobody who still uses it, and with nothing left but what was listed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.audit import writes
from tests.cluster.inventory import Name, everything
from tests.cluster.lab import Config, bare, run_id, volume
from tests.cluster.project import Done, Project, eventually
from trainstack.dev.cluster.access import write_kubeconfig
from trainstack.dev.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

NAMESPACE = "leaving"
ACCOUNT = f"{NAMESPACE}-deployer"
USER = f"system:serviceaccount:default:{ACCOUNT}"
SELECTED = f"trainstack.dev/stack={NAMESPACE}"
KEPT = {("PersistentVolumeClaim", NAMESPACE, "kept"), ("Namespace", "<none>", NAMESPACE)}


def config(*runs: Config, **queue: Any) -> Config:
    """A stack of both layers beside the dev environment, whose operators serve it: a queue of 1 cpu, two volumes."""
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
    """A run that does not end by itself, with the volume that goes."""
    mounts = [{"volume": "gone", "mountPath": "/mnt/gone"}]
    requests = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    # A shell that waits for its child ends with the signal, and does not use its 30 s.
    words = ["sh", "-c", "trap 'exit 1' TERM; sleep 3600 & wait"]
    return bare(name, namespace=NAMESPACE, volumes=mounts, resources=requests, command=words)


LOCAL_QUEUE = f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: theirs, namespace: default}}
spec: {{clusterQueue: {NAMESPACE}}}
"""


@pytest.fixture
def leaving(dev: Project) -> Iterator[Project]:
    """The stack, up, with one run that trains and one that waits for its quota."""
    project = dev.other(NAMESPACE, config(run("trains", "800m"), run("waits", "800m")))
    done = project.up()
    assert done.code == 0, done.text
    yield project
    project.kubectl("delete", "localqueue", "theirs", "-n", "default", "--ignore-not-found")
    project.take_down()
    done = project.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=90s")
    assert done.code == 0, done.text


@pytest.fixture
def audited(leaving: Project, cluster: Cluster, tmp_path: Path) -> Iterator[Project]:
    """The same stack for an administrator whose requests are in the audit log: the cluster's own is not."""
    made = leaving.kubectl("create", "serviceaccount", ACCOUNT, "-n", "default")
    assert made.code == 0, made.text
    words = ("clusterrolebinding", ACCOUNT)
    made = leaving.kubectl("create", *words, "--clusterrole=cluster-admin", f"--serviceaccount=default:{ACCOUNT}")
    assert made.code == 0, made.text
    file = write_kubeconfig(cluster, f"default/{ACCOUNT}", tmp_path / "kubeconfig")
    project = replace(leaving, kubeconfig=file)
    made = project.kubectl("create", "configmap", ACCOUNT, "-n", "default")
    assert made.code == 0, made.text
    assert [uri.partition("?")[0] for uri in writes(cluster, USER)] == ["/api/v1/namespaces/default/configmaps"]
    yield project
    leaving.kubectl("delete", *words)
    leaving.kubectl("delete", f"serviceaccount/{ACCOUNT}", f"configmap/{ACCOUNT}", "-n", "default")


def test_a_change_without_a_confirmation_writes_nothing(audited: Project, cluster: Cluster) -> None:
    """Without a terminal it is a usage error; an active run is refused with a code of its own, and named."""
    runs = {run_id(body) for body in audited.select("jobs", SELECTED, NAMESPACE)}
    assert len(runs) == 2
    audited.edit_stack(lambda config: config["trainstack:environment"]["namespaces"].append({"name": "unwanted"}))
    before, state = writes(cluster, USER), audited.pulumi("stack", "export").out
    for words in (("up",), ("destroy",), ("destroy", "--keep-platform")):
        done = audited.trainstack(*words)
        assert (done.code, done.out) == (2, ""), done.text
        assert "there is no terminal; add --yes to confirm" in done.err
    shown = audited.trainstack("preview", "--refresh")
    assert shown.code == 0, shown.text
    assert "create: Namespace unwanted" in shown.out
    for words in (("destroy",), ("destroy", "--keep-platform")):
        done = audited.trainstack(*words, "--yes")
        assert done.code == 3, done.text
        said = " ".join(done.text.split())
        assert all(f"(run {each}) has been " in said for each in runs)
        command = " ".join(("trainstack destroy -s", NAMESPACE, *words[1:]))
        assert all(f"{command} --stop {each}" in said for each in runs)
    assert audited.pulumi("stack", "export").out == state
    audited.edit_stack(lambda config: config["trainstack:workloads"].update(runs=[]))
    for words in (("preview",), ("up", "--yes")):
        done = audited.trainstack(*words)
        assert done.code == 3, done.text
        assert "and this change would delete it" in done.text
    assert writes(cluster, USER) == before


def test_the_platform_is_kept_if_wanted(leaving: Project) -> None:
    """Runs and queues are deleted, and what the engine retains is named and kept, with its data."""
    runs = sorted(run_id(body) for body in leaving.select("jobs", SELECTED, NAMESPACE))
    stops = [word for each in runs for word in ("--stop", each)]
    done = leaving.trainstack("destroy", "--keep-platform", "--yes", *stops)
    assert done.code == 0, done.text
    assert marked(leaving) == KEPT
    assert f"kept: PersistentVolumeClaim {NAMESPACE}/kept: its data is kept" in done.out
    assert f"kept: Namespace {NAMESPACE}: " in done.out


def test_a_teardown_leaves_what_it_listed_and_stops_for_others(leaving: Project) -> None:
    """It names who is in the way, and active runs, before anything is deleted; then nothing else of ours is left."""
    # Which of the two comes first is nobody's choice.
    eventually("one trains", lambda: "Running" in phases(leaving).values())
    runs = {run_id(body) for body in leaving.select("jobs", SELECTED, NAMESPACE)}
    assert len(runs) == 2
    made = leaving.kubectl("apply", stdin=LOCAL_QUEUE)
    assert made.code == 0, made.text
    there = marked(leaving)

    ours = teardown(leaving, "--yes")
    assert ours.code == 3
    for done in (ours, plain(leaving)):
        assert done.code != 0
        said = " ".join(done.text.split())
        assert f"LocalQueue default/theirs, of another owner, points to ClusterQueue {NAMESPACE}" in said
        assert all(f"(run {each}) has been " in said for each in runs)
        assert "Traceback" not in done.text
        assert marked(leaving) == there
    gone = leaving.kubectl("delete", "localqueue", "theirs", "-n", "default", "--timeout=30s")
    assert gone.code == 0, gone.text

    stops = [word for each in sorted(runs) for word in ("--stop", each)]
    told = json.loads(teardown(leaving, "--json", *stops).out)
    assert told["refusals"] == []
    assert set(told["stays"]) == {f"PersistentVolumeClaim {NAMESPACE}/kept", f"Namespace {NAMESPACE}"}
    assert marked(leaving) == there

    done = teardown(leaving, "--yes", *stops)
    assert done.code == 0, done.text
    assert marked(leaving) == KEPT
    assert f"kept: PersistentVolumeClaim {NAMESPACE}/kept: its data is kept" in done.out
    again = teardown(leaving, "--yes")
    assert again.code == 0, again.text
    assert f"no object of {NAMESPACE} is deleted" in again.out


def teardown(project: Project, *words: str) -> Done:
    """Our command."""
    return project.trainstack("destroy", *words)


def plain(project: Project) -> Done:
    """The engine's own, which the hooks make the same."""
    return project.pulumi("destroy", "--yes", "--skip-preview", "--run-program")


def marked(project: Project) -> frozenset[Name]:
    """Everything in the cluster that bears the stack's mark."""
    return everything(project, SELECTED)


def phases(project: Project) -> dict[str, str]:
    """The phase of each workload's pod."""
    pods = project.select("pods", "trainstack.dev/workload", NAMESPACE)
    return {pod["metadata"]["labels"]["trainstack.dev/workload"]: pod["status"]["phase"] for pod in pods}
