"""Docker's credential helpers, such as `docker-credential-ecr-login`: programs that keep the logins of registries.

Source: https://docs.docker.com/reference/cli/docker/login/#credential-helpers
"""

import json
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from trainstack.live.errors import shorten_to_end
from trainstack.live.registry_errors import CredentialsError

_TIMEOUT_SECONDS = 60
"""A helper may request a token from a cloud."""
_NOT_FOUND = "credentials not found in native keychain"
"""The whole output of a helper that has no login of the registry.

Source: https://github.com/docker/docker-credential-helpers/blob/master/credentials/error.go
"""


@dataclass(frozen=True)
class _Answer:
    login: tuple[str, str] | None = None
    failure: str = ""
    """The predicate of an error message; empty if the helper succeeded."""


_answers: dict[tuple[str, str], _Answer] = {}
"""By the helper's path and the server that it was asked for."""
_locks: dict[tuple[str, str], threading.Lock] = {}
"""By the keys of `_answers`."""


def read_login(helper: str, server: str, registry: str, file: Path) -> tuple[str, str] | None:
    """Return user and secret from a credential helper; None if it has no login. Raises CredentialsError if it fails.

    A helper runs once for a server in this process, whose threads share its answer. The user `<token>` marks an
    identity token.

    Args:
        helper: the name in the credential file, without the prefix `docker-credential-`.
        server: the name under which the helper keeps the login.
        registry: the registry's host, for the message.
        file: the credential file, for the message.

    """
    program = f"docker-credential-{helper}"
    origin = f"{program}, which {file} names for {registry},"
    path = shutil.which(program)
    if path is None:
        raise CredentialsError(f"{origin} is not on PATH; install it, or remove the entry and log in again")
    key = path, server
    # setdefault is atomic.
    with _locks.setdefault(key, threading.Lock()):
        if key not in _answers:
            _answers[key] = _run(path, server)
        answer = _answers[key]
    if answer.failure:
        raise CredentialsError(f"{origin} {answer.failure}")
    return answer.login


def _run(program: str, server: str) -> _Answer:
    try:
        result = subprocess.run(
            [program, "get"],
            input=server,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        return _Answer(failure=f"cannot be started: {error.strerror}; install it again")
    except subprocess.TimeoutExpired:
        return _Answer(failure=f"did not end within {_TIMEOUT_SECONDS} s; log in again")
    if result.returncode != 0:
        # Helpers print their errors to stdout.
        if result.stdout.strip() == _NOT_FOUND:
            return _Answer()
        return _Answer(failure=f"failed: {shorten_to_end(f'{result.stdout} {result.stderr}')}; log in again")
    try:
        body = json.loads(result.stdout)
        user, secret = body["Username"], body["Secret"]
    except (ValueError, KeyError, TypeError, RecursionError):
        user = secret = None
    if not isinstance(user, str) or not isinstance(secret, str):
        # The output may hold the secret, so the message has none of it.
        return _Answer(failure="did not print a login; log in again")
    # A login without a secret is none, as in containers/image.
    return _Answer((user, secret) if secret else None)
