"""The kubeconfig of this process. It is read once, so that all reads use the same cluster.

private_kubeconfig.py passes the same content to kubectl and the Kubernetes provider, which would read the files again.
"""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from trainstack.settings.model import Settings

KUBECONFIG_VARIABLE = "KUBECONFIG"
"""The environment variable with one file, or several to merge, separated as in PATH."""
ORIGIN_VARIABLE = "TRAINSTACK_KUBECONFIG_ORIGIN"
"""The environment variable with the user's own files, for messages, if KUBECONFIG is a private copy."""
LOCAL_CLUSTER_FILE = Path(".trainstack/cluster/kubeconfig")
"""The local cluster's file in a checkout."""

_PATH_FIELDS = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}
"""The fields with paths, which are relative to the folder of their kubeconfig."""
READ_ERRORS = (ValueError, TypeError, OSError)
"""The errors that this module raises for an invalid or unreadable kubeconfig. Their text is the reason, for users."""
_READ_LOCK = threading.Lock()
_merged_by_path: dict[str, dict[str, Any]] = {}


def absolute_paths(files: str) -> str:
    return os.pathsep.join(str(Path.cwd() / file) for file in files.split(os.pathsep) if file)


def kubeconfig_path() -> str:
    """Return the absolute path of the file, or files, that kubectl and the Kubernetes provider use too."""
    return absolute_paths(os.environ.get(KUBECONFIG_VARIABLE) or "") or str(default_path())


def display_path() -> str:
    """Return the user's own file, or files, for messages."""
    return os.environ.get(ORIGIN_VARIABLE) or kubeconfig_path()


def default_path() -> Path:
    """Return the file that kubectl reads if KUBECONFIG is not set."""
    return Path.home() / ".kube" / "config"


def is_local() -> bool:
    """Return whether the file is the local cluster's."""
    return Path(display_path()).parts[-len(LOCAL_CLUSTER_FILE.parts) :] == LOCAL_CLUSTER_FILE.parts


def unintended_local_cluster_error(settings: Settings) -> str:
    """Return an error if KUBECONFIG is the local cluster's file, and the environment does not declare its use; else "".

    A shell of `trainstack env -s dev` sets the variable for the commands of all environments.
    """
    cluster = settings.cluster
    if cluster.local or cluster.context is not None or not is_local():
        return ""
    return (
        f"{KUBECONFIG_VARIABLE} is the file of the local cluster ({display_path()}), which stack {settings.stack!r} "
        f"does not use. Nothing was changed; `unset {KUBECONFIG_VARIABLE}`, or set it to the stack's own cluster. To "
        "use the local cluster, set `local: true` or its `context` in `trainstack:cluster` of "
        f"Pulumi.{settings.stack}.yaml"
    )


def describe_context(context: str | None) -> str:
    """Return `context NAME, SERVER (FILE)`, for messages. Raises READ_ERRORS."""
    config = select_context(context)
    server = config["clusters"][0]["cluster"].get("server", "no server") if config["clusters"] else "no server"
    return f"context {config['current-context']}, {server} ({display_path()})"


def exists() -> bool:
    return kubeconfig_path() in _merged_by_path or any(
        Path(file).is_file() for file in kubeconfig_path().split(os.pathsep)
    )


def select_context(context: str | None) -> dict[str, Any]:
    """Return a kubeconfig with only one context, by default the current one, from the files as they were first read.

    Raises:
        ValueError, TypeError: the context does not exist, or a file is not a kubeconfig.
        OSError: a file cannot be read.

    """
    merged = _read(kubeconfig_path())
    name = context or merged["current-context"]
    if not name:
        raise ValueError("it has no current context")
    if name not in merged["contexts"]:
        raise ValueError(f"No such context {name}")
    entry = merged["contexts"][name]
    entries_of_context = [("clusters", "cluster", entry.get("cluster")), ("users", "user", entry.get("user"))]
    result = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": entry}],
        **{
            section: [{"name": entry_name, kind: merged[section][entry_name]}] if entry_name in merged[section] else []
            for section, kind, entry_name in entries_of_context
        },
    }
    # The round trip copies the entries, and replaces dates, which YAML has and JSON does not.
    return dict(json.loads(json.dumps(result, default=str)))


def clear_cache() -> None:
    """Clear the cache, after the local cluster was created again, so that the files are read again."""
    with _READ_LOCK:
        _merged_by_path.clear()


def _read(files: str) -> dict[str, Any]:
    with _READ_LOCK:
        if files not in _merged_by_path:
            _merged_by_path[files] = _merge([*map(Path, files.split(os.pathsep))])
        return _merged_by_path[files]


def _merge(files: list[Path]) -> dict[str, Any]:
    """Merge files as kubectl does: the first file with an entry has precedence, and missing files are ignored."""
    result: dict[str, Any] = {"current-context": "", "clusters": {}, "users": {}, "contexts": {}}
    for file in files:
        if not file.is_file():
            continue
        content = _load_yaml(file) or {}
        if not isinstance(content, dict):
            raise TypeError(f"{file} is not a mapping")
        result["current-context"] = result["current-context"] or content.get("current-context") or ""
        for section, kind in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for name, entry in _entries(content, section, kind, file):
                result[section].setdefault(name, _with_absolute_paths(entry, kind, file.parent))
    return result


def _entries(content: Mapping[str, Any], section: str, kind: str, file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and contents of a section's entries. Raises TypeError for an invalid section."""
    items = content.get(section) or []
    if not isinstance(items, list):
        raise TypeError(f"{section} of {file} is not a list")
    for number, item in enumerate(items):
        if not isinstance(item, dict) or "name" not in item:
            raise TypeError(f"{section}[{number}] of {file} is not a mapping with a name")
        entry = item.get(kind) or {}
        if not isinstance(entry, dict):
            raise TypeError(f"{section}[{number}].{kind} of {file} is not a mapping")
        yield str(item["name"]), entry


def _load_yaml(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_bytes())
    except yaml.YAMLError as error:
        # The error's text contains lines of the file, which may contain a token.
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"{file}{f':{mark.line + 1}' if mark else ''} is not valid YAML") from None
    except RecursionError:
        raise ValueError(f"{file} is nested too deeply") from None


def _with_absolute_paths(entry: Mapping[str, Any], kind: str, folder: Path) -> dict[str, Any]:
    result = {**entry}
    for field in _PATH_FIELDS.get(kind, ()):
        if isinstance(path := result.get(field), str) and path:
            result[field] = str(folder / path)
    program = result.get("exec")
    if isinstance(program, Mapping) and isinstance(command := program.get("command"), str) and os.sep in command:
        result["exec"] = {**program, "command": str(folder / command)}
    return result
