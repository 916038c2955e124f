"""The language host's own rules; with an engine it is tested on the cluster."""

import ctypes
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pulumi
import pytest

from trainstack.dev.toolchain import language_host, lock


def failure_of(program: Path) -> BaseException:
    """The error that running a program raises."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011  any error of the program
        language_host._execute(str(program))
    return caught.value


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the engine is told of errors."""
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", messages.append)
    return messages


def test_required_packages_name_the_installed_provider() -> None:
    """The plugin that the engine looks for is the one of the locked SDK."""
    (package,) = language_host.required_packages()
    assert (package.name, package.kind, package.version) == (
        "kubernetes",
        "resource",
        f"v{lock.version('pulumi-kubernetes')}",
    )


def test_error_shows_the_programs_own_frames_only(tmp_path: Path, told: list[str]) -> None:
    """What runs the program is of no interest to the person who wrote it."""
    main = tmp_path / "__main__.py"
    main.write_text("def fail():\n    raise ValueError('no such thing')\n\n\nfail()\n")
    response = language_host._failure(failure_of(tmp_path), str(tmp_path))
    assert response.bail
    assert not response.error
    (message,) = told
    assert message.startswith("Program failed with an unhandled exception:\nTraceback (most recent call last):\n")
    assert f'File "{main}", line 5, in <module>' in message
    assert message.endswith("ValueError: no such thing\n")
    assert "runpy" not in message
    assert "language_host" not in message


def test_error_in_the_programs_syntax_is_shown_whole(tmp_path: Path, told: list[str]) -> None:
    """There is no frame of the program's yet."""
    (tmp_path / "__main__.py").write_text("def :\n")
    language_host._failure(failure_of(tmp_path), str(tmp_path))
    assert "SyntaxError" in told[0]
    assert "__main__.py" in told[0]


def test_run_error_is_shown_without_a_traceback(tmp_path: Path, told: list[str]) -> None:
    """Its text says what to do; where it was raised does not matter."""
    (tmp_path / "__main__.py").write_text("import pulumi\nraise pulumi.RunError('queue is unknown')\n")
    assert language_host._failure(failure_of(tmp_path), str(tmp_path)).bail
    assert told == ["queue is unknown"]


def test_missing_program_is_named(tmp_path: Path, told: list[str]) -> None:
    """As by the official host."""
    language_host._failure(failure_of(tmp_path), str(tmp_path))
    assert told == [f"unable to find main python program `__main__.py` in `{tmp_path}`"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (None, ""),
        (0, ""),
        (3, "Program exited with non-zero exit code: 3"),
        ("sorry", "Program exited with non-zero exit code: 1"),
    ],
)
def test_exit_code_of_the_program_decides(code: object, error: str) -> None:
    """`sys.exit` in a program means what it means everywhere."""
    response = language_host._failure(SystemExit(code), ".")
    assert (response.error, response.bail) == (error, False)


def test_end_of_the_engine_is_no_error_of_the_program(told: list[str]) -> None:
    """After Ctrl-C the engine closes its monitor, and has said why itself."""

    class Unavailable(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

    response = language_host._failure(Unavailable(), ".")
    assert (response.error, response.bail, told) == ("", False, [])


def test_host_imports_no_provider_sdk() -> None:
    """Every command starts the host: it pays for what the program imports only where the program runs."""
    assert "pulumi_kubernetes" not in Path(language_host.__file__).read_text()
    assert sys.modules["pulumi"] is pulumi


def test_an_interrupt_ends_the_host_whichever_thread_receives_it() -> None:
    """The engine waits five seconds for a host that misses its SIGINT."""
    command = [sys.executable, "-m", language_host.__name__, "127.0.0.1:1"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert int(host.stdout.readline()) > 0
        threads = [int(thread.name) for thread in Path(f"/proc/{host.pid}/task").iterdir()]
        other = next(thread for thread in threads if thread != host.pid)
        try:
            ctypes.CDLL(None).tgkill(host.pid, other, signal.SIGINT)
            assert host.wait(timeout=60) == -signal.SIGINT
        finally:
            host.kill()
