"""Make `trainstack/settings/values/pod_fields.json` from the OpenAPI document of the pinned Kubernetes module.

Run as a program, it writes the file.
"""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.unit.preflight.cases import ROOT
from trainstack.toolchain import go_toolchain
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GROUPS_BY_NAME

FILE = ROOT / "trainstack/settings/values/pod_fields.json"
MODULE, DOCUMENT = "k8s.io/kubernetes", "api/openapi-spec/swagger.json"
_SCALARS = {"Quantity": "quantity", "IntOrString": "integer or string", "Time": "string"}
_METADATA = {"annotations": "string{}", "labels": "string{}"}
"""The metadata that a controller copies from a template to the objects that it creates."""


def document() -> dict[str, Any]:
    """Return the definitions of the OpenAPI document in Go's module cache, verified by `go mod download`."""
    builder = Builder(go_toolchain.ensure(Console(stderr=True)))
    path: Path = builder.module_folder(GROUPS_BY_NAME["cluster"], MODULE) / DOCUMENT
    definitions: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["definitions"]
    return definitions


def fields(definitions: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return each type within a pod template or a persistent volume, as `settings.values.pod_fields` describes them."""
    found: dict[str, dict[str, str]] = {"ObjectMeta": _METADATA}
    open_types = ["io.k8s.api.core.v1.PodTemplateSpec", "io.k8s.api.core.v1.PersistentVolumeSpec"]
    while open_types:
        full = open_types.pop()
        name = full.rpartition(".")[2]
        if name in found or name in _SCALARS:
            continue
        found[name] = {}
        for field, schema in sorted(definitions[full]["properties"].items()):
            found[name][field] = _form(schema)
            inner = (schema, schema.get("items", {}), schema.get("additionalProperties", {}))
            open_types += [part["$ref"].removeprefix("#/definitions/") for part in inner if "$ref" in part]
    return dict(sorted(found.items()))


def _form(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition(".")[2]
        return _SCALARS.get(name, name)
    if schema["type"] == "array":
        merged = schema.get("x-kubernetes-patch-merge-key", "") if "x-kubernetes-patch-strategy" in schema else ""
        return f"{_form(schema['items'])}[{merged}]"
    if schema["type"] == "object":
        return f"{_form(schema['additionalProperties'])}{{}}"
    return str(schema["type"])


def serialize(found: dict[str, dict[str, str]]) -> str:
    """Return the file's text, with one line per type."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in found)
    return f"{{\n{lines}\n}}\n"


if __name__ == "__main__":
    FILE.write_text(serialize(fields(document())), encoding="utf-8")
