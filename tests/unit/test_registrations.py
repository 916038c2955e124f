"""What each environment registers with the engine, against the golden files in `tests/unit/golden`.

A refactoring changes none of them. `python -m tests.unit.test_registrations` writes them anew: read their diff, and
that of `trainstack render`, before you commit it.
"""

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from tests.registrations.recorder import Echo, Registration, digest, record
from tests.unit.environments import COMMITTED, committed, decrypted, make_program, of_one_layer, whole
from trainstack.components import operators
from trainstack.declared.inputs import Inputs
from trainstack.settings.model import Settings
from trainstack.stacks.assemble import assemble

GOLDEN = Path(__file__).parent / "golden"
ENVIRONMENTS = (*COMMITTED, "whole", "training")


def environment(name: str) -> tuple[Settings, Inputs]:
    """A committed environment, the one with everything, or the training layer of that."""
    if name == "training":
        return of_one_layer(name)
    return whole() if name == "whole" else committed(name)


def registered(name: str) -> list[Registration]:
    """What an `up` of the environment registers on an empty cluster, whose operators answer at once."""
    settings, inputs = environment(name)
    section = decrypted(settings)

    def declare() -> None:
        assemble(make_program(settings, inputs), pulumi.Output.from_input(section) if section["secrets"] else None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "wait_until_accepted", lambda *_: None)
        return record(declare, settings.stack, Echo({"kube-system": "here"}))


def golden(registrations: list[Registration]) -> str:
    """The registrations as a golden file: URNs by type and name, inputs by digest."""
    return yaml.safe_dump({_short(found.urn): _entry(found) for found in registrations}, width=120, sort_keys=True)


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
    """A URN without the stack's and the project's names."""
    return urn.split("::", 2)[2] if urn.startswith("urn:pulumi:") else urn


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_registers_what_it_did(name: str) -> None:
    """Type, name, parent, dependencies, provider, protect, retain, hooks, outputs and inputs are as on record."""
    assert golden(registered(name)) == (GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for environment_name in ENVIRONMENTS:
        (GOLDEN / f"{environment_name}.yaml").write_text(golden(registered(environment_name)), encoding="utf-8")
