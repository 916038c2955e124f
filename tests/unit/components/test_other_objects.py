"""Objects of section `objects`: their order, and what the engine keeps."""

from tests.unit.components.declare import declare
from tests.unit.make import make_settings
from trainstack.components.other_objects import OtherObjects
from trainstack.settings.sections.objects import Objects
from trainstack.stack_objects.stack_objects import StackObjects

SPEC = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}}
MANIFESTS = tuple(
    {"apiVersion": version, "kind": kind, "metadata": metadata, **({"spec": SPEC} if "Volume" in kind else {})}
    for version, kind, metadata in (
        ("v1", "PersistentVolumeClaim", {"name": "models"}),
        ("v1", "PersistentVolumeClaim", {"name": "cache", "annotations": {"trainstack.dev/retain": "false"}}),
        ("v1", "PersistentVolume", {"name": "models"}),
        ("v1", "ServiceAccount", {"name": "reader"}),
        ("v1", "Secret", {"name": "token"}),
    )
)


def test_volumes_are_retained_and_claims_follow_what_they_may_use() -> None:
    component = StackObjects(make_settings(objects=Objects(manifests=MANIFESTS))).other_objects
    found = declare(lambda opts: OtherObjects("objects", component, opts))
    declared = found.pop("OtherObjects objects")
    assert declared.type == "trainstack:platform:OtherObjects"
    first = ["models", "research/reader", "research/token"]
    assert declared.outputs == {
        "names": [
            "PersistentVolume models",
            "ServiceAccount research/reader",
            "Secret research/token",
            "PersistentVolumeClaim research/models",
            "PersistentVolumeClaim research/cache",
        ]
    }
    assert {key: (entry.options["retainOnDelete"], entry.dependencies) for key, entry in found.items()} == {
        "PersistentVolume models": (True, []),
        "ServiceAccount research/reader": (False, []),
        "Secret research/token": (False, []),
        "PersistentVolumeClaim research/models": (True, first),
        "PersistentVolumeClaim research/cache": (False, first),
    }
    assert found["Secret research/token"].options["additionalSecretOutputs"] == ["data", "stringData"]
