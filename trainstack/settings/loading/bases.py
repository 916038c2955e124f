"""What runs are based on: `workloads/<base>/workload.yaml`, where the base is a run's `from`, or else its name.

A sweep's `run` has the sweep's name.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from trainstack.settings.errors import Finding, nearest
from trainstack.settings.loading.merge import merge
from trainstack.settings.loading.source import Node, read
from trainstack.settings.values.paths import elements

Steps = tuple[str | int, ...]
"""The keys and indices that lead to a value."""


def with_bases(root: Path, tree: Node, findings: list[Finding]) -> tuple[Node, Mapping[Steps, Finding]]:
    """The merged sections with every run laid over its base.

    Also what to say of each run without a base, by its steps, where something is missing in it.
    """
    bases = _Bases(root, findings)

    def of_run(run: Node, path: str, steps: Steps) -> Node:
        return bases.below(run, run.name, path, steps)

    def of_sweep(sweep: Node, path: str, steps: Steps) -> Node:
        if not sweep.entries:
            return sweep
        run = sweep.entries.get("run", Node({}, sweep.where))
        if "name" in run.entries:
            where = run.entries["name"].where
            findings.append(Finding(where, f"{path}.run", "unknown key name", "leave it out: it is the sweep's"))
        laid = bases.below(run, sweep.name, f"{path}.run", (*steps, "run"))
        if isinstance(laid.data, Mapping) and "name" in sweep.entries:
            laid = replace(laid, data={**laid.entries, "name": sweep.entries["name"]})
        return replace(sweep, data={**sweep.entries, "run": laid})

    tree = _each(_each(tree, ("workloads", "runs"), of_run), ("sweeps", "sweeps"), of_sweep)
    return tree, bases.without


class _Bases:
    """The workloads' files, each read once, when a run is based on it."""

    def __init__(self, root: Path, findings: list[Finding]) -> None:
        self.without: dict[Steps, Finding] = {}
        self._root, self._findings = root, findings
        folders = [file.parent.name for file in root.glob("workloads/*/workload.yaml")]
        self._files = {name: f"workloads/{name}/workload.yaml" for name in folders}
        self._read: dict[str, Node] = {}

    def below(self, run: Node, name: str | None, path: str, steps: Steps) -> Node:
        """The run, without its `from`, over its base; as it is where there is none."""
        origin = run.entries.get("from")
        bare = run
        base = name
        if origin is not None:
            base = origin.data if isinstance(origin.data, str) else None
            bare = replace(run, data={key: each for key, each in run.entries.items() if key != "from"})
        if base in self._files and isinstance(run.data, Mapping):
            return merge(self._base(base), bare)
        if origin is not None:
            message = f"names no folder with a workload.yaml (value {origin.text or 'none'})"
            remedy = nearest(base or "", self._files)
            self.without[steps] = Finding(origin.where, f"{path}.from", message, remedy)
            self._findings.append(self.without[steps])
        elif base is not None:
            message = f"is not complete by itself, and there is no workloads/{base}/workload.yaml to take the rest from"
            remedy = f"{nearest(base, self._files)} (name it with `from:`)"
            self.without[steps] = Finding(run.where, path, message, remedy)
        return bare

    def _base(self, name: str) -> Node:
        if name not in self._read:
            self._read[name] = read(self._root, self._files[name], self._findings)
        return self._read[name]


def _each(tree: Node, steps: tuple[str, str], change: Callable[[Node, str, Steps], Node]) -> Node:
    """The tree with every element of the list at the steps changed: by itself, its path and its steps."""
    section = tree.entries.get(steps[0])
    things = section.entries.get(steps[1]) if section else None
    if section is None or things is None:
        return tree
    paths = elements(".".join(steps), [each.name for each in things.items])
    made = tuple(
        change(each, path, (*steps, index)) for index, (path, each) in enumerate(zip(paths, things.items, strict=True))
    )
    whole = replace(things, data=made if isinstance(things.data, tuple) else things.data)
    return replace(tree, data={**tree.entries, steps[0]: replace(section, data={**section.entries, steps[1]: whole})})
