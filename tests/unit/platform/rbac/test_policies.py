"""Admission policies that complement roles."""

from trainstack.platform import namespaces, probes, storage
from trainstack.platform.rbac.policies import admission_policies, restricted_objects
from trainstack.settings.sections.environment import Namespace
from trainstack.settings.sections.storage import PersistentVolume

VOLUME = PersistentVolume(
    name="data", storage_class="manual", size="1Gi", access_modes=("ReadWriteOnce",), host_path='/mnt/a"b'
)


def test_an_environment_without_such_objects_has_no_policy() -> None:
    """Only declared objects are protected."""
    assert admission_policies("lab", (), ()) == []


def test_each_policy_holds_the_objects_that_the_environment_declares() -> None:
    """The objects are listed by name; each policy has a binding that denies."""
    declared = [namespaces.namespace(Namespace(name="research"), "lab"), storage.persistent_volume(VOLUME, "lab")]
    objects = admission_policies("lab", declared, [("kueue.x-k8s.io", "resourceflavors")])
    names = ["trainstack-lab-pod-security", "trainstack-lab-host-paths", "trainstack-lab-probes"]
    assert [obj["metadata"]["name"] for obj in objects] == [name for name in names for _ in ("policy", "binding")]
    assert restricted_objects(objects) == {
        ("", "namespaces", "research"),
        ("", "persistentvolumes", "data"),
        ("kueue.x-k8s.io", "resourceflavors", probes.NAME),
    }
    bindings = [obj["spec"] for obj in objects if obj["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert bindings == [{"policyName": name, "validationActions": ["Deny"]} for name in names]
    assert {obj["spec"]["failurePolicy"] for obj in objects if obj["kind"] == "ValidatingAdmissionPolicy"} == {"Fail"}


def test_a_folder_is_quoted_for_the_expression() -> None:
    """The folder may have any characters."""
    policy, _ = admission_policies("lab", [storage.persistent_volume(VOLUME, "lab")], ())
    assert policy["spec"]["variables"] == [{"name": "folders", "expression": '{"data": "/mnt/a\\"b"}'}]


def test_a_volume_without_a_folder_must_stay_without_one() -> None:
    """A deployer who may create the volume of a server must not turn it into a folder of a node."""
    server = PersistentVolume(
        name="server", size="1Gi", access_modes=("ReadOnlyMany",), source={"nfs": {"server": "nfs", "path": "/data"}}
    )
    disk = PersistentVolume(
        name="disk", size="1Gi", access_modes=("ReadWriteOnce",), source={"local": {"path": "/mnt/disk"}}, node="a"
    )
    policy, _ = admission_policies("lab", [storage.persistent_volume(volume, "lab") for volume in (server, disk)], ())
    assert policy["spec"]["variables"] == [{"name": "folders", "expression": '{"disk": "/mnt/disk", "server": ""}'}]
