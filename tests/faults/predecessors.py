"""The Kueue before the one that is installed here: built from modules that are pinned beside this file."""

from pathlib import Path

import yaml
from rich.console import Console

from devcluster.images import Recipe
from devcluster.images.catalog import CONTAINERFILES, INIT_PYTORCH
from manifests.kueue import kueue
from manifests.labels import Manifest
from manifests.operators import OperatorManifests, of_release
from manifests.training_operator import training_operator
from settings.operators import ControllerResources, Kueue, TrainingOperator
from settings.operators import Manifest as Declared
from toolchain import gotool, manifests, tools
from toolchain.build import Builder
from toolchain.groups import Group, Program, Stamp

VERSION = "v0.14.0"
MODULE = "sigs.k8s.io/kueue"
GROUP = Group(
    name="before",
    module="before",
    purpose=f"Kueue {VERSION}",
    programs=(Program("kueue", f"{MODULE}/cmd/kueue"),),
    seconds=90,
    stamps=(Stamp(f"{MODULE}/pkg/version.GitVersion", MODULE),),
)
IMAGE = f"registry.k8s.io/kueue/kueue:{VERSION}"


class _Release(manifests.Manifest):
    """Its version is not the toolchain's."""

    @property
    def version(self) -> str:
        """As in `v0.14.0`."""
        return VERSION


class Predecessor:
    """Kueue v0.14.0: its image, and its release manifest."""

    def __init__(self) -> None:
        """Built, unless that has been done: about a minute and a half with empty caches."""
        builder, console = Builder(gotool.choose(), Path(__file__).parent), Console(stderr=True)
        self.program = builder.build(GROUP, console) / "bin" / "kueue"
        (known,) = (each for each in manifests.MANIFESTS if each.name == "kueue")
        release = _Release(
            name=known.name,
            group=known.group,
            module=known.module,
            overlay=known.overlay,
            image=known.image,
            released=known.released,
        )
        self.text = manifests.render(release, builder.module_folder(GROUP, MODULE), tools.program("kubectl"))

    @property
    def recipe(self) -> Recipe:
        """The image, under its public name."""
        return Recipe("kueue", CONTAINERFILES / "kueue", programs={"kueue": self.program}, serve_as=(IMAGE,))

    def install(self, stack: str) -> list[OperatorManifests]:
        """Its objects, and the training operator's, as a stack has them that declared this release."""
        declared = Kueue(
            manifest=Declared(version=VERSION, url="https://example.org/kueue.yaml", sha256="0" * 64),
            requests=ControllerResources(cpu="50m", memory="128Mi"),
        )
        operator = TrainingOperator(
            manifest=declared.manifest, requests=declared.requests, init_container_image=INIT_PYTORCH
        )
        other = manifests.path("training-operator").read_text()
        return [
            of_release(kueue(_objects(self.text), declared, stack), VERSION),
            training_operator(_objects(other), operator, stack),
        ]


def _objects(text: str) -> list[Manifest]:
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]
