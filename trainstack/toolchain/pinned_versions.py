"""Every pinned version, read from the file that pins it."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass

from trainstack.toolchain import debian, distribution, go_modules, go_toolchain, programs_on_path, python_locks
from trainstack.toolchain.groups import GROUPS
from trainstack.toolchain.places import GO_LOCK, GO_MODULES, REQUIREMENTS_LOCK


@dataclass(frozen=True)
class Version:
    """A pinned version."""

    kind: str
    """`toolchain`, `go`, `python` or `debian`."""
    name: str
    version: str
    pinned_in: str
    """The file that pins it; for packages, the release of this machine."""


def collect() -> tuple[Version, ...]:
    return (*_toolchains(), *_go(), *_python(), *_debian())


def show(*, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps([asdict(version) for version in collect()], indent=2) + "\n")
        return
    print_table([("KIND", "NAME", "VERSION", "PINNED IN"), *(astuple(version) for version in collect())])


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of equal length with aligned columns, for other programs too."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")


def _toolchains() -> Iterator[Version]:
    go = go_toolchain.choose_go()
    yield Version("toolchain", "go", go.version.removeprefix("go"), "PATH" if go.executable.exists() else GO_LOCK.name)
    yield Version("toolchain", "python", ".".join(str(part) for part in sys.version_info[:3]), "PATH")
    for search in (programs_on_path.pulumi(), programs_on_path.kubectl()):
        if official_program := search.program:
            yield Version(
                "toolchain",
                f"official {official_program.path.name} {official_program.path}",
                official_program.version,
                "PATH",
            )


def _go() -> Iterator[Version]:
    """Yield the modules of the groups' programs, without their dependencies, which only the go.mod files list."""
    listed_modules: set[tuple[str, str]] = set()
    for folder in dict.fromkeys(group.module for group in GROUPS):
        module = go_modules.load(GO_MODULES / folder / "go.mod")
        programs = (program for group in GROUPS if group.module == folder for program in group.programs)
        packages = [*module.tool, *(program.package for program in programs), *_main_imports(folder)]
        # A package belongs to the longest required module path that is a prefix of its own.
        owners = {
            max((path for path in module.require if f"{package}/".startswith(f"{path}/")), key=len, default="")
            for package in packages
        }
        for owner in sorted(owners - {""}):
            # Groups that share compiled packages pin the same versions.
            if (owner, module.require[owner]) in listed_modules:
                continue
            listed_modules.add((owner, module.require[owner]))
            yield Version("go", owner, module.require[owner], f"trainstack/toolchain/go/{folder}/go.mod")


def _main_imports(group: str) -> Iterator[str]:
    """Yield the imports of a group's own main.go."""
    for source in (GO_MODULES / group).glob("*.go"):
        yield from (
            line.strip().split('"')[1] for line in source.read_text().splitlines() if line.strip().endswith('"')
        )


def _python() -> Iterator[Version]:
    for path in (REQUIREMENTS_LOCK, GO_LOCK, python_locks.SITE_LOCK):
        for name, version in python_locks.load(path).items():
            yield Version("python", name, version, f"trainstack/toolchain/{path.name}")


def _debian() -> Iterator[Version]:
    installed_versions, release = debian.read_installed(), distribution.read_distribution().name
    for package in debian.PACKAGES:
        yield Version("debian", package, installed_versions.get(package) or "not installed", release)
