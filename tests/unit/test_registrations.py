"""The registrations of each environment, compared with the golden files in `tests/unit/golden`.

A refactoring changes none of them. `python -m tests.unit.test_registrations` writes them anew: read their diff, and
that of `trainstack render`, before you commit it.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.registrations.recorder import Registration, digest
from tests.unit.environments import COMMITTED
from tests.unit.recorded import recorded

GOLDEN = Path(__file__).parent / "golden"
ENVIRONMENTS = (*COMMITTED, "whole", "training")


def entries(registrations: list[Registration]) -> dict[str, Any]:
    """Return the registrations in the form of a golden file: URNs by type and name, inputs by digest."""
    return {_short(found.urn): _entry(found) for found in registrations}


def _entry(registration: Registration) -> dict[str, Any]:
    options = {key: _shortened(value) for key, value in registration.options.items() if key != "custom"}
    entry = {**options, "inputs": digest(registration.inputs), "outputs": dict(registration.outputs)}
    return {key: value for key, value in entry.items() if value}


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    return {key: _shortened(item) for key, item in value.items()} if isinstance(value, dict) else value


def _short(urn: str) -> str:
    """Return a URN without the stack's and the project's names."""
    return urn.split("::", 2)[2] if urn.startswith("urn:pulumi:") else urn


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_registers_what_it_did(name: str) -> None:
    """Type, name, parent, dependencies, provider, protect, retain, hooks, outputs and inputs match the file."""
    golden = yaml.load((GOLDEN / f"{name}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    assert entries(recorded(name)[0]) == golden


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for environment_name in ENVIRONMENTS:
        text = yaml.safe_dump(entries(recorded(environment_name)[0]), width=120, sort_keys=True)
        (GOLDEN / f"{environment_name}.yaml").write_text(text, encoding="utf-8")
