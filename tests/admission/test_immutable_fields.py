"""The table of immutable fields has what the definitions of Kueue's releases do not let anybody change."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainstack.kueue.differences import RELEASES
from trainstack.objects.immutable_fields import IMMUTABLE_FIELDS
from trainstack.toolchain import go_toolchain
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GROUPS_BY_NAME

KUEUE = "sigs.k8s.io/kueue"
_OF_KUEUE = "Workload"
"""The kind that Kueue alone creates."""


def transition_rules(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of the fields that have a rule about their former value."""
    if any("oldSelf" in rule["rule"] for rule in schema.get("x-kubernetes-validations") or ()):
        yield path
    for key, inner in (schema.get("properties") or {}).items():
        yield from transition_rules(inner, f"{path}.{key}" if path else key)


def immutable_fields(module: Path) -> dict[str, set[str]]:
    """Return the paths by kind, of all versions of the API."""
    found: dict[str, set[str]] = {}
    for file in (module / "config/components/crd/bases").glob("*.yaml"):
        spec = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["spec"]
        for version in spec["versions"]:
            paths = {*transition_rules(version["schema"]["openAPIV3Schema"])}
            found.setdefault(spec["names"]["kind"], set()).update(paths)
    return {kind: paths for kind, paths in found.items() if paths and kind != _OF_KUEUE}


@pytest.mark.parametrize("minor", RELEASES)
def test_the_table_has_the_rules_of_kueues_definitions(minor: str) -> None:
    """That of a flavor is about its whole spec."""
    module = Builder(go_toolchain.choose_go()).module_folder(GROUPS_BY_NAME[f"judge-{minor}"], KUEUE)
    table = {
        kind: {field.path for field in fields}
        for kind, (section, fields) in IMMUTABLE_FIELDS.items()
        if section.startswith("queues.")
    }
    flavor = yaml.load(
        (module / "config/components/crd/bases/kueue.x-k8s.io_resourceflavors.yaml").read_text(), yaml.CSafeLoader
    )
    schema = flavor["spec"]["versions"][-1]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert table.pop("ResourceFlavor") == {f"spec.{name}" for name in schema["properties"]}
    found = immutable_fields(module)
    assert found.pop("ResourceFlavor") == {"spec"}
    assert found == table
