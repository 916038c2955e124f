"""The SDK's debug messages, which cost a call of the engine each."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pulumi
import pytest

from trainstack.stacks import debug_messages


@contextmanager
def process_of_engine(*arguments: str) -> Iterator[int]:
    """Return a process started by a program named `pulumi` with these arguments."""
    program = "import subprocess; child = subprocess.Popen('cat'); print(child.pid, flush=True); child.wait()"
    command = ["/tools/pulumi", "-c", program, *arguments]
    with subprocess.Popen(
        command, executable=sys.executable, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as engine:
        assert engine.stdout is not None
        try:
            yield int(engine.stdout.readline())
        finally:
            engine.communicate()


@pytest.fixture(autouse=True)
def sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the SDK after the test."""
    monkeypatch.setattr(pulumi.log, "debug", pulumi.log.debug)


def test_the_engine_is_found_among_the_ancestors() -> None:
    """The official language host is between the engine and the program."""
    with process_of_engine("preview", "--debug") as process:
        arguments = debug_messages.engine_arguments(process)
    assert arguments is not None
    assert arguments[2:4] == ["preview", "--debug"]
    assert debug_messages.engine_arguments(1) is None


@pytest.mark.parametrize(
    ("arguments", "variable", "dropped"),
    [
        (["preview", "--json", "-s", "dev"], "", True),
        (["preview", "--diff", "--stack", "dev"], "", True),
        (["preview", "--debug"], "", False),
        (["up", "-yd"], "", False),
        (["up", "--logtostderr", "-v=9"], "", False),
        (["up", "--logtostderr", "--verbose", "9"], "", False),
        (["preview"], "DEBUG", False),
        (["preview"], "VERBOSE", False),
        (None, "", False),
    ],
)
def test_messages_are_dropped_unless_the_engine_displays_them(
    monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str] | None, variable: str, dropped: bool
) -> None:
    """Messages are sent with `--debug` or `--verbose`, and to an engine whose options are unknown."""
    monkeypatch.setattr(debug_messages, "engine_arguments", lambda _: arguments)
    for name in ("DEBUG", "VERBOSE"):
        monkeypatch.setenv(f"PULUMI_OPTION_{name}", "9" if name == variable else "")
    debug_messages.drop_undisplayed_messages()
    assert (pulumi.log.debug is debug_messages._drop) is dropped
