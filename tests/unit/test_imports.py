"""Imports go down the flow only: settings, then manifests and workloads, checks, components, stacks, the program."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    "settings": ("settings",),
    "manifests": ("manifests", "settings"),
    "workloads": ("workloads", "manifests", "settings"),
    "checks": ("checks", "workloads", "manifests", "settings"),
    # Optuna and scipy are in this room alone.
    "trials": ("trials", "settings"),
    "components": ("components", "checks", "workloads", "manifests", "settings"),
    "stacks": ("stacks", "components", "checks", "workloads", "manifests", "settings"),
    "__main__": ("stacks", "components", "checks", "workloads", "manifests", "settings"),
    "toolchain": ("toolchain",),
    # The names of images are the workloads': the program names the same images that the local cluster builds.
    "devcluster": ("devcluster", "toolchain", "workloads.images"),
    "review": ("review", "checks", "workloads", "manifests", "settings"),
    # What a line of a log tells is the same for those who watch a run and for those who report of it.
    "reports": ("reports", "checks.training_log", "trials", "settings.space", "settings.constraints"),
    "cli": (
        "cli",
        "reports",
        "trials",
        "review",
        "devcluster",
        "toolchain",
        "stacks",
        "checks",
        "workloads",
        "manifests",
        "settings",
    ),
}
"""By package (or the program), the packages and modules of ours that it may import."""

CONTAINED = {"workloads/digits": ("workloads.digits",), "workloads/wrapper": ()}
"""Programs that run in containers, where nothing of ours is installed: they may import their own files alone."""

PURE = ("settings", "manifests", "workloads", "checks", "reports", "trials")
"""The packages that neither deploy nor touch the network."""
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
"""Libraries that do."""
LIVE = "checks/cluster"
"""The live reads of a cluster: of the checks, they alone touch the network."""


@cache
def sources() -> list[str]:
    """Our files that are under the rule, relative to the project."""
    files = [ROOT / "__main__.py"]
    files += [file for package in ALLOWED for file in sorted((ROOT / package).rglob("*.py"))]
    return [file.relative_to(ROOT).as_posix() for file in files if file.is_file()]


@cache
def imports(file: str) -> list[tuple[int, str]]:
    """The modules that a file imports, wherever in it, with the line; `from a import b` is `a.b`."""
    return list(_imports(file))


def _imports(file: str) -> Iterator[tuple[int, str]]:
    package = file.removesuffix(".py").split("/")[:-1]
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, node.module] if node.module else base)
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def within(module: str, allowed: tuple[str, ...]) -> bool:
    """Whether a module is one of these or in one of these packages."""
    return any(module == each or module.startswith(f"{each}.") for each in allowed)


def contained(file: str) -> str | None:
    """The container program that a file belongs to."""
    return next((folder for folder in CONTAINED if file.startswith(f"{folder}/")), None)


def ours(module: str) -> bool:
    """Whether a module is of this project."""
    return within(module, tuple(ALLOWED))


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_go_down_the_flow(package: str) -> None:
    """No file imports a package of ours that stands further down the flow than itself, or beside it."""
    wrong = [
        f"{file}:{line}: {package} may not import {module}"
        for file in sources()
        if file.split("/")[0].removesuffix(".py") == package and contained(file) is None
        for line, module in imports(file)
        if ours(module) and not within(module, ALLOWED[package])
    ]
    assert wrong == []


def test_settings_builders_checks_and_reports_are_pure() -> None:
    """They never import the engine, start a program or touch the network; `checks/cluster` alone reads live."""
    wrong = [
        f"{file}:{line}: may not import {module}"
        for file in sources()
        if file.split("/")[0] in PURE and not file.startswith(f"{LIVE}/") and contained(file) is None
        for line, module in imports(file)
        if within(module, IMPURE) or within(module, ("checks.cluster",))
    ]
    assert wrong == []


def test_only_components_and_stacks_know_the_engine() -> None:
    """Pulumi is imported by components, stacks and the program, and by the toolchain's language host alone."""
    wrong = [
        f"{file}:{line}: may not import {module}"
        for file in sources()
        if file.split("/")[0].removesuffix(".py") not in ("components", "stacks", "__main__", "toolchain")
        for line, module in imports(file)
        if within(module, ("pulumi", "pulumi_kubernetes"))
    ]
    assert wrong == []


def test_samplers_are_in_one_room() -> None:
    """What draws and judges sets is imported by the modules that do so alone: to everything else sets are files."""
    wrong = [
        f"{file}:{line}: may not import {module}"
        for file in sources()
        if file not in ("trials/sampling.py", "trials/propose.py", "trials/importance.py")
        for line, module in imports(file)
        if within(module, ("optuna", "scipy"))
    ]
    assert wrong == []


def test_neither_the_program_nor_the_command_loads_what_samples_or_draws() -> None:
    """`pulumi preview` and `trainstack --help` do not wait for samplers, charts and templates."""
    slow = {"optuna", "scipy", "matplotlib", "jinja2"}
    words = f"import sys, cli.app, stacks.assemble; print({slow} & {{*sys.modules}})"
    told = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"


def test_container_programs_import_nothing_of_ours() -> None:
    """What runs in a container has only the files of its own folder."""
    wrong = [
        f"{file}:{line}: may not import {module}"
        for file in sources()
        if (program := contained(file)) is not None
        for line, module in imports(file)
        if ours(module) and not within(module, CONTAINED[program])
    ]
    assert wrong == []


def test_the_wrapper_is_the_standard_library_alone() -> None:
    """The wrapper runs in any image that has Python: one file, no library."""
    files = [file for file in sources() if contained(file) == "workloads/wrapper" and not file.endswith("__init__.py")]
    strange = [
        module for file in files for _, module in imports(file) if module.split(".")[0] not in sys.stdlib_module_names
    ]
    assert (len(files), strange) == (1, [])
