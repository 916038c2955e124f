"""Kueue's scheduler as a program for other releases than the pinned ones, built from the user's module proxy."""

import hashlib
import shutil
from pathlib import Path

from rich.console import Console
from semver import Version

from trainstack.toolchain import digests, go_toolchain, groups
from trainstack.toolchain.build import Builder
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.go_toolchain import Go
from trainstack.toolchain.groups import GoProgram, ProgramGroup
from trainstack.toolchain.places import GO_MODULES, cache_root
from trainstack.versions import is_later_minor, parse_release

KUEUE = "sigs.k8s.io/kueue"
_FIRST_RELEASE = Version(0, 18, 0)
"""The sources for v0.16 and v0.17 do not tell Kueue which pods occupy the nodes of a topology."""


def find_judge(release: str) -> Path | None:
    """Return the program of a release that `build_judge` has built, or None. Runs nothing."""
    modules, group = _modules(release), _group(release)
    if modules is None or not (modules / group.module / "go.mod").is_file():
        return None
    for version in go_toolchain.candidate_versions():
        folder = Builder(Go(Path("go"), version), modules).folder(group)
        if folder.is_dir():
            return folder / "bin" / group.programs[0].name
    return None


def build_judge(release: str, console: Console) -> Path:
    """Build the program with the sources of the nearest minor release, and return its path.

    Raises ToolchainError if the module proxy lacks the release, or if the sources do not fit it.
    """
    modules, group, base = _modules(release), _group(release), _base(release)
    if modules is None or base is None:
        raise ToolchainError(f"there is no judge for Kueue {release!r}", "name an exact release from v0.18.0 on")
    builder, source = Builder(go_toolchain.ensure(console), modules), modules / group.module
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name, content in groups.source_files(base).items():
        (source / name).write_bytes(content)
    try:
        builder.run_go(["get", f"{KUEUE}@{release}", "."], source)
    except ToolchainError as error:
        shutil.rmtree(source)
        raise ToolchainError(f"Kueue {release} cannot be downloaded: {error}") from None
    try:
        folder = builder.build(group, console)
    except ToolchainError as error:
        shutil.rmtree(source)
        raise ToolchainError(f"the API of Kueue {release} does not fit the sources of {base.name}: {error}") from None
    digests.verify(folder)
    return folder / "bin" / group.programs[0].name


def _base(release: str) -> ProgramGroup | None:
    """Return the group whose sources are nearest: of the minor release, or the newest one for a newer release."""
    version = parse_release(release)
    if version is None or release.count(".") < 2 or version < _FIRST_RELEASE:
        return None
    is_newer = is_later_minor(release, groups.DEFAULT_KUEUE_MINOR)
    minor = groups.DEFAULT_KUEUE_MINOR if is_newer else f"v{version.major}.{version.minor}"
    return groups.GROUPS_BY_NAME.get(f"judge-{minor}")


def _modules(release: str) -> Path | None:
    """Return the folder of the release's module, whose name depends on the sources that it is copied from."""
    base = _base(release)
    if base is None:
        return None
    digest = hashlib.sha256()
    for name, content in groups.source_files(base, GO_MODULES).items():
        digest.update(name.encode() + content)
    return cache_root() / "judges" / digest.hexdigest()[:16]


def _group(release: str) -> ProgramGroup:
    return ProgramGroup(
        name=f"judge-{release}",
        module=release,
        purpose=f"the scheduler of Kueue {release} as a program",
        programs=(GoProgram("kueue-judge", "."),),
        seconds=150,
    )
