"""Objects of section `objects`: what no API server would take, and what no file should have."""

from typing import Any

import pytest
from pydantic import ValidationError

from trainstack.settings.sections.objects import FileConfigMap, Objects, parse_object_names, split_entry

MANIFEST: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}


def faults(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the path and the message of each fault of an object."""
    with pytest.raises(ValidationError) as error:
        Objects(manifests=(manifest,))
    return [(".".join(map(str, fault["loc"][2:])), fault["msg"]) for fault in error.value.errors()]


def test_an_object_reaches_the_settings_as_it_is_written() -> None:
    manifest = {
        **MANIFEST,
        "metadata": {"name": "system:a", "finalizers": ["x"]},
        "data": {"a": "b"},
        "immutable": True,
    }
    assert Objects(manifests=(manifest,)).manifests == (manifest,)


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        (
            {"apiVersion": None},
            "",
            "has no apiVersion, as an object of Kubernetes has; add apiVersion, such as v1 or batch/v1",
        ),
        ({"apiVersion": "apps/"}, "apiVersion", "is not a group and a version; write one such as v1 or batch/v1"),
        ({"kind": None}, "", "has no kind, as an object of Kubernetes has; add kind, such as ConfigMap"),
        ({"kind": "configmap"}, "kind", "is not a kind; write one such as ConfigMap"),
        ({"kind": "ConfigMaps"}, "kind", "is not a kind of v1; did you mean ConfigMap?"),
        ({"metadata": None}, "", "has no metadata; add metadata with a name"),
        ({"metadata": {}}, "metadata", "has no name; add name"),
        (
            {"metadata": {"name": 1}},
            "metadata.name",
            "is not a name of an object; write a name, in quotes if it is a number",
        ),
        (
            {"metadata": {"name": "a/b"}},
            "metadata.name",
            "is not a name of an object; write a name, in quotes if it is a number",
        ),
        (
            {"metadata": {"generateName": "a-"}},
            "metadata.generateName",
            "would give the object another name at every change; set metadata.name instead",
        ),
        (
            {"metadata": {"name": "a", "namespace": "A"}},
            "metadata.namespace",
            "is not a name of a namespace; write its name, in quotes if a number",
        ),
        ({"metadata": {"name": "a", "labels": {"b": True}}}, "metadata.labels.b", "must be a string; put it in quotes"),
        ({"metadata": {"name": "a", "labels": ["b"]}}, "metadata.labels", "must be a map; write a map"),
        ({"data": "a"}, "data", "must be a map; write a map"),
        ({"status": {}}, "status", "is set by the cluster; remove it"),
        (
            {"metadata": {"name": "a", "uid": "1"}},
            "metadata.uid",
            "is set by the cluster, not by a file; remove it",
        ),
        (
            {"metadata": {"name": "a", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}},
            "metadata.annotations",
            "contains kubectl.kubernetes.io/last-applied-configuration, which is kubectl's; remove it",
        ),
    ],
)
def test_a_fault_has_a_path_and_a_remedy(changes: dict[str, Any], path: str, message: str) -> None:
    manifest = {key: value for key, value in {**MANIFEST, **changes}.items() if value is not None}
    assert faults(manifest) == [(path, message)]


def test_the_fields_that_trainstack_reads_are_checked() -> None:
    """The API server validates the others."""
    claim = {**MANIFEST, "kind": "PersistentVolumeClaim"}
    assert faults(claim) == [
        ("spec.accessModes", "is missing; add spec.accessModes"),
        ("spec.resources.requests.storage", "is missing; add spec.resources.requests.storage"),
    ]
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1 GB"}}}
    ((path, message),) = faults({**claim, "spec": spec})
    assert path == "spec.resources.requests.storage"
    assert "1 GB" in message
    binding = {**MANIFEST, "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    assert [path for path, _ in faults(binding)] == ["roleRef.kind", "roleRef.name"]


@pytest.mark.parametrize("key", ["data", "stringData"])
def test_a_secret_in_plain_text_is_refused_without_its_value(key: str) -> None:
    secret = {**MANIFEST, "kind": "Secret", key: {"token": "abcdef"}}
    assert faults(secret) == [(key, "the secret is in plain text")]


def test_a_secret_without_values_is_an_object() -> None:
    """A controller writes the token of an account into it."""
    secret = {**MANIFEST, "kind": "Secret", "type": "kubernetes.io/service-account-token"}
    assert Objects(manifests=(secret,)).manifests == (secret,)


def test_all_faults_are_reported_at_once() -> None:
    assert [path for path, _ in faults({**MANIFEST, "metadata": {"name": "a", "uid": "1"}, "status": {}})] == [
        "status",
        "metadata.uid",
    ]


def test_files_of_a_config_map_have_unique_keys() -> None:
    assert split_entry("configs/a.yaml") == ("a.yaml", "configs/a.yaml")
    assert split_entry("b.yaml=configs/a.yaml") == ("b.yaml", "configs/a.yaml")
    with pytest.raises(ValidationError, match=r"a\.yaml is listed more than once; list it once"):
        FileConfigMap(name="settings", files=("one/a.yaml", "two/a.yaml"))


def test_the_name_of_an_object_has_its_kind_and_namespace() -> None:
    assert parse_object_names(["ClusterRole system:x", "ConfigMap research/a"]) == {
        ("ClusterRole", None, "system:x"),
        ("ConfigMap", "research", "a"),
    }
