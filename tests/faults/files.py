"""The sweep files of drawn environments."""

from pathlib import Path

import yaml

from tests.faults.configurations import SETS, SWEEPS
from trainstack.settings.loading.sweep_files import load_space
from trainstack.settings.search_space.hyperparams import SETS_FILE, SPACE_FILE, format_sets, sweep_folder
from trainstack.sweeps.search.expand import expand


def write_sweeps(root: Path) -> None:
    """Write the expanded sweeps of drawn environments to a project's folder."""
    for name in SWEEPS:
        space = {
            "method": "grid",
            "parameters": {"part": {"values": [*range(SETS)]}},
            "objective": {"metric": "val_accuracy", "direction": "maximize"},
            "args": ["${parameters.part}"],
        }
        target = root / sweep_folder(name)
        target.mkdir(parents=True, exist_ok=True)
        (target / SPACE_FILE).write_text(yaml.safe_dump(space, sort_keys=False))
        loaded = load_space(root, name).space
        (target / SETS_FILE).write_text(format_sets(name, loaded, expand(loaded)))
