"""One base for all errors with a text for users."""

import importlib
from pathlib import Path

import pytest

from trainstack.errors import ExitCode, RefusedError, TrainstackError
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
