"""Stacks in Pulumi: the selected one, as `pulumi stack select` stores it, and the creation of one.

Pulumi keeps it in its home, in a file for each path of a Pulumi.yaml
(https://github.com/pulumi/pulumi/blob/v3.259.0/pkg/workspace/workspace.go).
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path

from trainstack.settings.loading.project import PROJECT_FILE, project_name


def selected_stack(root: Path) -> str | None:
    """Return the stack that is selected for the project at `root`: PULUMI_STACK, else that of `pulumi stack select`.

    Raises TrainstackError if the project has no name.
    """
    full_name = os.environ.get("PULUMI_STACK") or next(filter(None, map(_stack_in, _files(root))), None)
    # `<organization>/<project>/<stack>`
    return full_name.rpartition("/")[2] if full_name else None


def creation_steps(stack: str) -> list[str]:
    """Return the commands that create a stack whose state is not embedded, which only its user can do."""
    return ["pulumi login (unless you are logged in)", f"pulumi stack init {stack}"]


def _files(root: Path) -> Iterator[Path]:
    """Yield the files that may contain the selection, in order of precedence."""
    home = os.environ.get("PULUMI_HOME")
    homes = [Path(home)] if home else [Path.home() / ".pulumi", root / ".trainstack" / "pulumi"]
    name = project_name(root)
    for folder in homes:
        for path in _paths(root):
            digest = sha1(str(path / PROJECT_FILE).encode(), usedforsecurity=False).hexdigest()
            yield folder / "workspaces" / f"{name}-{digest}-workspace.json"


def _paths(root: Path) -> Iterator[Path]:
    """Yield the paths by which Pulumi may name the project: a shell's PWD may contain symbolic links."""
    shell_folder = Path(os.environ.get("PWD", ""))
    yield from (
        path for path in (shell_folder, *shell_folder.parents) if path != root and path.resolve() == root.resolve()
    )
    yield root


def _stack_in(file: Path) -> str | None:
    try:
        return str(json.loads(file.read_bytes())["stack"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
