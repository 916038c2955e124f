"""Objects in files of the project, and ConfigMaps of files."""

from pathlib import Path

from tests.unit.settings.loading.test_load import faults, make_project
from trainstack.settings.loading.load import load, load_with_places

OBJECTS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: "yes", empty: null}
---
# An empty document.
---
apiVersion: v1
kind: List
items:
  - apiVersion: batch/v1
    kind: CronJob
    metadata: {name: nightly}
    spec: {suspend: no, startingDeadlineSeconds: 010}
"""


def make(root: Path, section: str, **files: str) -> Path:
    """Return a project whose environment has this section `objects`, as flow YAML."""
    return make_project(root, f"trainstack:objects: {section}\n", **files)


def test_the_documents_of_a_file_follow_the_objects_of_the_environment(tmp_path: Path) -> None:
    """They are read as kubectl reads them: 010 is octal and `no` a boolean."""
    inline = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: reader}}"
    make(tmp_path, f"{{files: [all.yaml], manifests: [{inline}]}}")
    (tmp_path / "all.yaml").write_text(OBJECTS, encoding="utf-8")
    loaded = load_with_places(tmp_path, "test")
    account, config_map, cron_job = loaded.settings.objects.manifests
    assert account["kind"] == "ServiceAccount"
    assert config_map["data"] == {"mode": "yes"}
    assert cron_job["spec"] == {"suspend": False, "startingDeadlineSeconds": 8}
    assert str(loaded.place_of("objects.manifests[1].metadata.name")) == "all.yaml:3"
    assert str(loaded.place_of("objects.manifests[2].spec.suspend")) == "all.yaml:14"


def test_shared_objects_are_in_the_defaults(tmp_path: Path) -> None:
    make_project(tmp_path, "trainstack:environment: {}\n")
    with (tmp_path / "defaults.yaml").open("a", encoding="utf-8") as defaults:
        defaults.write("objects: {files: [all.yaml]}\n")
    (tmp_path / "all.yaml").write_text(OBJECTS, encoding="utf-8")
    assert [manifest["kind"] for manifest in load(tmp_path, "test").objects.manifests] == ["ConfigMap", "CronJob"]


def test_the_values_of_a_config_map_are_files(tmp_path: Path) -> None:
    """A file that is not text is binary data."""
    make(
        tmp_path,
        "{configMaps: [{name: train, namespace: research, labels: {a: b}, files: [conf/a.yaml, b=conf/b.bin]}]}",
    )
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/a.yaml").write_text("lr: 1\n", encoding="utf-8")
    (tmp_path / "conf/b.bin").write_bytes(b"\xff\x00")
    assert load(tmp_path, "test").objects.manifests == (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "train", "namespace": "research", "labels": {"a": "b"}},
            "data": {"a.yaml": "lr: 1\n"},
            "binaryData": {"b": "/wA="},
        },
    )


def test_a_missing_file_is_reported_where_it_is_named(tmp_path: Path) -> None:
    make(tmp_path, "{files: [all.yaml, empty.yaml], configMaps: [{name: train, files: [a.txt, ../b.txt]}]}")
    (tmp_path / "empty.yaml").write_text("---\n", encoding="utf-8")
    remedy = "create it, or correct the path, which begins in the folder of the project"
    found = faults(tmp_path)
    assert found[0] == f"Pulumi.test.yaml:2: objects.files[0]: the file does not exist (value all.yaml); {remedy}"
    assert f"objects.configMaps[train].files[0]: the file does not exist (value a.txt); {remedy}" in found[1]
    assert "objects.configMaps[train].files[1]: cannot be read: leads out of the project" in found[2]
    assert found[3] == "empty.yaml:1: the file has no objects; add one, or leave the file out"


def test_a_fault_of_an_object_has_the_place_in_its_file(tmp_path: Path) -> None:
    make(tmp_path, "{files: [all.yaml]}")
    (tmp_path / "all.yaml").write_text(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: token\n  uid: 1234\nstringData:\n  token: abcdef\n---\n- 1\n",
        encoding="utf-8",
    )
    found = faults(tmp_path)
    assert found[0] == (
        "all.yaml:5: objects.manifests[0].metadata.uid: is set by the cluster, not by a file (value 1234); remove it"
    )
    assert found[1].startswith("all.yaml:6: objects.manifests[0].stringData: the secret is in plain text; remove it")
    assert "section `secrets`" in found[1]
    assert found[2] == "all.yaml:9: objects.manifests[1]: must be a map (value a list); write a map"
    assert "abcdef" not in "".join(found)


def test_a_syntax_error_is_reported_alone(tmp_path: Path) -> None:
    make(tmp_path, "{files: [all.yaml], adopt: [x]}")
    (tmp_path / "all.yaml").write_text("a: [\n", encoding="utf-8")
    (found,) = faults(tmp_path)
    assert found.startswith("all.yaml:2: invalid YAML")
