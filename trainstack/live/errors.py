"""Errors of requests to an API server: of the kubeconfig, the network, proxies and the server. Each has a remedy."""

import json
import re
import time
from datetime import datetime

import httpx

from trainstack.errors import ExitCode, TrainstackError
from trainstack.live import kubeconfig
from trainstack.printable import printable

_FIRST_CHARACTERS = 120
"""The length of the excerpt of an unexpected response in a message. It ends before the data of a Secret begins."""
_LAST_CHARACTERS = 400
"""The length of the excerpt of a program's error output in a message."""
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""A terminal's escape sequence, such as a color."""


class ClusterError(TrainstackError):
    """The cluster cannot be read. The message contains the server, the reason and the remedy."""

    exit_code = ExitCode.UNREACHABLE


class PermanentError(ClusterError):
    """A retry would fail again: the user has to change something, for example the kubeconfig."""


class RightsError(PermanentError):
    """The user lacks a right. The message names who can grant it."""

    exit_code = ExitCode.FAILED


class UnavailableError(ClusterError):
    """The API server, or a server behind it, does not respond in time, or reports that it is unavailable."""


class UnexpectedAnswerError(ClusterError):
    """The response is truncated, or a proxy or a login page sent it instead of an API server."""


def quote_beginning(text: str) -> str:
    """Return the first characters of a text as one printable line in quotes."""
    line = _one_line(text[: 4 * _FIRST_CHARACTERS])
    return f'"{line[:_FIRST_CHARACTERS]}{"…" if len(line) > _FIRST_CHARACTERS else ""}"'


def shorten_to_end(text: str) -> str:
    """Return the last characters of a program's output as one printable line, since errors are usually at its end."""
    line = _one_line(text[-4 * _LAST_CHARACTERS :])
    return line if len(line) <= _LAST_CHARACTERS else f"…{line[-_LAST_CHARACTERS:]}"


def _one_line(text: str) -> str:
    return printable(" ".join(_ESCAPE_SEQUENCE.sub("", text).split()))


def connection_setup_error(cluster: str, error: Exception) -> PermanentError:
    """Return the error of a connection that cannot be set up. `cluster`: context, server and file, for the message."""
    return PermanentError(
        f"no connection to the cluster of {cluster} can be set up: {_one_line(str(error))}",
        "correct server and proxy-url in the kubeconfig, and the variables HTTPS_PROXY, ALL_PROXY and NO_PROXY",
    )


def connection_error(cluster: str, error: Exception) -> ClusterError:
    """Return the error of a connection that fails."""
    if isinstance(error, httpx.InvalidURL):
        return connection_setup_error(cluster, error)
    reason = _one_line(str(error)) or type(error).__name__
    if isinstance(error, httpx.ProxyError) and "407" in reason:
        return proxy_login_error(cluster, reason)
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        remedy = "correct certificate-authority in the kubeconfig; or a proxy that answers in the server's place"
    else:
        remedy = "check that it is running, and that kubeconfig and context are the right ones"
    start_hint = ". Start the local cluster with: trainstack cluster up" if kubeconfig.is_local() else ""
    error_type = UnavailableError if isinstance(error, httpx.TimeoutException | TimeoutError) else ClusterError
    return error_type(f"cannot reach the cluster of {cluster}: {reason}", f"{remedy}{start_hint}")


def proxy_login_error(cluster: str, reason: str) -> PermanentError:
    """Return the error of a proxy that answers 407."""
    return PermanentError(
        f"a proxy before the cluster of {cluster} requires a login: {reason}",
        "log in to the proxy, or correct HTTPS_PROXY, NO_PROXY or the kubeconfig's proxy-url",
    )


def unauthorized_error(cluster: str, plugin: str, expires: datetime | None) -> PermanentError:
    """Return the error of a 401.

    `plugin`: the credential plugin's command, or ""; `expires`: the time at which the credential expires, if known.
    """
    expiry_note = f", which expired at {expires}" if expires is not None and expires.timestamp() < time.time() else ""
    return PermanentError(
        f"the cluster of {cluster} does not accept the credentials{expiry_note}",
        login_remedy(plugin) if plugin else "log in again, renew them, or point KUBECONFIG at another file",
    )


def login_remedy(plugin: str) -> str:
    """Return the remedy for credentials that a plugin provides."""
    return f"log in again, and check that this succeeds: {plugin}"


def unavailable_error(cluster: str, path: str, status: int, text: str) -> ClusterError | None:
    """Return the error of an overloaded or failing server (429 or 5xx), or None for any other status."""
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        reason = f" ({status_message(text)})" if text.strip() else ""
        message = f"the cluster of {cluster} answered {status} to {path}{reason}"
        return UnavailableError(message, "retry when it is healthy")
    return None


def unexpected_answer_error(cluster: str, path: str, status: int, fault: str, text: str) -> UnexpectedAnswerError:
    """Return the error of a response that no API server sends. `fault`: what is wrong with it, as a relative clause."""
    content = quote_beginning(text) if text.strip() else "an empty body"
    return UnexpectedAnswerError(
        f"the cluster of {cluster} answered {status} to {path} with {content}, {fault}",
        "if a proxy or a login page answered in its place, log in again, and check HTTPS_PROXY and the kubeconfig's "
        "server; otherwise retry when the cluster is healthy",
    )


def status_message(text: str) -> str:
    """Return the message of a Status, or the beginning of any other response."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    message = body.get("message") if isinstance(body, dict) else None
    return printable(message) if isinstance(message, str) else quote_beginning(text)


def unusable_kubeconfig_error(context: str | None, reason: str) -> PermanentError:
    """Return the error of a kubeconfig that cannot be used."""
    file = kubeconfig.display_path()
    subject = f"context {context!r} of {file}" if context else file
    remedy = "; the environment names it in trainstack:cluster: context" if context else ""
    return PermanentError(
        f"{subject} is not a usable kubeconfig ({reason}); check it with: kubectl config get-contexts{remedy}"
    )


def missing_kubeconfig_error() -> PermanentError:
    """Return the error of a kubeconfig that does not exist."""
    set_variable = "set KUBECONFIG to your cluster's file"
    start_or_set_variable = f"start the local cluster with `trainstack cluster up`, or {set_variable}"
    return PermanentError(
        f"no kubeconfig at {kubeconfig.display_path()}",
        start_or_set_variable if kubeconfig.is_local() else set_variable,
    )
