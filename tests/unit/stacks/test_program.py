"""Refusals of the program before it reads the cluster."""

import errno
import runpy
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pulumi
import pytest

from trainstack.errors import RefusedError
from trainstack.stacks import declare_stack, program

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def secret_queues(restored_sdk: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide an engine that holds the section `queues` as a secret."""
    monkeypatch.setattr(pulumi.config, "get_project", lambda: "trainstack")
    monkeypatch.setattr(program, "request_engine_state", Future)
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


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RefusedError("pod a\x1b[2J\u202e is active"), "pod a\\u202e is active"),
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), "/tmp/x: No space left on device; free space on"),
    ],
)
def test_an_error_is_one_message_without_what_controls_a_terminal(
    monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    """The engine prints it as it is."""

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(pulumi, "get_stack", lambda: "dev")
    monkeypatch.setattr(declare_stack, "_engine_sections", lambda _: {})
    monkeypatch.setattr(declare_stack, "teardown_permission", lambda *_: None)
    monkeypatch.setattr(declare_stack, "check_files", refuse)
    with pytest.raises(pulumi.RunError) as caught:
        declare_stack.declare_stack(ROOT, Future())
    assert str(caught.value).startswith(message)
