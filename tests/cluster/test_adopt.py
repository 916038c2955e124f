"""What people made by hand becomes part of an environment, and stays as it was."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.project import Project, eventually
from trainstack.dev.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

NAME = "handmade"
KUEUE = "kueue.x-k8s.io/v1beta2"
Manifest = dict[str, Any]
TAKEN = {
    ("storageclass", "", NAME),
    ("persistentvolume", "", NAME),
    ("persistentvolumeclaim", NAME, "data"),
    ("persistentvolumeclaim", NAME, "models"),
    ("resourceflavor", "", NAME),
    ("cohort", "", NAME),
    ("clusterqueue", "", NAME),
    ("localqueue", NAME, "research"),
}
LEFT = {("clusterqueue", "", "handmade-odd"), ("localqueue", NAME, "odd"), ("resourceflavor", "", "handmade-odd")}


def handmade(folder: Path) -> list[Manifest]:
    """As somebody writes them: without what the API server and Kueue fill in."""

    def made(api: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Manifest:
        place = {"namespace": namespace} if namespace else {}
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": {"by": "hand"}, **place}, **rest}

    def claim(name: str, **spec: Any) -> Manifest:
        wanted = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1024Mi"}}, **spec}
        return made("v1", "PersistentVolumeClaim", name, NAME, spec=wanted)

    def cluster_queue(name: str, **spec: Any) -> Manifest:
        resources = [{"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": "1024Mi"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": resources}]}
        return made(KUEUE, "ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": [group], **spec})

    here = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "2Gi"}, "hostPath": {"path": str(folder)}}
    claim_of_static = claim("models", storageClassName=NAME, selector={"matchLabels": {"for": "models"}})
    volume = made("v1", "PersistentVolume", NAME, spec={**here, "storageClassName": NAME})
    volume["metadata"]["labels"]["for"] = "models"
    cohort = made(KUEUE, "Cohort", NAME)
    cohort["metadata"] |= {"annotations": {"team": "theirs"}, "finalizers": ["example.org/theirs"]}
    writer = {
        "name": "writer",
        "image": "busybox:1.35",
        "command": ["sh", "-c", "echo precious > /data/precious && echo model > /models/model"],
        "volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in ("data", "models")],
    }
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in ("data", "models")]
    return [
        made("v1", "Namespace", NAME),
        made("storage.k8s.io/v1", "StorageClass", NAME, provisioner="kubernetes.io/no-provisioner"),
        volume,
        claim("data", storageClassName="shared"),
        claim_of_static,
        made(KUEUE, "ResourceFlavor", NAME),
        made(KUEUE, "ResourceFlavor", "handmade-odd"),
        cohort,
        cluster_queue(NAME, cohortName=NAME, preemption={"reclaimWithinCohort": "Any"}, fairSharing={"weight": 2}),
        cluster_queue("handmade-odd", namespaceSelector={"matchLabels": {"team": "odd"}}),
        made(KUEUE, "LocalQueue", "research", NAME, spec={"clusterQueue": NAME}),
        made(KUEUE, "LocalQueue", "odd", NAME, spec={"clusterQueue": "handmade-odd"}),
        made("v1", "Pod", "writer", NAME, spec={"restartPolicy": "Never", "containers": [writer], "volumes": volumes}),
    ]


@pytest.fixture
def made_by_hand(dev: Project, cluster: Cluster) -> Iterator[Path]:
    """The namespace and all that it stands on; the folder of its static volume."""
    folder = cluster.state / "volumes" / "static" / NAME
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    try:
        # Quiet before it is looked at: both claims bound by a pod that has ended, both queues judged.
        done = dev.kubectl("create", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": handmade(folder)}))
        assert done.code == 0, done.text
        eventually("the pod has written", lambda: dev.get("pod", "writer", NAME)["status"]["phase"] == "Succeeded")
        for kind, namespace, name in TAKEN | LEFT:
            if kind.endswith("queue"):
                words = ("--for=condition=Active", f"{kind}/{name}", *(["-n", namespace] if namespace else []))
                done = dev.kubectl("wait", *words, "--timeout=30s")
                assert done.code == 0, done.text
        yield folder
    finally:
        dev.kubectl("patch", "cohort", NAME, "--type=merge", "--patch", '{"metadata": {"finalizers": []}}')
        dev.kubectl("delete", "namespace", NAME, "--timeout=60s", "--ignore-not-found")
        kinds = "clusterqueue,resourceflavor,cohort,storageclass,persistentvolume"
        dev.kubectl("delete", kinds, NAME, "handmade-odd", "--timeout=60s", "--ignore-not-found")
        shutil.rmtree(folder)


def look(project: Project, kind: str, namespace: str, name: str) -> Manifest:
    """An object as it is to stay: all of it but its bookkeeping."""
    body = copy.deepcopy(project.get(kind, name, namespace))
    for key in ("resourceVersion", "managedFields"):
        body["metadata"].pop(key, None)
    return body


def without_our_mark(body: Manifest) -> Manifest:
    """The same without the labels and annotations that are ours."""
    metadata = copy.deepcopy(body["metadata"])
    metadata["labels"] = {
        key: each
        for key, each in metadata["labels"].items()
        if key not in ("app.kubernetes.io/managed-by", "trainstack.dev/stack")
    }
    held = metadata.pop("annotations", {})
    theirs = {key: each for key, each in held.items() if not key.startswith(("pulumi.com/", "trainstack.dev/"))}
    return {**body, "metadata": {**metadata, **({"annotations": theirs} if theirs else {})}}


def test_a_namespace_made_by_hand_is_taken_over_as_it_is(dev: Project, made_by_hand: Path, cluster: Cluster) -> None:
    """Settings that say it exactly, a preview without deletes and replaces, an `up` that adds our mark and no more."""
    project = Project(dev.root, dev.kubeconfig, NAME, dict(dev.variables))
    before = {key: look(project, *key) for key in TAKEN | LEFT}
    file = project.root / f"Pulumi.{NAME}.yaml"

    done = project.trainstack("adopt", NAME, "--dry-run", "--json")
    assert done.code == 0, done.text
    told = json.loads(done.out)
    assert {each.replace(" ", "/").lower() for each in told["taken"]} == {"/".join(filter(None, key)) for key in TAKEN}
    assert told["left"]["ClusterQueue handmade-odd"] == (
        "cannot be expressed in the settings: spec.namespaceSelector.matchLabels.team"
    )
    assert "refers to cluster queue handmade-odd" in told["left"][f"LocalQueue {NAME}/odd"]
    assert any(note.startswith("Kueue v0.15.2 in namespace kueue-system") for note in told["notes"])
    assert not file.exists()

    done = project.trainstack("adopt", NAME)
    assert done.code == 0, done.text
    assert {key: look(project, *key) for key in TAKEN | LEFT} == before
    storage = yaml.safe_load(file.read_text())["config"]["trainstack:storage"]
    assert [each["name"] for each in storage["volumes"]] == ["data", "models"]
    project.edit_stack(lambda config: config["trainstack:environment"].update(state="embedded"))
    project._use_environment()
    try:
        planned = project.pulumi("preview", "--json")
        assert planned.code == 0, planned.text
        assert set(json.loads(planned.out)["changeSummary"]) - {"read"} == {"create"}
        done = project.up()
        assert done.code == 0, done.text
        assert "exists and is adopted (adopt: true); it is not re-created" in done.text
        after = {key: look(project, *key) for key in TAKEN | LEFT}
        for key in TAKEN:
            assert after[key]["metadata"]["labels"]["trainstack.dev/stack"] == NAME
            assert without_our_mark(after[key]) == before[key]
        assert {key: after[key] for key in LEFT} == {key: before[key] for key in LEFT}
        assert project.changes("--refresh") == {}
        again = project.trainstack("adopt", NAME)
        assert (again.code, again.out) == (0, f"no object of namespace {NAME} can be adopted; no file was changed\n")

        assert (made_by_hand / "model").read_text() == "model\n"
        volume = before["persistentvolumeclaim", NAME, "data"]["spec"]["volumeName"]
        (data,) = (each for each in (cluster.state / "volumes").rglob("precious") if volume in str(each))
        assert data.read_text() == "precious\n"
    finally:
        # Theirs goes first: our flavor and queue refuse to go while somebody uses them.
        project.kubectl("patch", "cohort", NAME, "--type=merge", "--patch", '{"metadata": {"finalizers": []}}')
        project.take_down()
    claims = project.get("persistentvolumeclaims", "", NAME)["items"]
    assert {each["metadata"]["name"] for each in claims} == {"data", "models"}
