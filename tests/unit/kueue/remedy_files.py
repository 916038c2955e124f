"""Environments as files, and remedies applied to them: only the loader of the files interprets what is written."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.verdict import Change, Verdict
from trainstack.kueue.verdicts import stack_verdicts
from trainstack.kueue.workloads import run_workloads
from trainstack.settings.loading.load import load, load_with_places
from trainstack.settings.model import Settings
from trainstack.stack_objects.stack_objects import StackObjects

Config = dict[str, Any]
"""The sections of an environment's file, as YAML has them."""
STACK = "t"
_STEP = re.compile(r'\["([^"]+)"\]|\[([^\]"]+)\]|\.?([A-Za-z0-9_-]+)')


def make_config(run: Config, *queues: Config, flavors: Iterable[Config] = ({"name": "cpu"},), **kueue: Any) -> Config:
    """Return an environment with the run `train` in namespace `ns` and queue `q`, and a local queue for each queue.

    `kueue`: fields of Kueue's configuration.
    """
    base = {"name": "train", "kind": "Job", "namespace": "ns", "queue": "q", "managed": False, "image": {"name": "i"}}
    names = [queue["name"] for queue in queues]
    return {
        "environment": {"namespaces": [{"name": "ns"}]},
        "operators": {"kueue": {"configuration": kueue}},
        "queues": {
            "flavors": list(flavors),
            "clusterQueues": list(queues),
            "localQueues": [{"name": name, "namespace": "ns", "clusterQueue": name} for name in names],
        },
        "workloads": {"runs": [{**base, **run}]},
    }


def make_pool(quotas: Mapping[str, Mapping[str, Any]] | None = None, name: str = "q", **changes: Any) -> Config:
    """Return a cluster queue with one group of quotas by flavor and resource, by default 4 cpu on `cpu`."""
    by_flavor = quotas or {"cpu": {"cpu": 4}}
    group = {
        "coveredResources": list(next(iter(by_flavor.values()))),
        "flavors": [
            {"name": flavor, "resources": [{"name": key, "nominalQuota": amount} for key, amount in amounts.items()]}
            for flavor, amounts in by_flavor.items()
        ],
    }
    return {"name": name, "resourceGroups": [group], **changes}


def write(root: Path, config: Config) -> Path:
    """Write the file of the environment; return the root."""
    body = {"config": {f"trainstack:{section}": value for section, value in config.items()}}
    (root / f"Pulumi.{STACK}.yaml").write_text(json.dumps(body))
    return root


def verdicts(root: Path) -> list[Verdict]:
    """Return the verdicts that `check` prints."""
    return stack_verdicts(StackObjects(load(root, STACK)))


def apply(config: Config, changes: Iterable[Change]) -> Config:
    """Return the sections of a file after the changes; None removes a value that an earlier file may have set."""
    changed: Config = json.loads(json.dumps(config))
    for change in changes:
        steps = [match.groups() for match in _STEP.finditer(change.path)]
        place: Any = changed
        for (quoted, element, key), after in zip(steps, [*steps[1:], None], strict=True):
            if element is not None:
                index = _index(place, element)
                key_or_index: str | int = index
            else:
                key_or_index = quoted or key
                if after is not None:
                    place.setdefault(key_or_index, [] if after[1] is not None else {})
            if after is None:
                place[key_or_index] = change.after
            place = place[key_or_index]
    return changed


def _index(items: list[Any], element: str) -> int:
    """Return the index of an element, which is added if only an earlier file has it."""
    names = [item.get("name") for item in items]
    if element in names:
        return names.index(element)
    if element.isdecimal():
        return int(element)
    items.append({"name": element})
    return len(items) - 1


def with_what_if(root: Path, changes: Iterable[Change]) -> Settings:
    """Return the settings with the changes as `--set` has them."""
    texts = [f"{change.path}={json.dumps(change.after)}" for change in changes]
    return load_with_places(root, STACK, changes=texts).settings


def outcomes(settings: Settings) -> dict[str, str]:
    """Return the outcome of each run on an idle cluster, by its path."""
    declared = StackObjects(settings)
    model = stack_model(declared)
    simulator = AdmissionSimulator(model)
    return {one.path: simulator.idle_verdict(one).outcome for one in run_workloads(declared, model)}
