"""What precedes the apply of definitions that another state owns, or whose names terminating ones have."""

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
    """Other objects have hooks of their own."""
    done: list[tuple[Any, ...]] = []
    monkeypatch.setattr(assemble, "wait_until_replaceable", lambda manifest, *_: done.append(("wait", manifest)))
    monkeypatch.setattr(assemble, "transfer", lambda *given: done.append(("transfer", *given)))
    program = make_program(*committed("dev"))
    terminating, taken = program.declared.definitions.manifests
    namespace, *_ = program.declared.namespaces.manifests
    metadata = {"annotations": {STATE: OTHER}}
    program = replace(
        program, replacements={"1": terminating, "2": namespace}, taken=((taken, metadata), (namespace, metadata))
    )
    before = assemble._before_definitions(program)
    assert {*before} == {terminating["metadata"]["name"], taken["metadata"]["name"]}
    for work in (*before[terminating["metadata"]["name"]], *before[taken["metadata"]["name"]]):
        work()
    assert done == [("wait", terminating), ("transfer", taken, OTHER, OWN, None)]
