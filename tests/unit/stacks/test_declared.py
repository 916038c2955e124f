"""Declared: each object of an environment is built once for all its readers."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from tests.registrations.recorder import Echo, record
from tests.unit.environments import ROOT, decrypted, make_program, whole
from tests.unit.make import make_run, make_settings
from trainstack.components import operators
from trainstack.platform import namespaces, queues, secrets, storage
from trainstack.preflight.file_checks import examine
from trainstack.stack_objects import stack_objects as module
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.stacks.assemble import assemble

BUILDERS = {
    namespaces: ("namespace",),
    queues: ("cluster_queue", "local_queue", "resource_flavor", "cohort", "priority_class"),
    storage: ("storage_class", "persistent_volume", "claim"),
    secrets: ("secret",),
    module: ("manifest",),
}
"""The functions that build one object each, by module."""


def test_each_object_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preflight, the decision on runs, guards, `render` and the program read the same objects."""
    built: Counter[tuple[str, str, str]] = Counter()

    def counted(build: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def wrapper(*args: Any, **kwargs: Any) -> dict[str, Any]:
            manifest = build(*args, **kwargs)
            metadata = manifest["metadata"]
            built[manifest["kind"], metadata.get("namespace", ""), metadata["name"]] += 1
            return manifest

        return wrapper

    for place, names in BUILDERS.items():
        for name in names:
            monkeypatch.setattr(place, name, counted(getattr(place, name)))
    monkeypatch.setattr(operators, "wait_until_accepted", lambda *_: None)
    monkeypatch.setattr(operators, "migrate_stored_objects", lambda *_: [])
    settings, inputs = whole()
    program, sealed = make_program(settings, inputs), decrypted(settings)
    examine(program.stack_objects, ROOT)
    manifests = program.stack_objects.manifests(program.run_decision.groups)
    record(
        lambda: assemble(program, pulumi.Output.from_input(sealed)) and None,
        settings.stack,
        Echo({"kube-system": "here"}),
    )
    kinds = {kind for kind, _, _ in built}
    assert {"Namespace", "ClusterQueue", "LocalQueue", "StorageClass", "PersistentVolumeClaim", "Job"} <= kinds
    assert {key: count for key, count in built.items() if count > 1} == {}
    declared_ids = {
        (manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
        for manifest in manifests
    }
    assert {key for key in built if key[0] in {"ClusterQueue", "TrainJob"} and key not in declared_ids} == {
        ("TrainJob", "research", "three")
    }


def test_without_inputs_only_the_shape_of_a_launch_is_known() -> None:
    """An image that is not built has no reference, and nothing replaces it."""
    declared = StackObjects(make_settings(make_run()))
    launch, _ = declared.queued_objects(declared.settings.workloads.runs[0])
    assert launch["kind"] == "Job"
    with pytest.raises(AssertionError, match="requires its inputs"):
        declared.manifests()
