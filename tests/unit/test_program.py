"""Refusals of the program before it reads the cluster."""

import runpy
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pulumi
import pytest
from pulumi.runtime import resource

from trainstack.stacks import program

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def secret_queues(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide an engine that holds the section `queues` as a secret."""
    monkeypatch.setattr(pulumi.config, "get_project", lambda: "trainstack")
    monkeypatch.setattr(program, "request_engine_state", Future)
    # The program replaces this function; other tests need the SDK's.
    monkeypatch.setattr(resource, "_get_stack_trace", resource._get_stack_trace)
    pulumi.runtime.set_all_config({"trainstack:queues": "{}"}, ["trainstack:queues"])
    yield
    pulumi.runtime.set_all_config({}, [])


@pytest.mark.usefixtures("secret_queues")
def test_a_section_that_holds_a_secret_is_refused() -> None:
    """The message has the section, and the section for secrets."""
    with pytest.raises(pulumi.RunError) as caught:
        runpy.run_path(str(ROOT / "__main__.py"))
    assert str(caught.value) == (
        "trainstack:queues: contains a secret, which would be written into objects in plain text; move the value to "
        "trainstack:secrets"
    )
