"""Credential plugins that fail: exit 5, one line with the command, its error output and how to log in again."""

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.live.conftest import Use
from tests.unit.live.fake_cluster import FakeCluster
from tests.unit.live.plugins import API, make_output, make_user, printing, runs, write_plugin
from trainstack.errors import ExitCode
from trainstack.live import credential_plugin
from trainstack.live.client import PermanentError, reach

SECRET = "s3cr3t-value"


def failure(file: Path) -> PermanentError:
    """Return the error of a connection, whose rules all failures of plugins share."""
    with pytest.raises(PermanentError) as caught:
        reach(None)
    message = str(caught.value)
    assert caught.value.exit_code == ExitCode.UNREACHABLE
    assert "\n" not in message
    assert message.isprintable()
    assert "127.0.0.1" in message
    assert str(file) in message
    assert SECRET not in message
    return caught.value


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "echo 'Token has expired and refresh failed' >&2; exit 255",
            "exited with 255: Token has expired and refresh failed",
        ),
        ("exit 1", "exited with 1"),
        (r"printf '\033[31mnot\033[0m\nlogged \007in\n' >&2; exit 2", r"exited with 2: not logged \x07in"),
        ("kill -9 $$", "was ended by signal 9"),
        ("", "printed nothing"),
        ("echo 'login first' >&2", "printed nothing: login first"),
        (f"echo {SECRET}", "printed 13 bytes that are not JSON"),
        ("printf '\\377\\376'", "printed 2 bytes that are not JSON"),
        ("head -c 2000000 /dev/zero", "printed more than 1048576 bytes"),
        (f"{sys.executable} -c 'print(\"[\" * 200000)'", "that are not JSON"),
    ],
)
def test_a_plugin_that_fails_is_named_with_its_reason(
    cluster: FakeCluster, use: Use, tmp_path: Path, script: str, reason: str
) -> None:
    """What it prints on stdout may be a secret, so that only its error output is in the message."""
    file = write_plugin(tmp_path, script)
    use(make_user(file))
    error = failure(file)
    assert reason in error.message
    assert error.remedy == f"log in again, and check that this succeeds: {file}"
    assert cluster.requests == []


OUTPUTS = {
    "list": ("[]", "printed JSON that is not an ExecCredential"),
    "null": ("null", "printed JSON that is not an ExecCredential"),
    "number": ("7", "printed JSON that is not an ExecCredential"),
    "kind": (make_output(kind="Status"), 'printed an object of kind "Status" instead of ExecCredential'),
    "no-kind": (make_output(kind=None), "printed an object of kind (none) instead of ExecCredential"),
    "list-kind": (make_output(kind=[]), "printed an object of kind (none) instead of ExecCredential"),
    "version": (make_output(apiVersion="client.authentication.k8s.io/v1"), f"instead of {API}"),
    "no-status": (make_output(status=None), "printed an ExecCredential without a status"),
    "list-status": (make_output(status=[SECRET]), "printed an ExecCredential without a status"),
    "no-token": (make_output(None), "printed neither a token nor a client certificate"),
    "empty-token": (make_output(""), "printed neither a token nor a client certificate"),
    "null-token": (make_output(status={"token": None}), "printed neither a token nor a client certificate"),
    "number-token": (make_output(status={"token": 7}), "printed a token that is not a text"),
    "newline": (make_output(f"{SECRET}\n"), "printed a token with a line break"),
    "unicode": (make_output(f"{SECRET}é"), "printed a token with a line break, a space or another character"),
    "certificate": (make_output(status={"clientCertificateData": SECRET}), "printed a client certificate or its key"),
    "bad-certificate": (
        make_output(status={"clientCertificateData": "-----" + SECRET, "clientKeyData": "-----x"}),
        "has a certificate that cannot be used",
    ),
    "plain-certificate": (
        make_output(status={"clientCertificateData": "abc", "clientKeyData": "def"}),
        "has a certificate that cannot be used",
    ),
    "time": (make_output(status={"token": "t", "expirationTimestamp": "tomorrow"}), 'expirationTimestamp "tomorrow"'),
    "time-number": (make_output(status={"token": "t", "expirationTimestamp": 7}), 'expirationTimestamp "7"'),
    "time-zone": (
        make_output(status={"token": "t", "expirationTimestamp": "2026-01-02T03:04:05"}),
        'expirationTimestamp "2026-01-02T03:04:05", which is not an RFC 3339 time',
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_that_is_no_credential_is_described(use: Use, tmp_path: Path, name: str) -> None:
    """The rules are those of kubectl, so that the engine's provider does not fail later in other words."""
    output, reason = OUTPUTS[name]
    file = printing(tmp_path, output)
    use(make_user(file))
    assert reason in failure(file).message


@pytest.mark.parametrize("expires", ["0001-01-01T00:00:00Z", "2020-01-02T03:04:05+02:00", "9999-12-31T23:59:59-23:59"])
def test_a_credential_that_has_expired_is_used_once(
    cluster: FakeCluster, use: Use, tmp_path: Path, expires: str
) -> None:
    """The clocks may differ. If the server refuses it, the message has the time."""
    file = printing(tmp_path, make_output(status={"token": "good", "expirationTimestamp": expires}))
    use(make_user(file))
    reach(None)
    reach(None)
    assert runs(tmp_path) == 1
    cluster.accepts = lambda _: False
    message = failure(file).message
    assert ("expired at" in message) == (not expires.startswith("9999"))


@pytest.mark.parametrize("mode", [0o644, 0o755, None])
def test_a_plugin_that_cannot_be_started(use: Use, tmp_path: Path, mode: int | None) -> None:
    """It is missing, not executable or not a program; the kubeconfig may say how to install it."""
    file = tmp_path / "plugin"
    if mode is not None:
        file.write_bytes(b"\x00\x01")
        file.chmod(mode)
    use(make_user(file, installHint="install\nthe plugin: https://example.org"))
    error = failure(file)
    assert "cannot be started" in error.message
    assert error.remedy == "install the plugin: https://example.org"


def test_a_plugin_that_is_not_on_the_path(use: Use) -> None:
    use(make_user("no-such-plugin"))
    error = failure(Path("no-such-plugin"))
    assert "cannot be started: no-such-plugin is not on PATH" in error.message
    assert error.remedy == "install it, or correct the kubeconfig"


@pytest.mark.parametrize("script", ["exec sleep 30", "trap '' TERM; sleep 30 & wait", "sleep 30 &"])
def test_a_plugin_that_hangs_is_ended(use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Also one that ignores signals. A program that it leaves behind does not keep the command."""
    monkeypatch.setattr(credential_plugin, "_SECONDS", 1)
    monkeypatch.setattr(credential_plugin, "_ENDING_SECONDS", 0.1)
    file = write_plugin(tmp_path, f"echo 'opening the browser' >&2; {script}")
    use(make_user(file))
    start = time.monotonic()
    message = failure(file).message
    assert time.monotonic() - start < 20
    hung = script != "sleep 30 &"
    assert message.endswith(f"{'did not end in time' if hung else 'printed nothing'}: opening the browser")


def test_the_command_is_printed_without_secrets(use: Use, tmp_path: Path) -> None:
    """The line can be run by the user, who knows the secrets."""
    file = write_plugin(tmp_path, "exit 1")
    env = [{"name": "AWS_PROFILE", "value": "a b"}, {"name": "CLIENT_SECRET", "value": SECRET}]
    args = ["get-token", f"--client-secret={SECRET}", "--password", SECRET, "--cluster", "c 1"]
    use(make_user(file, args=args, env=env))
    command = f"'AWS_PROFILE=a b' CLIENT_SECRET=*** {file} get-token --client-secret=*** --password *** --cluster 'c 1'"
    assert f"`{command}`" in failure(file).message


def test_what_a_plugin_is_given(use: Use, tmp_path: Path) -> None:
    """As kubectl: KUBERNETES_EXEC_INFO, with the cluster if the kubeconfig asks for it, and the user's variables."""
    script = f'printf \'%s\' "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; printf \'%s %s\' "$A" "$1" > {tmp_path}/given'
    file = write_plugin(tmp_path, f"{script}; printf '%s' '{make_output()}'")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    plugin = {"env": [{"name": "A", "value": "1"}], "args": ["word"], "interactiveMode": "IfAvailable"}
    use(make_user(file, provideClusterInfo=True, **plugin), extensions=[extension])
    reach(None)
    info = json.loads((tmp_path / "info").read_text())
    assert (info["apiVersion"], info["kind"], info["spec"]["interactive"]) == (API, "ExecCredential", False)
    assert info["spec"]["cluster"]["server"].startswith("http://127.0.0.1:")
    assert info["spec"]["cluster"]["config"] == {"audience": "x"}
    assert (tmp_path / "given").read_text() == "1 word"
    use(make_user(file, **plugin))
    reach(None)
    assert "cluster" not in json.loads((tmp_path / "info").read_text())["spec"]


def test_a_plugin_that_needs_a_terminal(use: Use, tmp_path: Path) -> None:
    file = write_plugin(tmp_path, "exit 1")
    use(make_user(file, interactiveMode="Always"))
    error = failure(file)
    assert "requires a terminal" in error.message
    assert runs(tmp_path) == 0


def test_a_plugin_asks_its_user_at_a_terminal(use: Use, tmp_path: Path) -> None:
    """It reads the terminal, and its error output is shown while it waits."""
    file = write_plugin(
        tmp_path, f"echo 'code?' >&2; read code; test \"$code\" = 42 || exit 1; printf '%s' '{make_output()}'"
    )
    use(make_user(file, interactiveMode="IfAvailable"))
    controller, terminal = pty.openpty()
    command = [sys.executable, "-c", "from trainstack.live.client import reach; reach(None)"]
    with subprocess.Popen(command, stdin=terminal, stderr=subprocess.PIPE, env=os.environ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"code?\n"
        os.write(controller, b"42\n")
        assert process.wait(20) == 0, process.stderr.read()
    os.close(controller)
    os.close(terminal)


def test_an_old_interface_is_refused_before_the_plugin_runs(use: Use, tmp_path: Path) -> None:
    """Kubernetes' clients removed it."""
    file = write_plugin(tmp_path, "exit 1")
    use(make_user(file, apiVersion="client.authentication.k8s.io/v1alpha1"))
    assert "uses client.authentication.k8s.io/v1alpha1, which clients no longer support" in failure(file).message
    assert runs(tmp_path) == 0
