"""One base for all errors with a text for users."""

import errno
import importlib
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from trainstack.errors import _EXTRAS, ExitCode, RefusedError, TrainstackError, expected_message
from trainstack.live.client import ClusterError, PermanentError, RightsError
from trainstack.settings.errors import SettingsError

ROOT = Path(__file__).resolve().parents[2]
INTERNAL = {"BoundError", "FileError", "JudgeError", "UnsettledError", "WrapperError"}
"""Errors that their callers handle; FileError is an OSError with the file's name, and WrapperError is the pod's own."""


def exceptions() -> list[type[BaseException]]:
    """Return the public exceptions of the modules of the library."""
    found: dict[str, type[BaseException]] = {}
    for file in sorted((ROOT / "trainstack").rglob("*.py")):
        if "Error" not in file.read_text(encoding="utf-8") or "sites" in file.parts or file.stem == "__main__":
            continue
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == name:
                found[f"{name}.{value.__name__}"] = value
    return list(found.values())


def test_every_error_for_users_has_one_base() -> None:
    """All except internal errors are a TrainstackError, which the command's entry point handles."""
    others = {error.__name__ for error in exceptions() if not issubclass(error, TrainstackError)}
    assert {name for name in others if not name.startswith("_")} == INTERNAL


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TrainstackError("it is missing"), "it is missing"),
        (TrainstackError("it is missing", "add it"), "it is missing; add it"),
        (
            TrainstackError("it is missing", "add it", path="a.b", where="f.yaml:3"),
            "f.yaml:3: a.b: it is missing; add it",
        ),
    ],
)
def test_the_text_has_place_message_and_remedy(error: TrainstackError, text: str) -> None:
    """Empty parts are omitted."""
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TrainstackError, ExitCode.FAILED),
        (SettingsError, ExitCode.FAILED),
        (RefusedError, ExitCode.REFUSED),
        (ClusterError, ExitCode.UNREACHABLE),
        (PermanentError, ExitCode.UNREACHABLE),
        (RightsError, ExitCode.FAILED),
    ],
)
def test_an_error_has_the_exit_code_of_its_class(error: type[TrainstackError], code: ExitCode) -> None:
    """Subclasses inherit it."""
    assert error.exit_code == code


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("matplotlib", "charts"),
        ("matplotlib.figure", "charts"),
        ("optuna", "search"),
        ("scipy.stats", "search"),
        ("arro3.core", "parquet"),
    ],
)
def test_a_missing_optional_package_names_its_extra(module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = module.partition(".")[0]
    for loaded in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    expected = (
        f"{package} is not installed; install Trainstack again from its wheel or commit, with the extra `{extra}`: "
        f"<wheel>[{extra}]"
    )
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(module)
    assert expected_message(caught.value) == expected


def test_a_missing_package_of_another_kind_is_a_bug() -> None:
    """The traceback is kept: the installation is damaged, or the module's name is wrong."""
    assert expected_message(ModuleNotFoundError("No module named 'yaml'", name="yaml")) is None


def test_the_extras_have_all_optional_packages() -> None:
    """Each package of an extra that a command can miss is named by what it imports."""
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {extra: {Requirement(pin).name.partition("-")[0] for pin in pins} for extra, pins in optional.items()}
    assert {package: extra for extra, names in packages.items() for package in names} == dict(_EXTRAS)


def write_text(path: Path) -> None:
    """Write a file in one call."""
    path.write_text("x" * 100_000, encoding="utf-8")


def write_small(path: Path) -> None:
    """Write a text that reaches the disk when the file is closed."""
    with path.open("a") as file:
        file.write("x")


def copy(path: Path) -> None:
    """Copy a file, of which only the target is written."""
    with Path(__file__).open("rb") as source, path.open("r+b", buffering=0) as target:
        shutil.copyfileobj(source, target)


@pytest.mark.parametrize("write", [write_text, write_small, copy])
def test_a_full_disk_names_the_file_that_was_written(write: Callable[[Path], None]) -> None:
    """The system's error does not name it."""
    with pytest.raises(OSError, match="No space left") as caught:
        write(Path("/dev/full"))
    assert caught.value.filename is None
    assert expected_message(caught.value) == (
        "/dev/full: No space left on device; free space on its file system, then run the command again"
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a"), "a: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device", "a", None, "b"), "b: No space left on device; free space"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", b"\xff"), "\ufffd: Disk quota exceeded; free space within"),
        (OSError(errno.EROFS, "Read-only file system", "a"), "a: Read-only file system; choose a place"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error; check the disk"),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found"), "No usable temporary directory found"),
    ],
)
def test_an_error_of_the_system_has_a_text_for_users(error: OSError, message: str) -> None:
    """The remedy is there if the name of the error does not suggest it."""
    assert (expected_message(error) or "").startswith(message)


def test_any_other_error_is_a_bug() -> None:
    """An OSError without a number is not the system's."""
    assert expected_message(OSError("of no file")) is None
    assert expected_message(ValueError("x")) is None
    assert expected_message(RefusedError("x")) == "x"
