"""The backend that Pulumi selects, by Pulumi's rules.

Source: GetCurrentCloudURL in pkg/workspace/creds.go, getCredsFilePath in sdk/go/common/workspace/creds.go, and
ValueOrDefaultURL in pkg/backend/httpstate/backend.go, all of v3.250.
"""

import json
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from trainstack.settings.values.published_passphrase import PUBLISHED_PASSPHRASE
from trainstack.toolchain.errors import ToolchainError

PULUMI_CLOUD = "https://api.pulumi.com"
_STATE_FOLDER = ".trainstack"
"""The name of a checkout's state folder."""


def selected_url(checkout: Path, caller: Mapping[str, str] = os.environ) -> str | None:
    """Return the URL of the backend for a project that is not embedded; None if Pulumi is not logged in.

    Raises ToolchainError if a file that Pulumi reads is not valid.
    """
    variables = {name: value for name, value in caller.items() if value and name not in embedded_variables(caller)}
    credentials = _read_credentials(credentials_folder(variables) / "credentials.json")
    url = variables.get("PULUMI_BACKEND_URL") or _project_url(checkout / "Pulumi.yaml") or credentials.get("current")
    token = variables.get("PULUMI_ACCESS_TOKEN")
    # Pulumi logs in to its cloud by the token alone.
    if not url and token:
        url = variables.get("PULUMI_API") or PULUMI_CLOUD
    if url and url.startswith(("https://", "http://")) and not (token or _has_token(credentials, url.rstrip("/"))):
        return None
    return url or None


def credentials_folder(caller: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's `credentials.json`, which `pulumi login` writes."""
    home = "" if "PULUMI_HOME" in embedded_variables(caller) else caller.get("PULUMI_HOME")
    return Path(caller.get("PULUMI_CREDENTIALS_PATH") or home or _home(caller) / ".pulumi")


def _home(caller: Mapping[str, str]) -> Path:
    """Return the home folder as Pulumi does: that of the user's account, and HOME for a user without one."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        # In containers, users may have any id.
        return Path(caller.get("HOME") or "/")


def embedded_variables(caller: Mapping[str, str]) -> frozenset[str]:
    """Return the variables that select an embedded state or have its passphrase, as `trainstack env -s dev` sets them.

    Other stacks must not inherit them from a shell: the passphrase is published, and their state is elsewhere.
    """
    names = set()
    url = caller.get("PULUMI_BACKEND_URL", "")
    if url.startswith("file://") and _is_embedded_path(url.removeprefix("file://").partition("?")[0], "backend"):
        names.add("PULUMI_BACKEND_URL")
    if _is_embedded_path(caller.get("PULUMI_HOME", ""), "pulumi"):
        names.add("PULUMI_HOME")
    if caller.get("PULUMI_CONFIG_PASSPHRASE", "").strip() == PUBLISHED_PASSPHRASE:
        names.add("PULUMI_CONFIG_PASSPHRASE")
    file = caller.get("PULUMI_CONFIG_PASSPHRASE_FILE", "")
    if file and (_is_embedded_path(file, "passphrase") or _read_text(Path(file)) == PUBLISHED_PASSPHRASE):
        names.add("PULUMI_CONFIG_PASSPHRASE_FILE")
    return frozenset(names)


def _is_embedded_path(path: str, name: str) -> bool:
    return Path(path).parts[-2:] == (_STATE_FOLDER, name)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _project_url(file: Path) -> str | None:
    try:
        project = yaml.safe_load(file.read_bytes())
    except FileNotFoundError:
        return None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ToolchainError(f"{file} is not valid YAML: {error}", "correct the file") from error
    backend = project.get("backend") if isinstance(project, dict) else None
    url = backend.get("url") if isinstance(backend, dict) else None
    return str(url) if url else None


def _read_credentials(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
        parsed = json.loads(text) if text else None
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ToolchainError(f"{file} is not valid JSON: {error}", "delete it and run `pulumi login`") from error
    credentials: dict[str, Any] = {} if parsed is None else parsed
    if not _is_valid(credentials):
        raise ToolchainError(f"{file} is not a file of `pulumi login`", "delete it and run `pulumi login`")
    return credentials


def _is_valid(credentials: Any) -> bool:
    if not isinstance(credentials, dict):
        return False
    accounts, tokens = credentials.get("accounts") or {}, credentials.get("accessTokens") or {}
    return (
        isinstance(credentials.get("current") or "", str)
        and isinstance(tokens, dict)
        and isinstance(accounts, dict)
        and all(isinstance(account or {}, dict) for account in accounts.values())
    )


def _has_token(credentials: Mapping[str, Any], url: str) -> bool:
    account = (credentials.get("accounts") or {}).get(url) or {}
    token = (credentials.get("accessTokens") or {}).get(url)
    return bool(token or account.get("accessToken") or account.get("refreshToken"))
