"""The images that an environment uses, and their pinned names in its manifests."""

from typing import Any

from tests.unit.make import make_kueue, make_run, make_settings, make_training_operator
from trainstack.objects.labels import Manifest
from trainstack.preflight.used_images import UsedImage, used_images
from trainstack.settings.model import Cluster, Settings
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Image
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects

DIGEST = f"sha256:{'1' * 64}"
BUILT = "registry.local/trainstack/mine:0123"
CODE = Code(git="https://git.example.org/a.git", revision="0" * 40, mount_path="/code")


def make_deployment(name: str, container: str, image: str) -> Manifest:
    """Return a controller of a release."""
    pod = {"containers": [{"name": container, "image": image, "imagePullPolicy": "Always"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {}, "spec": pod}},
    }


def make_inputs() -> Inputs:
    """Return the inputs with two small releases and a built image."""
    config: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config"},
        "data": {"controller_manager_config.yaml": "{}"},
    }
    crd: Manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pytorchjobs.kubeflow.org"},
        "spec": {"names": {"plural": "pytorchjobs"}},
    }
    return Inputs(
        releases={
            "kueue": (config, make_deployment("kueue-controller-manager", "manager", "example.org/kueue:v1")),
            "training-operator": (
                crd,
                make_deployment("training-operator", "training-operator", "example.org/operator:v1"),
            ),
        },
        images={"mine": BUILT},
    )


def make_environment(**changes: Any) -> Settings:
    """Return an environment with an image of every origin."""
    install = Operators(kueue=make_kueue(), training_operator=make_training_operator())
    runs = (make_run(code=CODE), make_run(name="built", image=Image(build="mine")))
    return make_settings(*runs, **{"operators": install, **changes})


def images_of(manifest: object) -> set[str]:
    """Return all images of a manifest's containers."""
    if isinstance(manifest, dict):
        own = {manifest["image"]} if isinstance(manifest.get("image"), str) else set()
        return own.union(*(images_of(value) for value in manifest.values()))
    return set().union(*(images_of(item) for item in manifest)) if isinstance(manifest, list | tuple) else set()


def test_every_image_is_listed_with_its_setting() -> None:
    """Images of runs, of controllers, and of the other containers of pods."""
    assert used_images(StackObjects(make_environment(), make_inputs())) == [
        UsedImage("alpine/git:2.47.2", "cluster.gitImage"),
        UsedImage("busybox:1.35", "cluster.loader.image"),
        UsedImage("busybox:1.35.0", "operators.trainingOperator.initContainerImage"),
        UsedImage("example.org/kueue:v1", "operators.kueue.image"),
        UsedImage("example.org/operator:v1", "operators.trainingOperator.image"),
        UsedImage("python:3.11", "workloads.runs[train].image.name"),
        UsedImage(BUILT, "workloads.runs[built].image.build", "mine"),
    ]


def test_an_override_replaces_the_image_of_the_release() -> None:
    """An override with a digest needs no pin."""
    image = f"mirror.example.org/kueue@{DIGEST}"
    settings = make_environment(operators=Operators(kueue=make_kueue().model_copy(update={"image": image})))
    used = used_images(StackObjects(settings, make_inputs()))
    (found,) = (item for item in used if item.path == "operators.kueue.image")
    assert (found.reference, found.has_digest) == (image, True)


def test_a_single_layer_has_only_its_own_images() -> None:
    """A team does not pin the platform's controllers."""
    settings = make_environment(environment=Environment(layers=("training",)))
    assert not [
        item for item in used_images(StackObjects(settings, make_inputs())) if item.path.startswith("operators.")
    ]


def test_all_manifests_of_a_pinned_environment_have_digests() -> None:
    """The names have tag and digest: a moved tag is not pulled, and an unchanged image is not pulled again."""
    settings, inputs = make_environment(), make_inputs()
    pins = {item.reference: DIGEST for item in used_images(StackObjects(settings, inputs))}
    pinned = settings.model_copy(update={"pins": pins})
    loader = "busybox:1.35"
    assert images_of(StackObjects(pinned, inputs).manifests()) == {
        f"{reference}@{DIGEST}" for reference in pins if reference not in (loader, "busybox:1.35.0")
    }
    kueue, operator = (install.deployments[0] for install in StackObjects(pinned, inputs).operators.values())
    (manager,) = kueue["spec"]["template"]["spec"]["containers"]
    assert (manager["image"], manager["imagePullPolicy"]) == (f"example.org/kueue:v1@{DIGEST}", "IfNotPresent")
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    assert f"--pytorch-init-container-image=busybox:1.35.0@{DIGEST}" in container["args"]
    assert used_images(StackObjects(pinned, inputs)) == used_images(StackObjects(settings, inputs))


def test_a_pin_of_an_unused_image_changes_no_manifest() -> None:

    settings, inputs = make_environment(), make_inputs()
    other = settings.model_copy(update={"pins": {"else:1": DIGEST}})
    assert StackObjects(other, inputs).manifests() == StackObjects(settings, inputs).manifests()


def test_an_image_with_a_digest_keeps_it() -> None:
    """A pin does not apply to another digest."""
    settings = make_settings(pins={f"a@{DIGEST}": f"sha256:{'2' * 64}"}, cluster=Cluster())
    assert settings.pinned_reference(f"a@{DIGEST}") == f"a@{DIGEST}"
