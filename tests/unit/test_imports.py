"""Imports go down the layers only: a layer of `trainstack` imports itself and earlier ones."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.sources import syntax

ROOT = Path(__file__).resolve().parents[2]

LAYERS = (
    "errors",
    "garbage",
    "files",
    "printable",
    "versions",
    "settings",
    "objects",
    "platform",
    "runs",
    "sweeps",
    "stack_objects",
    "kueue",
    "preflight",
    "guards",
    "forecast",
    "lifecycle",
    "onboarding",
    "live",
    "components",
    "stacks",
    "reports",
    "review",
    "toolchain",
    "local_cluster",
    "images",
    "transfer",
    "dev",
    "cli",
)
"""The modules and sub-packages of `trainstack`; each may import those before it."""

NARROW = {
    "trainstack.sweeps.search": ("trainstack.sweeps.search", "trainstack.settings", "trainstack.errors"),
    # The meaning of a log line is the same for a watch and for a report.
    "trainstack.reports": (
        "trainstack.errors",
        "trainstack.files",
        "trainstack.reports",
        "trainstack.runs.logs.training_log",
        "trainstack.sweeps.search",
        "trainstack.settings.search_space.constraints",
        "trainstack.settings.search_space.space",
    ),
    # A rule recognizes stacks whose secrets have the engine's passphrase of embedded states.
    "trainstack.toolchain": (
        "trainstack.toolchain",
        "trainstack.errors",
        "trainstack.files",
        "trainstack.printable",
        "trainstack.versions",
        "trainstack.settings.values.published_passphrase",
    ),
    # The names of images belong to the workloads: the program names the images that the local cluster builds.
    "trainstack.local_cluster": (
        "trainstack.errors",
        "trainstack.files",
        "trainstack.toolchain",
        "trainstack.versions",
        "trainstack.local_cluster",
        "trainstack.runs.images.content_tags",
        "trainstack.runs.images.references",
    ),
}
"""Packages that import less than their layer allows."""

PROGRAM = LAYERS[: LAYERS.index("stacks") + 1]
"""The layers that the Pulumi program may import."""

CONTAINED = {"workloads/digits": ("workloads.digits",), "trainstack/runs/wrapper": ()}
"""Programs that run in containers without our packages: they may import only their own files."""

IMPURE = (
    "pulumi",
    "pulumi_kubernetes",
    "kr8s",
    "httpx",
    "requests",
    "socket",
    "subprocess",
    "http.client",
    "urllib.request",
)
"""Libraries that deploy, start programs or touch the network."""
PURE = (*LAYERS[: LAYERS.index("live")], "reports")
"""The layers that import none of them. Only `live` reads a cluster."""
ENGINE = ("trainstack/components/", "trainstack/stacks/", "trainstack/toolchain/")
"""The modules that import Pulumi: components, stacks, and the toolchain's language host."""


@cache
def sources() -> list[str]:
    """Return our files that the rule covers, relative to the project."""
    folders = (ROOT / "trainstack", ROOT / "workloads")
    files = [ROOT / "__main__.py", *(file for folder in folders for file in sorted(folder.rglob("*.py")))]
    return [file.relative_to(ROOT).as_posix() for file in files]


@cache
def imports(file: str) -> list[tuple[int, str]]:
    """Return the modules that a file imports anywhere, with the line; `from a import b` is `a.b`."""
    return list(_imports(file))


def _imports(file: str) -> Iterator[tuple[int, str]]:
    package = file.removesuffix(".py").split("/")[:-1]
    for node in statements(syntax(ROOT / file)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, node.module] if node.module else base)
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a block and its nested blocks; expressions, of which there are many more, have none."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for part in getattr(node, name, ()):
            yield part
            yield from statements(part)


def within(module: str, allowed: tuple[str, ...]) -> bool:
    """Return whether a module is one of these or in one of these packages."""
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def contained(file: str) -> str | None:
    """Return the container program that contains a file."""
    return next((folder for folder in CONTAINED if file.startswith(f"{folder}/")), None)


def layer(file: str) -> str:
    """Return the layer of a file of the library; "" for the package itself and for files outside it."""
    parts = file.removesuffix(".py").split("/")
    return parts[1] if parts[0] == "trainstack" and parts[1] != "__init__" else ""


def ours(module: str) -> bool:
    """Return whether a module is of this project."""
    return within(module, ("trainstack", "workloads", "components", "stacks"))


def below(layers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of these layers as modules."""
    return tuple(f"trainstack.{layer}" for layer in layers)


def test_every_file_is_in_a_layer() -> None:
    """No sub-package of `trainstack` is outside the order, and none is empty."""
    assert {layer(file) for file in sources()} - {""} == {*LAYERS}


def test_imports_go_down_the_layers() -> None:
    """No file imports a layer after its own, or a module outside the library."""
    wrong = [
        f"{file}:{line}: {name} may not import {module}"
        for file in sources()
        if (name := layer(file)) and contained(file) is None
        for allowed in [below(LAYERS[: LAYERS.index(name) + 1])]
        for line, module in imports(file)
        if ours(module) and not within(module, allowed)
    ]
    assert wrong == []


@pytest.mark.parametrize("package", NARROW)
def test_some_packages_import_less(package: str) -> None:
    """They import only the listed modules."""
    files = [file for file in sources() if file.startswith(package.replace(".", "/") + "/")]
    wrong = [
        f"{file}:{line}: may not import {module}"
        for file in files
        for line, module in imports(file)
        if ours(module) and not within(module, NARROW[package])
    ]
    assert files
    assert wrong == []


def test_the_program_imports_the_stacks_and_what_is_below() -> None:
    """It imports no command, report or tool."""
    wrong = [module for _, module in imports("__main__.py") if ours(module) and not within(module, below(PROGRAM))]
    assert wrong == []


def test_the_layers_below_live_are_pure() -> None:
    """They never import the engine, start a program or touch the network."""
    wrong = [
        f"{file}:{line}: may not import {module}"
        for file in sources()
        if layer(file) in PURE and contained(file) is None
        for line, module in imports(file)
        if within(module, IMPURE)
    ]
    assert wrong == []


def test_only_components_and_stacks_import_the_engine() -> None:
    """Only components, stacks, the program and the toolchain's language host import Pulumi."""
    wrong = [
        f"{file}:{line}: may not import {module}"
        for file in sources()
        if not file.startswith(ENGINE)
        for line, module in imports(file)
        if within(module, ("pulumi", "pulumi_kubernetes"))
    ]
    assert wrong == []


def test_samplers_are_imported_in_one_place() -> None:
    """Only the modules that draw and judge sets import them: for all others sets are files."""
    search = "trainstack/sweeps/search/"
    wrong = [
        f"{file}:{line}: may not import {module}"
        for file in sources()
        if file not in (f"{search}sampling.py", f"{search}propose.py", f"{search}importance.py")
        for line, module in imports(file)
        if within(module, ("optuna", "scipy"))
    ]
    assert wrong == []


def test_container_programs_import_nothing_of_ours() -> None:
    """A container has only the files of its program's folder."""
    wrong = [
        f"{file}:{line}: may not import {module}"
        for file in sources()
        if (program := contained(file)) is not None
        for line, module in imports(file)
        if ours(module) and not within(module, CONTAINED[program])
    ]
    assert wrong == []


def test_the_wrapper_is_the_standard_library_alone() -> None:
    """The wrapper runs in any image with Python: one file, no library."""
    wrapper = "trainstack/runs/wrapper"
    files = [file for file in sources() if contained(file) == wrapper and not file.endswith("__init__.py")]
    strange = [
        module for file in files for _, module in imports(file) if module.split(".")[0] not in sys.stdlib_module_names
    ]
    assert (len(files), strange) == (1, [])


@pytest.mark.parametrize("name", ["components", "stacks"])
def test_the_links_at_the_top_lead_into_the_library(name: str) -> None:
    """A Pulumi engineer looks for them there; no module imports them under that name."""
    assert (ROOT / name).is_symlink()
    assert (ROOT / name).readlink() == Path("trainstack") / name


def test_users_folders_hold_no_module_of_the_library() -> None:
    """`workloads/` and `sweeps/` belong to the users: a folder for each."""
    files = [entry.name for name in ("workloads", "sweeps") for entry in (ROOT / name).iterdir() if entry.is_file()]
    assert files == []
