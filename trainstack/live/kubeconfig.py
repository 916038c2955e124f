"""The kubeconfig of this process, which is read once, so that every read uses one cluster.

kubectl and the Kubernetes provider read the file when they start. A `kubectl config use-context` in between would
direct them to another cluster than the one that was read.
"""

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from trainstack.settings.model import Settings

VARIABLE = "KUBECONFIG"
"""One file, or several to merge, separated like PATH."""
ORIGIN = "TRAINSTACK_KUBECONFIG_ORIGIN"
"""Set if KUBECONFIG is a private copy: the user's own files, for messages."""
LOCAL = Path(".trainstack/cluster/kubeconfig")
"""The local cluster's file in a checkout."""

_PATHS = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}
"""The fields with paths, which are relative to their kubeconfig."""
_READING = threading.Lock()
_merged: dict[str, dict[str, Any]] = {}


def absolute(files: str) -> str:
    return os.pathsep.join(str(Path.cwd() / file) for file in files.split(os.pathsep) if file)


def kubeconfig_path() -> str:
    """Return the file, or files, that kubectl and the Kubernetes provider use too."""
    return absolute(os.environ.get(VARIABLE) or "") or str(default_path())


def shown_path() -> str:
    """Return the user's own file, or files, for messages."""
    return os.environ.get(ORIGIN) or kubeconfig_path()


def default_path() -> Path:
    """Return the file that kubectl reads without KUBECONFIG."""
    return Path.home() / ".kube" / "config"


def is_local() -> bool:
    """Whether the file is the local cluster's."""
    return Path(shown_path()).parts[-len(LOCAL.parts) :] == LOCAL.parts


def unintended(settings: Settings) -> str:
    """Return an error if KUBECONFIG leads an environment to the local cluster that it neither uses nor names.

    A shell of `trainstack env -s dev` has the variable, for the commands of all environments.
    """
    cluster = settings.cluster
    if cluster.local or cluster.context is not None or not is_local():
        return ""
    return (
        f"{VARIABLE} is the file of the local cluster ({shown_path()}), which stack {settings.stack!r} does not use. "
        f"Nothing was changed; `unset {VARIABLE}`, or set it to the stack's own cluster. To use the local cluster, set "
        f"`local: true` or its `context` in `trainstack:cluster` of Pulumi.{settings.stack}.yaml"
    )


def described(context: str | None) -> str:
    """Return `context NAME, SERVER (FILE)`, for messages. Raises the errors of `chosen`."""
    config = chosen(context)
    server = config["clusters"][0]["cluster"].get("server", "no server") if config["clusters"] else "no server"
    return f"context {config['current-context']}, {server} ({shown_path()})"


def exists() -> bool:
    return kubeconfig_path() in _merged or any(Path(file).is_file() for file in kubeconfig_path().split(os.pathsep))


def chosen(context: str | None) -> dict[str, Any]:
    """Return a kubeconfig with only one context, by default the current one, of the files as they were first read.

    Raises:
        ValueError, KeyError, TypeError: the context does not exist, or a file is not a kubeconfig.
        OSError: a file cannot be read.

    """
    merged = _read(kubeconfig_path())
    name = context or merged["current-context"]
    if not name:
        raise ValueError("it has no current context")
    if name not in merged["contexts"]:
        raise ValueError(f"No such context {name}")
    entry = merged["contexts"][name]
    named = [("clusters", "cluster", entry.get("cluster")), ("users", "user", entry.get("user"))]
    result = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": entry}],
        **{
            section: [{"name": entry_name, kind: merged[section][entry_name]}] if entry_name in merged[section] else []
            for section, kind, entry_name in named
        },
    }
    # A copy in JSON: kr8s changes its argument, and YAML has dates.
    return dict(json.loads(json.dumps(result, default=str)))


def with_token(config: dict[str, Any]) -> dict[str, Any]:
    """Return the kubeconfig of `chosen` with the present content of `tokenFile` as `token`.

    kubectl reads this field, and kr8s does not. The file precedes a token. Raises OSError, or ValueError for an empty
    or undecodable file.
    """
    users = [
        {**entry, "user": {**user, "token": _token(Path(user["tokenFile"]))}}
        if (user := entry["user"]).get("tokenFile")
        else entry
        for entry in config["users"]
    ]
    return {**config, "users": users}


def _token(file: Path) -> str:
    token = file.read_text(encoding="utf-8").strip()
    if not token:
        raise ValueError(f"{file} has no token")
    return token


def forget() -> None:
    """Read the files again next time, after the local cluster was created again."""
    with _READING:
        _merged.clear()


def _read(files: str) -> dict[str, Any]:
    with _READING:
        if files not in _merged:
            _merged[files] = _merge([*map(Path, files.split(os.pathsep))])
        return _merged[files]


def _merge(files: list[Path]) -> dict[str, Any]:
    """Merge as kubectl does: the first file that has an entry wins, and missing files are ignored."""
    result: dict[str, Any] = {"current-context": "", "clusters": {}, "users": {}, "contexts": {}}
    for file in files:
        if not file.is_file():
            continue
        content = _content(file) or {}
        if not isinstance(content, dict):
            raise TypeError(f"{file} is not a mapping")
        result["current-context"] = result["current-context"] or content.get("current-context") or ""
        for section, kind in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for item in content.get(section) or ():
                result[section].setdefault(
                    str(item["name"]), _with_absolute_paths(item.get(kind) or {}, kind, file.parent)
                )
    return result


def _content(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_bytes())
    except yaml.YAMLError as error:
        # The error's text has lines of the file, which may contain a token.
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"{file}{f':{mark.line + 1}' if mark else ''} is not valid YAML") from None


def _with_absolute_paths(entry: Mapping[str, Any], kind: str, folder: Path) -> dict[str, Any]:
    result = {**entry}
    for field in _PATHS.get(kind, ()):
        if result.get(field):
            result[field] = str(folder / result[field])
    program = result.get("exec")
    if isinstance(program, Mapping) and os.sep in str(program.get("command", "")):
        result["exec"] = {**program, "command": str(folder / program["command"])}
    return result
