"""The objects that destroy leaves in the cluster."""

from tests.unit.make import make_settings, make_storage, make_volume
from trainstack.platform.retained import RetainedObject, list_retained_objects
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.objects import Objects
from trainstack.settings.sections.storage import PersistentVolume


def test_volumes_stay_with_all_that_they_depend_on() -> None:
    """They are the namespaces of this stack, volumes on hosts, and CRDs, each with its reason."""
    host = PersistentVolume(
        name="models", storage_class="manual", size="10Gi", access_modes=("ReadWriteMany",), host_path="/models"
    )
    volumes = (
        make_volume(name="a"),
        make_volume(name="b"),
        make_volume(name="scratch", namespace="temporary", retain=False),
        make_volume(name="c", namespace="kubeflow"),
        make_volume(name="d", namespace="elsewhere"),
    )
    settings = make_settings(
        environment=Environment(namespaces=(Namespace(name="research"), Namespace(name="temporary"))),
        storage=make_storage(volumes=volumes, persistent_volumes=(host,)),
    )
    release = [
        {"kind": "Namespace", "metadata": {"name": "kubeflow"}},
        {"kind": "Namespace", "metadata": {"name": "kueue-system"}},
        {"kind": "CustomResourceDefinition", "metadata": {"name": "pytorchjobs.kubeflow.org"}},
    ]
    data = "its data is kept (retain: true)"
    crd = "deleting it would delete every team's objects of that kind"
    assert list_retained_objects(settings, release) == [
        RetainedObject("PersistentVolumeClaim", "research", "a", data),
        RetainedObject("PersistentVolumeClaim", "research", "b", data),
        RetainedObject("PersistentVolumeClaim", "kubeflow", "c", data),
        RetainedObject("PersistentVolumeClaim", "elsewhere", "d", data),
        RetainedObject("Namespace", None, "kubeflow", "it holds the retained volume c"),
        RetainedObject("Namespace", None, "research", "it holds the retained volume a, b"),
        RetainedObject("PersistentVolume", None, "models", "its folder /models on the node holds data"),
        RetainedObject("CustomResourceDefinition", None, "pytorchjobs.kubeflow.org", crd),
    ]


def test_a_platform_alone_keeps_all_its_namespaces() -> None:
    """Its teams have volumes there in stacks that it does not read."""
    settings = make_settings(environment=Environment(layers=("platform",), namespaces=(Namespace(name="research"),)))
    assert list_retained_objects(settings, [{"kind": "Namespace", "metadata": {"name": "kubeflow"}}]) == [
        RetainedObject("Namespace", None, "kubeflow", "volumes of other stacks may be in it"),
        RetainedObject("Namespace", None, "research", "volumes of other stacks may be in it"),
    ]


def test_volumes_of_other_objects_stay_with_their_namespace() -> None:
    """The annotation of a claim undoes that."""
    spec = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "cache", "annotations": {"trainstack.dev/retain": "false"}}
    objects = Objects(
        manifests=(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models"}, "spec": spec},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec},
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": spec},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "train"}},
        )
    )
    assert list_retained_objects(make_settings(objects=objects, storage=make_storage(volumes=()))) == [
        RetainedObject("PersistentVolumeClaim", "research", "models", "its data is kept (retain: true)"),
        RetainedObject("Namespace", None, "research", "it holds the retained volume models"),
        RetainedObject("PersistentVolume", None, "disk", "it holds data"),
    ]
