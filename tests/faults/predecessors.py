"""Older releases of the operators, built from modules that are pinned beside this file."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml
from rich.console import Console

from trainstack.local_cluster.images import Recipe
from trainstack.local_cluster.images.catalog import CONTAINERFILES, INIT_PYTORCH
from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import OperatorManifests, stage_manifests
from trainstack.platform.operators.kueue import kueue
from trainstack.platform.operators.training_operator import training_operator
from trainstack.settings.sections.operators import ControllerResources, Kueue, TrainingOperator
from trainstack.settings.sections.operators import Manifest as Declared
from trainstack.toolchain import go_toolchain, manifests, tools
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GoProgram, ProgramGroup, Stamp

KUEUE = "sigs.k8s.io/kueue"
TRAINING_OPERATOR = "github.com/kubeflow/training-operator"
_REQUESTS = ControllerResources(cpu="50m", memory="128Mi")


@dataclass(frozen=True, kw_only=True)
class Release(manifests.ReleaseManifest):
    """An older release with its own go.mod."""

    older_version: str
    """Its version, as in `v0.14.0`."""
    program: GoProgram
    stamps: tuple[Stamp, ...] = ()
    registry: str = ""
    """Where the cluster looks for an image whose name says no registry."""

    @property
    def version(self) -> str:
        """Return the older version instead of the toolchain's."""
        return self.older_version

    @property
    def modules(self) -> ProgramGroup:
        """Return the build, which takes about a minute and a half with empty caches."""
        return ProgramGroup(
            name=self.group,
            module=self.name,
            purpose=f"{self.name} {self.version}",
            programs=(self.program,),
            seconds=90,
            stamps=self.stamps,
        )

    @property
    def declared(self) -> Declared:
        """Return the manifest settings of a stack with this release."""
        return Declared(version=self.version, url=f"https://example.org/{self.name}.yaml", sha256="0" * 64)


RELEASES = {
    "kueue": Release(
        name="kueue",
        older_version="v0.14.0",
        group="before-kueue",
        module=KUEUE,
        program=GoProgram("kueue", f"{KUEUE}/cmd/kueue"),
        stamps=(Stamp(f"{KUEUE}/pkg/version.GitVersion", KUEUE),),
        overlay="config/default",
        image="us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue:main",
        release_image="registry.k8s.io/kueue/kueue:{version}",
    ),
    "trainingOperator": Release(
        name="training-operator",
        older_version="v1.8.1",
        group="before-training-operator",
        module=TRAINING_OPERATOR,
        program=GoProgram("training-operator", f"{TRAINING_OPERATOR}/cmd/training-operator.v1"),
        overlay="manifests/overlays/standalone",
        image="kubeflow/training-operator:v1-04f9f13",
        release_image="kubeflow/training-operator:v1-04f9f13",
        registry="docker.io/",
    ),
}
"""By the key of `trainstack:operators`."""


class Predecessors:
    """The older releases: their images, and their manifests."""

    def __init__(self) -> None:
        """Build the releases if they are not cached."""
        builder, console = Builder(go_toolchain.choose_go(), Path(__file__).parent / "before"), Console(stderr=True)
        self._texts: dict[str, str] = {}
        self._programs: dict[str, Path] = {}
        for key, release in RELEASES.items():
            self._programs[key] = builder.build(release.modules, console) / "bin" / release.name
            folder = builder.module_folder(release.modules, release.module)
            self._texts[key] = manifests.render(release, folder, tools.program("kubectl"))

    @property
    def recipes(self) -> list[Recipe]:
        """The images, under their public names."""
        return [
            Recipe(
                release.name,
                CONTAINERFILES / release.name,
                programs={release.name: self._programs[key]},
                serve_as=(release.registry + release.release_image.format(version=release.version),),
            )
            for key, release in RELEASES.items()
        ]

    def install(self, stack: str) -> list[OperatorManifests]:
        """Return the objects that a stack with these releases has."""
        queues, jobs = RELEASES["kueue"], RELEASES["trainingOperator"]
        declared = Kueue(manifest=queues.declared, requests=_REQUESTS)
        operator = TrainingOperator(manifest=jobs.declared, requests=_REQUESTS, init_container_image=INIT_PYTORCH)
        return [
            stage_manifests(kueue(self._objects("kueue"), declared), stack, queues.version),
            stage_manifests(training_operator(self._objects("trainingOperator"), operator), stack, jobs.version),
        ]

    def _objects(self, key: str) -> list[Manifest]:
        found: Iterable[Manifest | None] = yaml.load_all(self._texts[key], Loader=yaml.CSafeLoader)
        return [body for body in found if body]
