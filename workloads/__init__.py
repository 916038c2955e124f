"""Builders of runs, and the folders of workloads, none of which may hide one of the builders' modules."""

from pathlib import Path

from settings.errors import SettingsError
from settings.workload_folders import clashes

# Here, since this module is imported before all those that a folder could hide.
if _found := clashes(Path(__file__).parents[1]):
    raise SettingsError("workloads", _found, "folder")
