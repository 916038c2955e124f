"""The operators' releases before the current defaults, built from modules that are pinned beside this file."""

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console

from trainstack.local_cluster.images import Recipe
from trainstack.local_cluster.images.catalog import CONTAINERFILES
from trainstack.toolchain import go_toolchain, manifests, tools
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GROUPS_BY_NAME, ProgramGroup
from trainstack.toolchain.manifests import MANIFESTS, ReleaseManifest

_MODULES = Path(__file__).with_name("before")


@dataclass(frozen=True, kw_only=True)
class FormerRelease(ReleaseManifest):
    """A former release of an operator."""

    former_version: str
    """Its version, as in `v0.15.2`."""

    @property
    def version(self) -> str:
        """Return the former version instead of the toolchain's."""
        return self.former_version


def _former(name: str, version: str, **changes: str) -> FormerRelease:
    """Return a former release; `changes` are the fields in which it differs from the current one."""
    (current,) = (manifest for manifest in MANIFESTS if manifest.name == name)
    values = {field.name: getattr(current, field.name) for field in fields(ReleaseManifest)}
    return FormerRelease(**values | changes, former_version=version)


_TRAINING_OPERATOR_IMAGE = "ghcr.io/kubeflow/training-v1/training-operator:v1-d6eb98e"
FORMER_RELEASES = {
    "kueue": _former("kueue", "v0.15.2"),
    "trainingOperator": _former(
        "training-operator", "v1.9.3", image=_TRAINING_OPERATOR_IMAGE, release_image=_TRAINING_OPERATOR_IMAGE
    ),
    "jobset": _former("jobset", "v0.10.1"),
    "trainer": _former("trainer", "v2.1.0"),
}
"""By the key of `trainstack:operators`."""
_NAMES = [release.name for release in FORMER_RELEASES.values()]
_GROUP = ProgramGroup(
    name="former-operators",
    module="operators",
    purpose="the operators' former releases",
    programs=tuple(program for program in GROUPS_BY_NAME["cluster"].programs if program.name in _NAMES),
    seconds=180,
    stamps=tuple(stamp for stamp in GROUPS_BY_NAME["cluster"].stamps if "kueue" in stamp.variable),
)


class FormerOperators:
    """The images of the former releases, and their manifests."""

    def __init__(self) -> None:
        """Build the programs if they are not cached."""
        builder, console = Builder(go_toolchain.choose_go(), _MODULES), Console(stderr=True)
        self._programs = builder.build(_GROUP, console) / "bin"
        self._texts = {
            key: manifests.render(release, builder.module_folder(_GROUP, release.module), tools.program("kubectl"))
            for key, release in FORMER_RELEASES.items()
        }

    @property
    def recipes(self) -> list[Recipe]:
        """The images, under their public names."""
        return [
            Recipe(
                release.name,
                CONTAINERFILES / release.name,
                programs={release.name: self._programs / release.name},
                serve_as=(release.release_image.format(version=release.version),),
            )
            for release in FORMER_RELEASES.values()
        ]

    def write(self, project: Path) -> dict[str, Any]:
        """Write the manifests into a project; return the entry `manifest` of each operator's settings."""
        entries = {}
        for key, release in FORMER_RELEASES.items():
            file = project / release.file_name
            file.write_text(self._texts[key])
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            entries[key] = {"version": release.version, "path": file.name, "sha256": digest}
        return entries
