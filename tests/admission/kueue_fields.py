"""The fields of Kueue's objects and Configuration, and its feature gates, from its Go module.

`python -m tests.admission.kueue_fields` prints those of every modelled release as JSON, as committed in FILE.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from trainstack.kueue.differences import RELEASES
from trainstack.toolchain import go_toolchain
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GROUPS_BY_NAME

FILE = Path(__file__).parents[1] / "unit" / "kueue" / "kueue_fields.json"
KINDS = (
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "LocalQueue",
    "ResourceFlavor",
    "Topology",
    "Workload",
    "WorkloadPriorityClass",
)
_VERSIONS = ("v1alpha1", "v1beta1", "v1beta2")
"""Of Kueue's API, from the oldest to the newest."""
_SKIPPED = ("apiVersion", "kind", "metadata")
_TEMPLATE = "spec.podSets[].template"
"""A pod template, of Kubernetes and not of Kueue."""
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'^\t(?:\w+[ \t]+)?([\w.*\[\]]+)[ \t]+`json:"([^",]*)[^`]*`', re.MULTILINE)
_GATE = re.compile(r"\t(\w+): \{\n((?:\t\t\{.*\n)+)\t\},")


def kueue_fields(module: Path) -> dict[str, Any]:
    """Return the paths of the fields by kind, and the default of each feature gate."""
    found: dict[str, Any] = {}
    for path in sorted((module / "config/components/crd/bases").glob("*.yaml")):
        body = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        kind = body["spec"]["names"]["kind"]
        if kind in KINDS:
            version = max(body["spec"]["versions"], key=lambda one: _VERSIONS.index(one["name"]))
            found[kind] = sorted(_leaves(version["schema"]["openAPIV3Schema"], ""))
    newest = max((module / "apis/config").iterdir(), key=lambda folder: _VERSIONS.index(folder.name))
    source = "".join(path.read_text() for path in sorted(newest.glob("*_types.go")))
    found["Configuration"] = sorted({*_go_fields(dict(_STRUCT.findall(source)), "Configuration", "")})
    gates = (module / "pkg/features/kube_features.go").read_text().partition("defaultVersionedFeatureGates = map")[2]
    # The last line is the newest version's.
    found["gates"] = {name: ", Default: true" in lines.splitlines()[-1] for name, lines in _GATE.findall(gates)}
    return found


def fields_of_all_releases() -> dict[str, dict[str, Any]]:
    """Return the fields and gates by minor release, from the modules of the programs that judge verdicts."""
    builder = Builder(go_toolchain.choose_go())
    return {
        minor: kueue_fields(builder.module_folder(GROUPS_BY_NAME[f"judge-{minor}"], "sigs.k8s.io/kueue"))
        for minor in RELEASES
    }


def _leaves(schema: dict[str, Any], path: str) -> Iterator[str]:
    properties = schema.get("properties") or {}
    if path != _TEMPLATE and properties:
        for name, inner in properties.items():
            if path or name not in _SKIPPED:
                yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif path != _TEMPLATE and "items" in schema:
        yield from _leaves(schema["items"], f"{path}[]")
    else:
        yield path


def _go_fields(structs: dict[str, str], name: str, path: str) -> Iterator[str]:
    for kind, key in _FIELD.findall(structs[name]):
        inner = kind.lstrip("*[]")
        if not key:
            # Inlined.
            yield from _go_fields(structs, inner, path) if inner in structs else ()
            continue
        at = f"{path}.{key}" if path else key
        if kind.startswith("[]") and inner in structs:
            at += "[]"
        if inner in structs:
            yield from _go_fields(structs, inner, at)
        else:
            yield at


if __name__ == "__main__":
    print(json.dumps(fields_of_all_releases(), indent=1))
