"""Private copies of the kubeconfig for the programs that a command starts, and of its keys for the client.

The engine's provider and kubectl read the kubeconfig when they start. A concurrent change of the user's file, such as
`kubectl config use-context`, must not send them to a cluster other than the one that the command read.
"""

import atexit
import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainstack.files.temporary import SecretFile, secret_file
from trainstack.live import kubeconfig

_FILES = {"clusters": ("cluster", "certificate-authority"), "users": ("user", "client-certificate", "client-key")}
"""The fields with paths, which may be replaced by `<field>-data`."""
_copies: dict[tuple[str, str | None], SecretFile] = {}
_contents: dict[bytes, SecretFile] = {}
"""Certificates and keys, by content."""


def shared_copy(context: str | None) -> Path:
    """Return the process's copy, with the chosen context only, which ends with the process.

    Raises OSError, ValueError, KeyError, TypeError or yaml.YAMLError for an invalid kubeconfig.
    """
    key = (kubeconfig.kubeconfig_path(), context)
    if key not in _copies:
        _copies[key] = new_copy(context)
        atexit.register(remove_copies)
    return _copies[key].path


def new_copy(context: str | None) -> SecretFile:
    """Write a copy, which the caller closes. Raises the errors of `shared_copy`."""
    return secret_file(json.dumps(kubeconfig.chosen(context)).encode())


def variables(context: str | None) -> dict[str, str]:
    """Environment variables for a program that reads the kubeconfig."""
    return {kubeconfig.VARIABLE: str(shared_copy(context)), kubeconfig.ORIGIN: kubeconfig.shown_path()}


def with_files(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kubeconfig with paths of the process's files in the place of embedded certificates and keys.

    The client would write them into files that it does not remove. Raises the errors of `shared_copy`.
    """
    sections = {
        section: [{**item, kind: _with_paths(item[kind], fields)} for item in config[section]]
        for section, (kind, *fields) in _FILES.items()
    }
    return {**config, **sections}


def remove_copies() -> None:
    for copies in (_copies, _contents):
        while copies:
            copies.popitem()[1].close()


def _with_paths(entry: Mapping[str, Any], fields: list[str]) -> dict[str, Any]:
    paths = {field: str(_file_of(data)) for field in fields if (data := entry.get(f"{field}-data"))}
    return {key: value for key, value in entry.items() if key.removesuffix("-data") not in paths} | paths


def _file_of(data: str) -> Path:
    # The client accepts PEM too.
    content = data.encode() if "-----" in data else base64.b64decode(data)
    if content not in _contents:
        _contents[content] = secret_file(content)
        atexit.register(remove_copies)
    return _contents[content].path
