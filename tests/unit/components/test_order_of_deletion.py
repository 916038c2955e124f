"""A resource is deleted after all that depend on it, and after its children.

The engine's state has only the dependencies that do not follow from others.
"""

from collections.abc import Mapping

import pulumi
import pytest

from tests.registrations.recorder import Echo, Registration, record
from tests.unit.environments import COMMITTED, committed, decrypted, make_program, whole
from trainstack.components import operators
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import Queues
from trainstack.settings.sections.storage import Storage
from trainstack.stacks.assemble import assemble

EMPTY: Mapping[str, Mapping[str, object]] = {
    "no queues": {"queues": Queues()},
    "no operators": {"operators": Operators()},
    "no volumes": {"storage": Storage()},
    "no platform objects but namespaces": {"queues": Queues(), "operators": Operators(), "storage": Storage()},
}
"""Sections of the environment with everything: no resource depends on a component without objects."""


@pytest.fixture(autouse=True)
def _operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operators respond at once."""
    monkeypatch.setattr(operators, "wait_until_accepted", lambda *_: None)
    monkeypatch.setattr(operators, "migrate_stored_objects", lambda *_: [])
    monkeypatch.setattr(operators, "add_runtime_patches", lambda *_: [])


def registered(name: str) -> dict[str, Registration]:
    """Return the registrations of an environment by URN."""
    settings, inputs = committed(name) if name in COMMITTED else whole()
    changed: Settings = settings.model_copy(update=EMPTY.get(name, {}))
    sealed = decrypted(changed)

    def declare() -> None:
        assemble(make_program(changed, inputs), pulumi.Output.from_input(sealed) if sealed["secrets"] else None)

    return {
        registrations.urn: registrations
        for registrations in record(declare, changed.stack, Echo({"kube-system": "here"}))
    }


def dependencies(registrations: Mapping[str, Registration], urn: str) -> set[str]:
    """Return the URNs of all direct and indirect dependencies of a resource; a child depends on its parent."""
    result: set[str] = set()
    left = [urn]
    while left:
        options = registrations[left.pop()].options
        direct = {*options.get("dependencies", ()), options.get("parent", ""), options.get("provider", "")} - {""}
        left += direct - result
        result |= direct
    return result


@pytest.mark.parametrize("name", [*COMMITTED, "whole", *EMPTY])
def test_the_guard_is_deleted_first(name: str) -> None:
    """Nothing is deleted if its hook refuses the destroy."""
    registrations = registered(name)
    (guard,) = (urn for urn, item in registrations.items() if item.type == "trainstack:teardown:Guard")
    objects = {urn for urn, item in registrations.items() if item.parent}
    assert objects <= dependencies(registrations, guard)


@pytest.mark.parametrize("name", [*COMMITTED, "whole", *EMPTY])
def test_components_are_deleted_in_reverse(name: str) -> None:
    """Runs and sweeps are deleted first, then volumes, queues, operators and their needs; rights of teams anytime."""
    registrations = registered(name)
    types = {urn: item.type.rpartition(":")[2] for urn, item in registrations.items()}
    stages = (
        {"Namespaces"},
        {"StorageClasses", "Secrets", "Definitions"},
        {"Operator"},
        {"Queues"},
        {"Volumes"},
        {"Runs", "Sweep"},
    )
    earlier: set[str] = set()
    for stage in stages:
        components = {urn for urn, type_ in types.items() if type_ in stage}
        for component in components:
            assert earlier <= dependencies(registrations, component), component
        earlier |= {urn for urn, item in registrations.items() if item.options.get("parent") in components}
