"""The project's Pulumi.yaml: its name, under which the engine stores the stacks, and its virtual environment."""

from pathlib import Path

from trainstack.errors import TrainstackError
from trainstack.settings.errors import SettingsFinding
from trainstack.settings.loading.yaml_reader import read_map

PROJECT_FILE = "Pulumi.yaml"


def project_name(root: Path) -> str:
    """Return the `name` in the Pulumi.yaml of the project at `root`. Raises TrainstackError if it has none."""
    findings: list[SettingsFinding] = []
    try:
        name = read_map(root, PROJECT_FILE, findings).name
    except FileNotFoundError:
        name = None
    if not name:
        if findings:
            raise TrainstackError(str(findings[0]))
        raise TrainstackError("the project has no name", "write `name: <name>` into the file", path=PROJECT_FILE)
    return name


def has_virtualenv(root: Path) -> bool:
    """Return whether the project's Pulumi.yaml sets a virtual environment for the engine."""
    runtime = read_map(root, PROJECT_FILE, []).entries.get("runtime")
    options = runtime.entries.get("options") if runtime is not None else None
    return options is not None and "virtualenv" in options.entries
