"""The steps before the apply of definitions that another state owns, or whose names terminating ones have."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.environments import OWN, committed, make_program
from trainstack.objects.labels import STATE
from trainstack.stacks import assemble

OTHER = "b" * 32


def test_a_terminating_definition_is_awaited_and_fields_of_another_state_are_transferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other objects have their own hooks."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(assemble, "wait_until_replaceable", lambda manifest, *_: calls.append(("wait", manifest)))
    monkeypatch.setattr(assemble, "transfer_fields", lambda *arguments: calls.append(("transfer", *arguments)))
    program = make_program(*committed("dev"))
    terminating, transferred, *_ = program.stack_objects.definitions.manifests
    namespace, *_ = program.stack_objects.namespaces.manifests
    metadata = {"annotations": {STATE: OTHER}}
    program = replace(
        program,
        replacements={"1": terminating, "2": namespace},
        takeovers=((transferred, metadata), (namespace, metadata)),
    )
    steps = assemble._definition_preparations(program)
    assert {*steps} == {terminating["metadata"]["name"], transferred["metadata"]["name"]}
    for work in (*steps[terminating["metadata"]["name"]], *steps[transferred["metadata"]["name"]]):
        work()
    assert calls == [("wait", terminating), ("transfer", transferred, OTHER, OWN, None)]
