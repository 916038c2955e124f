"""Docker's credential helpers, such as `docker-credential-ecr-login`: programs that keep the logins of registries.

Source: https://docs.docker.com/reference/cli/docker/login/#credential-helpers
"""

import json
import subprocess
from pathlib import Path

from trainstack.live.errors import shorten_to_end
from trainstack.live.registry_errors import RegistryError

_TIMEOUT_SECONDS = 60
"""A helper may request a token from a cloud."""
_NOT_FOUND = "credentials not found"
"""The helpers' answer for a registry that they have no login of."""
_SERVER_OF_DEFAULT_HOST = "https://index.docker.io/v1/"
"""The name under which helpers keep the login of Docker's registry."""


def read_login(helper: str, registry: str, file: Path, *, is_default_host: bool) -> tuple[str, str] | None:
    """Return user and secret from a credential helper; None if it has no login of the registry.

    The user `<token>` marks an identity token. `helper` is the name in the credential file, without the prefix
    `docker-credential-`. Raises RegistryError if the helper fails.
    """
    program = f"docker-credential-{helper}"
    origin = f"{program}, which {file} names for {registry},"
    try:
        result = subprocess.run(
            [program, "get"],
            input=_SERVER_OF_DEFAULT_HOST if is_default_host else registry,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise RegistryError(f"{origin} is not on PATH; install it, or remove the entry and log in again") from None
    except OSError as error:
        raise RegistryError(f"{origin} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise RegistryError(f"{origin} did not end within {_TIMEOUT_SECONDS} s; log in again") from None
    if result.returncode != 0:
        # Helpers print their errors to stdout.
        output = f"{result.stdout} {result.stderr}"
        if _NOT_FOUND in output.lower():
            return None
        raise RegistryError(f"{origin} failed: {shorten_to_end(output)}; log in again")
    try:
        body = json.loads(result.stdout)
        user, secret = body["Username"], body["Secret"]
    except (ValueError, KeyError, TypeError, RecursionError):
        user = secret = None
    if not isinstance(user, str) or not isinstance(secret, str):
        # The output may hold the secret, so the message has none of it.
        raise RegistryError(f"{origin} did not print a login; log in again")
    return (user, secret) if secret else None
