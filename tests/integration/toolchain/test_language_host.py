"""The rules of our language host; the tests on the cluster run it with an engine."""

import ctypes
import json
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pulumi
import pytest

from trainstack.toolchain import language_host, program_run, python_locks
from trainstack.toolchain.protocol import language_pb2, language_pb2_grpc

ROOT = Path(__file__).parents[3]


def failure_of(program: Path) -> BaseException:
    """Return the error of a run of a program."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011  any error of the program
        program_run._execute(str(program))
    return caught.value


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Provide the list of the errors that are logged to the engine."""
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", messages.append)
    return messages


def test_required_packages_name_the_installed_provider() -> None:
    """The engine searches for the plugin of the locked SDK."""
    (package,) = language_host.required_packages()
    assert (package.name, package.kind, package.version) == (
        "kubernetes",
        "resource",
        f"v{python_locks.version('pulumi-kubernetes')}",
    )


def test_error_shows_the_programs_own_frames_only(tmp_path: Path, errors: list[str]) -> None:
    """The frames of the host do not help the author of the program."""
    main = tmp_path / "__main__.py"
    main.write_text("def fail():\n    raise ValueError('no such thing')\n\n\nfail()\n")
    response = program_run._report_failure(failure_of(tmp_path), str(tmp_path))
    assert response.bail
    assert not response.error
    (message,) = errors
    assert message.startswith("Program failed with an unhandled exception:\nTraceback (most recent call last):\n")
    assert f'File "{main}", line 5, in <module>' in message
    assert message.endswith("ValueError: no such thing\n")
    assert "runpy" not in message
    assert "language_host" not in message


def test_error_in_the_programs_syntax_is_shown_completely(tmp_path: Path, errors: list[str]) -> None:
    """The program has no frame yet."""
    (tmp_path / "__main__.py").write_text("def :\n")
    program_run._report_failure(failure_of(tmp_path), str(tmp_path))
    assert "SyntaxError" in errors[0]
    assert "__main__.py" in errors[0]


def test_run_error_is_shown_without_a_traceback(tmp_path: Path, errors: list[str]) -> None:
    """Its text has the remedy; the place in our code does not matter."""
    (tmp_path / "__main__.py").write_text("import pulumi\nraise pulumi.RunError('queue is unknown')\n")
    assert program_run._report_failure(failure_of(tmp_path), str(tmp_path)).bail
    assert errors == ["queue is unknown"]


def test_missing_program_is_named(tmp_path: Path, errors: list[str]) -> None:
    """The error is that of the official host."""
    program_run._report_failure(failure_of(tmp_path), str(tmp_path))
    assert errors == [f"unable to find main python program `__main__.py` in `{tmp_path}`"]


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
    """`sys.exit` has its usual meaning."""
    response = program_run._report_failure(SystemExit(code), ".")
    assert (response.error, response.bail) == (error, False)


def test_end_of_the_engine_is_no_error_of_the_program(errors: list[str]) -> None:
    """After Ctrl-C the engine closes its monitor, and has already reported the reason."""

    class Unavailable(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

    response = program_run._report_failure(Unavailable(), ".")
    assert (response.error, response.bail, errors) == ("", False, [])


def test_a_host_imports_no_sdk_until_a_program_runs() -> None:
    """A separate host answers the engine before the program's host; later the SDK is complete."""
    program = (
        "import json, sys\n"
        "from trainstack.toolchain import language_host\n"
        "before = {'pulumi', 'pulumi.runtime', 'pulumi_kubernetes'} & sys.modules.keys()\n"
        "from trainstack.toolchain import program_run\n"
        "import pulumi\n"
        "same = pulumi.runtime.proto.language_pb2 is language_host.language_pb2\n"
        "print(json.dumps([[*before], same, 'pulumi_kubernetes' in sys.modules]))\n"
    )
    process = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(process.stdout) == [[], True, False]


def test_an_interrupt_ends_the_host_whichever_thread_receives_it() -> None:
    """The engine waits five seconds for a host that ignores SIGINT."""
    command = [sys.executable, "-m", language_host.__name__, "127.0.0.1:1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert int(host.stdout.readline()) > 0
        threads = [int(thread.name) for thread in Path(f"/proc/{host.pid}/task").iterdir()]
        other = next(thread for thread in threads if thread != host.pid)
        try:
            ctypes.CDLL(None).tgkill(host.pid, other, signal.SIGINT)
            assert host.wait(timeout=60) == -signal.SIGINT
        finally:
            host.kill()


def test_an_sdk_that_cannot_be_imported_is_reported() -> None:
    """The engine shows the message of the response, and the host's stderr with the place of the error."""
    program = (
        "import sys\n"
        "from trainstack.toolchain import language_host\n"
        "sys.modules['pulumi.runtime.stack'] = None\n"
        "language_host.main()\n"
    )
    command = [sys.executable, "-c", program, "127.0.0.1:1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        with grpc.insecure_channel(f"127.0.0.1:{int(host.stdout.readline())}") as channel:
            stub = language_pb2_grpc.LanguageRuntimeStub(channel)
            with pytest.raises(grpc.RpcError, match=r"pulumi\.runtime\.stack"):
                stub.Run(language_pb2.RunRequest(), timeout=60)
        host.kill()
        assert host.stderr is not None
        assert "program_run.py" in host.stderr.read()
