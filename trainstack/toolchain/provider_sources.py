"""The two files that the provider's main.go embeds. Upstream's release process makes them from the same module."""

import json
from pathlib import Path

_UPSTREAM = Path("cmd") / "pulumi-resource-kubernetes"


def write(module: Path, folder: Path, version: str) -> None:
    """Make the embedded schema and mapping, as upstream's cmd/pulumi-resource-kubernetes/generate.go does.

    Args:
        module: the provider module's folder in the module cache.
        folder: where main.go lies.
        version: the release that the schema names, as in `4.25.0`.
    """
    schema = json.loads((module / _UPSTREAM / "schema.json").read_bytes())
    mapping = json.loads((module / _UPSTREAM / "terraform-mapping.json").read_bytes())
    (folder / "schema-embed.json").write_text(_compact(schema | {"version": version}))
    (folder / "terraform-mapping-embed.json").write_text(_compact(mapping))


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
