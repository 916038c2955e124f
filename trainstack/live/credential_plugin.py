"""Credential plugins of kubeconfigs (`exec`), such as `aws eks get-token`, run in the same way as by kubectl.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

import base64
import json
import os
import re
import selectors
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trainstack.live.access import Access, Plugin
from trainstack.live.errors import PermanentError, login_remedy, quote_beginning, shorten_to_end

_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_SECONDS = 60
"""The deadline of a plugin without a terminal."""
_LOGIN_SECONDS = 300
"""The deadline of a plugin with a terminal, which may wait for the user's login."""
_ENDING_SECONDS = 2
"""The time that a plugin has to end after SIGTERM, before it is killed."""
_POLL_SECONDS = 0.05
_MAX_BYTES = 1 << 20
"""The limit of a plugin's output. A credential has a few kilobytes."""
_CLUSTER_CONFIG = "client.authentication.k8s.io/exec"
"""The name of the cluster's extension that plugins receive as the cluster's `config`."""
_SECRET_OPTION = re.compile(r"-.*(secret|password|passwd|token)", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r".*(SECRET|PASSWORD|PASSWD|TOKEN|KEY)", re.IGNORECASE)
_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class UserCredential:
    """A bearer token, a client certificate with its key, or both; "" for what is absent."""

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    """PEM, as `key`."""
    key: str = field(default="", repr=False)
    expires: datetime | None = None


class PluginError(PermanentError):
    """A credential plugin returned no credential. The message contains its command and its error output."""

    def __init__(self, access: Access, plugin: Plugin, reason: str, remedy: str = "") -> None:
        command = command_line(plugin)
        super().__init__(
            f"the credential plugin `{command}` of {access.description} {reason}", remedy or login_remedy(command)
        )


class _OutputError(Exception):
    """The output is not that of a credential plugin."""


def command_line(plugin: Plugin) -> str:
    """Return the plugin's variables and command for a shell, with `***` in the place of secrets."""
    words = [
        f"{variable.name}={'***' if _SECRET_VARIABLE.fullmatch(variable.name) else variable.value}"
        for variable in plugin.env
    ]
    words.append(plugin.command)
    hide_next = False
    for word in plugin.args:
        option, equals, _ = word.partition("=")
        is_secret = _SECRET_OPTION.fullmatch(option) is not None
        words.append("***" if hide_next else f"{option}=***" if is_secret and equals else word)
        hide_next = is_secret and not equals
    # shlex would quote the asterisks.
    return " ".join(word if word.endswith("***") else shlex.quote(word) for word in words)


def is_header_value(token: str) -> bool:
    """Return whether a token is valid in an HTTP header."""
    return _HEADER_VALUE.fullmatch(token) is not None


def run_plugin(access: Access, plugin: Plugin) -> UserCredential:
    """Run the plugin of a kubeconfig's user, and return its credential. Raises PluginError."""
    if plugin.api_version not in _API_VERSIONS:
        reason = f"uses {plugin.api_version}, which clients no longer support"
        raise PluginError(access, plugin, reason, "write the kubeconfig again with a current version of its tool")
    interactive = plugin.interactive_mode != "Never" and _has_terminal()
    if plugin.interactive_mode == "Always" and not interactive:
        raise PluginError(access, plugin, "requires a terminal (interactiveMode: Always)", "run this in a terminal")
    try:
        result = _run(plugin, _environment(access, plugin, interactive=interactive), interactive=interactive)
    except (OSError, ValueError) as error:
        reason = f"cannot be started: {error.strerror or error if isinstance(error, OSError) else error}"
        hint = shorten_to_end(plugin.install_hint) if plugin.install_hint else "install it, or correct the kubeconfig"
        raise PluginError(access, plugin, reason, hint) from error
    try:
        return _parse_credential(result, plugin)
    except _OutputError as error:
        details = shorten_to_end(result.stderr)
        raise PluginError(access, plugin, f"{error}{f': {details}' if details else ''}") from error


def _has_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


def _environment(access: Access, plugin: Plugin, *, interactive: bool) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provides_cluster_info:
        entry = {**access.cluster_entry}
        extensions = entry.pop("extensions", None) or ()
        entry.pop("certificate-authority", None)
        if authority := access.read_authority():
            entry["certificate-authority-data"] = base64.b64encode(authority.encode("latin-1")).decode()
        for extension in extensions:
            if isinstance(extension, Mapping) and extension.get("name") == _CLUSTER_CONFIG:
                entry["config"] = extension.get("extension")
        spec["cluster"] = entry
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return {
        **os.environ,
        **{variable.name: variable.value for variable in plugin.env},
        "KUBERNETES_EXEC_INFO": json.dumps(info),
    }


@dataclass(frozen=True)
class _PluginResult:
    """The exit code and the output of a plugin."""

    exit_code: int | None
    """None: the plugin did not end in time."""
    stdout: bytes
    stderr: str


def _run(plugin: Plugin, environment: Mapping[str, str], *, interactive: bool) -> _PluginResult:
    program = plugin.command if os.sep in plugin.command else shutil.which(plugin.command)
    if program is None:
        raise FileNotFoundError(f"{plugin.command} is not on PATH, or not executable")
    process = subprocess.Popen(
        [program, *plugin.args],
        env=environment,
        stdin=None if interactive else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    with process:
        try:
            output, errors = _read_pipes(process, _LOGIN_SECONDS if interactive else _SECONDS, show_errors=interactive)
            return _PluginResult(process.poll(), output, errors.decode(errors="replace"))
        finally:
            _terminate(process)


def _read_pipes(process: subprocess.Popen[bytes], seconds: float, *, show_errors: bool) -> tuple[bytes, bytes]:
    """Return stdout and stderr of a process until it ends, `seconds` have passed, or its output is too long."""
    output, errors = bytearray(), bytearray()
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for pipe, received in ((process.stdout, output), (process.stderr, errors)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, received)
        while selector.get_map() and time.monotonic() < deadline and len(output) <= _MAX_BYTES:
            has_ended = process.poll() is not None
            ready = selector.select(_POLL_SECONDS)
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.data is errors and show_errors:
                    # The plugin may print how to log in, and wait for it.
                    sys.stderr.buffer.write(chunk)
                    sys.stderr.buffer.flush()
                del errors[:-_MAX_BYTES]
            # A program that the plugin started may keep the pipes open after the plugin has ended.
            if has_ended and not ready:
                break
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0, deadline - time.monotonic()) if len(output) <= _MAX_BYTES else 0)
    return bytes(output), bytes(errors)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _parse_credential(result: _PluginResult, plugin: Plugin) -> UserCredential:
    """Parse a plugin's output by the rules of client-go. Raises _OutputError.

    Messages contain only fields that cannot be secrets.
    """
    if len(result.stdout) > _MAX_BYTES:
        raise _OutputError(f"printed more than {_MAX_BYTES} bytes")
    if result.exit_code is None:
        raise _OutputError("did not end in time")
    if result.exit_code:
        raise _OutputError(
            f"exited with {result.exit_code}" if result.exit_code > 0 else f"was ended by signal {-result.exit_code}"
        )
    status = _parse_status(result.stdout, plugin.api_version)
    values = {name: status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData")}
    for name, value in values.items():
        if not isinstance(value, str):
            raise _OutputError(f"printed a {name} that is not a text")
    token, certificate, key = values.values()
    if not token and not certificate and not key:
        raise _OutputError("printed neither a token nor a client certificate")
    if bool(certificate) != bool(key):
        raise _OutputError("printed a client certificate or its key, and not both")
    if token and not is_header_value(token):
        raise _OutputError("printed a token with a line break, a space or another character that no request can carry")
    return UserCredential(token, certificate, key, _parse_expiry(status.get("expirationTimestamp")))


def _parse_status(output: bytes, api_version: str) -> Mapping[str, Any]:
    if not output.strip():
        raise _OutputError("printed nothing")
    try:
        document = json.loads(output)
    except (ValueError, RecursionError):
        raise _OutputError(f"printed {len(output)} bytes that are not JSON") from None
    if not isinstance(document, dict):
        raise _OutputError("printed JSON that is not an ExecCredential")
    if document.get("kind") != "ExecCredential":
        raise _OutputError(
            f"printed an object of kind {_quote_or_none(document.get('kind'))} instead of ExecCredential"
        )
    if document.get("apiVersion") != api_version:
        raise _OutputError(f"printed apiVersion {_quote_or_none(document.get('apiVersion'))} instead of {api_version}")
    status = document.get("status")
    if not isinstance(status, dict):
        raise _OutputError("printed an ExecCredential without a status")
    return status


def _quote_or_none(value: object) -> str:
    return quote_beginning(value) if isinstance(value, str) else "(none)"


def _parse_expiry(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        expires = datetime.fromisoformat(str(value))
    except ValueError:
        expires = None
    if expires is None or expires.tzinfo is None:
        raise _OutputError(
            f"printed the expirationTimestamp {quote_beginning(str(value))}, which is not an RFC 3339 time"
        )
    return expires
