"""The objects of section `objects` as they are declared."""

from typing import Any

from tests.unit.make import make_settings
from trainstack.objects.labels import ownership_labels
from trainstack.platform.other_objects import manifests, uses_others
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Existing
from trainstack.settings.sections.objects import Objects

LABELS = {**ownership_labels(make_settings().stack), "trainstack.dev/section": "objects"}


def declare(*objects: dict[str, Any], adopt: tuple[str, ...] = (), **sections: Any) -> Settings:
    """Return an environment with these objects."""
    return make_settings(objects=Objects(manifests=objects, adopt=adopt), **sections)


def test_labels_and_the_only_namespace_are_added() -> None:
    """Everything else stays."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "master", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"]},
        "spec": {"clusterIP": "None", "ports": [{"port": 23456}]},
    }
    assert manifests(declare(service)) == (
        {
            **service,
            "metadata": {
                "name": "master",
                "namespace": "research",
                "labels": {"a": "b", **LABELS},
                "annotations": {"c": "d", "pulumi.com/skipAwait": "true"},
                "finalizers": ["e/f"],
            },
        },
    )


def test_an_object_without_namespace_stays_without_one() -> None:
    """A cluster-scoped one, one of an unknown kind, and one in an environment of several namespaces."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "a", "namespace": "b"},
    }
    issuer = {"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "a"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    several = Environment(existing=Existing(namespaces=("research", "other")))
    built = (*manifests(declare(role, issuer)), *manifests(declare(account, environment=several)))
    assert [manifest["metadata"] for manifest in built] == [{"name": "a", "labels": LABELS}] * 3


def test_adopted_fields_override_those_of_others() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    (manifest,) = manifests(declare(account, adopt=("ServiceAccount research/default",)))
    assert manifest["metadata"]["annotations"] == {"pulumi.com/patchForce": "true"}


def test_the_settings_are_not_changed() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    settings = declare(account)
    manifests(settings)
    assert settings.objects.manifests == (account,)


def test_what_refers_to_other_objects_is_created_after_them() -> None:
    kinds = ("ConfigMap", "Role", "RoleBinding", "CronJob", "PersistentVolume", "PersistentVolumeClaim")
    assert [kind for kind in kinds if uses_others({"kind": kind})] == [
        "RoleBinding",
        "CronJob",
        "PersistentVolumeClaim",
    ]
