"""`trainstack adopt` adds objects that were created by hand to an environment without changing them."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.project import Project, eventually
from trainstack.local_cluster.cluster import LocalCluster

pytestmark = pytest.mark.cluster

NAME = "handmade"
KUEUE = "kueue.x-k8s.io/v1beta2"
Manifest = dict[str, Any]
ADOPTED = {
    ("storageclass", "", NAME),
    ("persistentvolume", "", NAME),
    ("persistentvolumeclaim", NAME, "data"),
    ("persistentvolumeclaim", NAME, "models"),
    ("resourceflavor", "", NAME),
    ("cohort", "", NAME),
    ("clusterqueue", "", NAME),
    ("localqueue", NAME, "research"),
}
SKIPPED = {("clusterqueue", "", "handmade-odd"), ("localqueue", NAME, "odd"), ("resourceflavor", "", "handmade-odd")}


def make_handmade(folder: Path) -> list[Manifest]:
    """Return manifests as a user writes them, without the defaults of API server and Kueue."""

    def make(api: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Manifest:
        scope = {"namespace": namespace} if namespace else {}
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": {"by": "hand"}, **scope}, **rest}

    def claim(name: str, **spec: Any) -> Manifest:
        claim_spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1024Mi"}}, **spec}
        return make("v1", "PersistentVolumeClaim", name, NAME, spec=claim_spec)

    def cluster_queue(name: str, **spec: Any) -> Manifest:
        resources = [{"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": "1024Mi"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": resources}]}
        return make(KUEUE, "ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": [group], **spec})

    volume_spec = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "2Gi"}, "hostPath": {"path": str(folder)}}
    static_claim = claim("models", storageClassName=NAME, selector={"matchLabels": {"for": "models"}})
    volume = make("v1", "PersistentVolume", NAME, spec={**volume_spec, "storageClassName": NAME})
    volume["metadata"]["labels"]["for"] = "models"
    cohort = make(KUEUE, "Cohort", NAME)
    cohort["metadata"] |= {"annotations": {"team": "theirs"}, "finalizers": ["example.org/theirs"]}
    writer = {
        "name": "writer",
        "image": "busybox:1.35",
        "command": ["sh", "-c", "echo precious > /data/precious && echo model > /models/model"],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("data", "models")],
    }
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "models")]
    return [
        make("v1", "Namespace", NAME),
        make("storage.k8s.io/v1", "StorageClass", NAME, provisioner="kubernetes.io/no-provisioner"),
        volume,
        claim("data", storageClassName="shared"),
        static_claim,
        make(KUEUE, "ResourceFlavor", NAME),
        make(KUEUE, "ResourceFlavor", "handmade-odd"),
        cohort,
        cluster_queue(NAME, cohortName=NAME, preemption={"reclaimWithinCohort": "Any"}, fairSharing={"weight": 2}),
        cluster_queue("handmade-odd", namespaceSelector={"matchLabels": {"team": "odd"}}),
        make(KUEUE, "LocalQueue", "research", NAME, spec={"clusterQueue": NAME}),
        make(KUEUE, "LocalQueue", "odd", NAME, spec={"clusterQueue": "handmade-odd"}),
        make("v1", "Pod", "writer", NAME, spec={"restartPolicy": "Never", "containers": [writer], "volumes": volumes}),
    ]


@pytest.fixture
def static_folder(dev: Project, cluster: LocalCluster) -> Iterator[Path]:
    """Create the namespace and the objects by hand; yield the folder of the static volume."""
    folder = cluster.state / "volumes" / "static" / NAME
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    try:
        # The objects must not change anymore: a finished pod has bound both claims, and both queues are active.
        done = dev.kubectl(
            "create", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": make_handmade(folder)})
        )
        assert done.code == 0, done.text
        eventually("the pod has written", lambda: dev.get("pod", "writer", NAME)["status"]["phase"] == "Succeeded")
        for kind, namespace, name in ADOPTED | SKIPPED:
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


def read_object(project: Project, kind: str, namespace: str, name: str) -> Manifest:
    """Return an object without its resource version and managed fields."""
    body = copy.deepcopy(project.get(kind, name, namespace))
    for key in ("resourceVersion", "managedFields"):
        body["metadata"].pop(key, None)
    return body


def without_stack_metadata(body: Manifest) -> Manifest:
    """Return the object without the labels and annotations that `up` adds."""
    metadata = copy.deepcopy(body["metadata"])
    metadata["labels"] = {
        key: value
        for key, value in metadata["labels"].items()
        if key not in ("app.kubernetes.io/managed-by", "trainstack.dev/stack")
    }
    annotations = metadata.pop("annotations", {})
    rest = {key: value for key, value in annotations.items() if not key.startswith(("pulumi.com/", "trainstack.dev/"))}
    return {**body, "metadata": {**metadata, **({"annotations": rest} if rest else {})}}


def test_a_handmade_namespace_is_adopted_unchanged(dev: Project, static_folder: Path, cluster: LocalCluster) -> None:
    """The generated settings equal the objects; the preview has only creates, and `up` adds only its own metadata."""
    project = Project(dev.root, dev.kubeconfig, NAME, dict(dev.variables))
    before = {key: read_object(project, *key) for key in ADOPTED | SKIPPED}
    file = project.root / f"Pulumi.{NAME}.yaml"

    done = project.trainstack("adopt", NAME, "--dry-run", "--json")
    assert done.code == 0, done.text
    report = json.loads(done.out)
    assert {name.replace(" ", "/").lower() for name in report["taken"]} == {
        "/".join(filter(None, key)) for key in ADOPTED
    }
    assert report["left"]["ClusterQueue handmade-odd"] == (
        "cannot be expressed in the settings: spec.namespaceSelector.matchLabels.team"
    )
    assert "refers to cluster queue handmade-odd" in report["left"][f"LocalQueue {NAME}/odd"]
    assert any(note.startswith("Kueue v0.19.2 in namespace kueue-system") for note in report["notes"])
    assert not file.exists()

    done = project.trainstack("adopt", NAME)
    assert done.code == 0, done.text
    assert {key: read_object(project, *key) for key in ADOPTED | SKIPPED} == before
    storage = yaml.safe_load(file.read_text())["config"]["trainstack:storage"]
    assert [claim["name"] for claim in storage["volumes"]] == ["data", "models"]
    project.edit_stack(lambda config: config["trainstack:environment"].update(state="embedded"))
    project._use_environment()
    try:
        preview = project.pulumi("preview", "--json")
        assert preview.code == 0, preview.text
        assert set(json.loads(preview.out)["changeSummary"]) - {"read"} == {"create"}
        done = project.up()
        assert done.code == 0, done.text
        assert "exists and is adopted (adopt: true); it is not re-created" in done.text
        after = {key: read_object(project, *key) for key in ADOPTED | SKIPPED}
        for key in ADOPTED:
            assert after[key]["metadata"]["labels"]["trainstack.dev/stack"] == NAME
            assert without_stack_metadata(after[key]) == before[key]
        assert {key: after[key] for key in SKIPPED} == {key: before[key] for key in SKIPPED}
        assert project.changes("--refresh") == {}
        again = project.trainstack("adopt", NAME)
        assert (again.code, again.out) == (0, f"no object of namespace {NAME} can be adopted; no file was changed\n")

        assert (static_folder / "model").read_text() == "model\n"
        volume = before["persistentvolumeclaim", NAME, "data"]["spec"]["volumeName"]
        (data,) = (path for path in (cluster.state / "volumes").rglob("precious") if volume in str(path))
        assert data.read_text() == "precious\n"
    finally:
        # The foreign finalizer would block the deletion of the cohort.
        project.kubectl("patch", "cohort", NAME, "--type=merge", "--patch", '{"metadata": {"finalizers": []}}')
        project.take_down()
    claims = project.get("persistentvolumeclaims", "", NAME)["items"]
    assert {claim["metadata"]["name"] for claim in claims} == {"data", "models"}
