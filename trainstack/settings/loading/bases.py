"""The bases of runs: `workloads/<base>/workload.yaml`, where the base is a run's `from`, or else its name.

A sweep's `run` has the sweep's name. A run or its base may name the file of its manifest, or the base may be the
manifest itself; the object is then a value of the run, so that it is merged like any other.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from trainstack.settings.errors import SettingsFinding, suggest_name
from trainstack.settings.loading.manifest_files import (
    ManifestFiles,
    names_manifest,
    with_settings_of_manifest,
    without_manifest,
)
from trainstack.settings.loading.merge import element_paths, merge
from trainstack.settings.loading.yaml_reader import Node

Steps = tuple[str | int, ...]
"""The keys and list indices that lead to a value, as in pydantic's `loc`."""


def merge_bases(
    root: Path, tree: Node, findings: list[SettingsFinding]
) -> tuple[Node, Mapping[Steps, SettingsFinding]]:
    """Merge runs over their bases.

    Also return, by the steps of runs without a base, the finding to report if the run lacks a value.
    """
    bases = _Bases(root, findings)
    tree = _map_elements(tree, ("workloads", "runs"), bases.merge_run_base)
    return _map_elements(tree, ("sweeps", "sweeps"), bases.merge_sweep_base), bases.missing_bases


def workload_files(root: Path) -> dict[str, str]:
    """Return the files of workloads, which runs use as bases, by the workload's name."""
    folders = [file.parent.name for file in root.glob("workloads/*/workload.yaml")]
    return {name: f"workloads/{name}/workload.yaml" for name in folders}


class _Bases:
    """The files of workloads, each read at most once."""

    def __init__(self, root: Path, findings: list[SettingsFinding]) -> None:
        self.missing_bases: dict[Steps, SettingsFinding] = {}
        self._findings = findings
        self._files = workload_files(root)
        self._manifests = ManifestFiles(root, findings)
        self._read_base = cache(lambda name: self._manifests.read_base(self._files[name]))

    def merge_base(self, run: Node, name: str | None, path: str, steps: Steps) -> Node:
        """Return the run without its `from`, merged over its base if it has one.

        `name`: the base without `from`, the name of the run or of its sweep.
        """
        from_node = run.entries.get("from")
        run_without_from = run
        base_name = name
        if from_node is not None:
            base_name = from_node.data if isinstance(from_node.data, str) else None
            run_without_from = replace(run, data={key: value for key, value in run.entries.items() if key != "from"})
        run_without_from = self._manifests.insert_manifest(run_without_from)
        if base_name in self._files and isinstance(run.data, Mapping):
            base = self._read_base(base_name)
            if names_manifest(run):
                # Another file replaces the manifest of the base, while an object is merged into it.
                base = without_manifest(base)
            return merge(base, run_without_from)
        if from_node is not None:
            message = f"is not a folder with a workload.yaml (value {from_node.text or 'none'})"
            remedy = suggest_name(base_name or "", self._files)
            self.missing_bases[steps] = SettingsFinding(from_node.where, f"{path}.from", message, remedy)
            self._findings.append(self.missing_bases[steps])
        elif base_name is not None:
            # Only a run that lacks values needs a base, so the validation decides whether this is reported.
            message = f"is incomplete, and there is no workloads/{base_name}/workload.yaml with the missing values"
            remedy = f"{suggest_name(base_name, self._files)} (set it with `from:`)"
            self.missing_bases[steps] = SettingsFinding(run.where, path, message, remedy)
        return run_without_from

    def merge_run_base(self, run: Node, path: str, steps: Steps) -> Node:
        return with_settings_of_manifest(self.merge_base(run, run.name, path, steps))

    def merge_sweep_base(self, sweep: Node, path: str, steps: Steps) -> Node:
        if not sweep.entries:
            return sweep
        run = sweep.entries.get("run", Node({}, sweep.where))
        if "name" in run.entries:
            remedy = "leave it out: the run has the sweep's name"
            self._findings.append(SettingsFinding(run.entries["name"].where, f"{path}.run", "unknown key name", remedy))
        merged = with_settings_of_manifest(self.merge_base(run, sweep.name, f"{path}.run", (*steps, "run")))
        if isinstance(merged.data, Mapping) and "name" in sweep.entries:
            merged = replace(merged, data={**merged.entries, "name": sweep.entries["name"]})
        return replace(sweep, data={**sweep.entries, "run": merged})


def _map_elements(tree: Node, steps: tuple[str, str], change: Callable[[Node, str, Steps], Node]) -> Node:
    section = tree.entries.get(steps[0])
    elements = section.entries.get(steps[1]) if section else None
    if section is None or elements is None or not isinstance(elements.data, tuple):
        return tree
    paths = element_paths(elements, ".".join(steps))
    changed_elements = tuple(change(element, paths[i], (*steps, i)) for i, element in enumerate(elements.items))
    section = replace(section, data={**section.entries, steps[1]: replace(elements, data=changed_elements)})
    return replace(tree, data={**tree.entries, steps[0]: section})
