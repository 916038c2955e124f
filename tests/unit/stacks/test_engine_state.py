"""The content of a state, by the engine's answer about its resources."""

import re
from typing import Any

import pytest

from tests.registrations.recorder import READ_STATE, Echo, record
from trainstack.objects.labels import STACK, STATE
from trainstack.runs.recorded_launches import StateResource
from trainstack.stacks.engine_state import own_state, read_engine_state
from trainstack.stacks.engine_state_request import request_engine_state

OWN = "a" * 32


def make_namespace(name: str, live: str, *, parent_type: str = "") -> StateResource:
    """Return a namespace in the state."""
    return StateResource("kubernetes:core/v1:Namespace", parent_type, name, {"metadata": {"name": live}})


def make_stash(name: str, output: Any) -> StateResource:
    """Return a Stash of the state."""
    return StateResource("pulumi:index:Stash", "", name, {"output": output})


def test_only_used_outputs_are_converted() -> None:
    """For a launch, metadata that the provider keeps as inputs are included; managed fields never are."""
    prefix = "urn:pulumi:dev::trainstack::trainstack"
    job = f"{prefix}:training:Runs$kubernetes:batch/v1:Job::lab/digits-1"
    definition = f"{prefix}:platform:Definitions$kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition::jobs"
    metadata = {"metadata": {"name": "x", "labels": {"a": "b"}}}
    live = {"metadata": {**metadata["metadata"], "managedFields": [{"manager": "x"}], "generation": 1}}
    outputs = {"outputs": {**live, "__inputs": {**metadata, "spec": {}}, "spec": {"parallelism": 1}}}
    stash = {"outputs": {"input": OWN, "output": OWN}}
    release = f"{prefix}:platform:Definitions$pulumi:index:Stash::kueue-definitions"
    definitions = {"version": "v1", "state": OWN, "definitions": {"a.example.org": "0" * 16}}
    resources = {
        job: outputs,
        definition: outputs,
        "urn:pulumi:dev::trainstack::pulumi:index:Stash::own": stash,
        release: {"outputs": {"input": definitions, "output": {}}},
    }
    read: list[StateResource] = []

    def program() -> None:
        read.extend(read_engine_state(request_engine_state().result()))

    record(program, "dev", Echo(calls={READ_STATE: {"outputs": resources}}))
    resources_by_name = {resource.name: resource for resource in read}
    assert resources_by_name["lab/digits-1"] == StateResource(
        "kubernetes:batch/v1:Job", "trainstack:training:Runs", "lab/digits-1", {**metadata, "__inputs": metadata}
    )
    assert resources_by_name["jobs"].outputs == metadata
    assert resources_by_name["own"] == StateResource("pulumi:index:Stash", "", "own", {"input": OWN, "output": OWN})
    assert own_state(read).revisions == {"a.example.org": "0" * 16}


def test_a_state_has_its_identity_and_its_objects() -> None:
    """Without metadata no object exists yet; without an identity the state gets one."""
    claim = StateResource(
        "kubernetes:core/v1:PersistentVolumeClaim",
        "trainstack:training:Storage",
        "lab/data",
        {"metadata": {"name": "data", "namespace": "lab"}},
    )
    own = own_state([make_stash("other", "x"), make_stash("state-identity", OWN), claim])
    assert own.identity == OWN
    assert own.object_identities == {("PersistentVolumeClaim", "lab", "data")}
    fresh = own_state([StateResource("kubernetes:core/v1:ConfigMap", "", "lab/x", {})])
    assert (len(fresh.identity), fresh.object_identities) == (32, frozenset())


def test_a_state_has_the_definitions_of_releases() -> None:
    """One resource has those of a release, as the last `up` applied them."""
    recorded = {"version": "v1", "state": OWN, "definitions": {"a.example.org": "0" * 16}}
    stash = StateResource(
        "pulumi:index:Stash", "trainstack:platform:Definitions", "kueue-definitions", {"input": recorded, "output": {}}
    )
    own = own_state([stash, make_stash("state-identity", OWN)])
    assert own.object_identities == {("CustomResourceDefinition", None, "a.example.org")}
    assert own.revisions == {"a.example.org": "0" * 16}


@pytest.mark.parametrize("provider", ["cluster", "cluster-generating"])
def test_a_namespace_that_a_provider_only_reads_is_not_held(provider: str) -> None:
    """A declared namespace of the same Pulumi name belongs to a component."""
    read = make_namespace(f"{provider}-identity", "kube-system")
    declared = make_namespace(f"{provider}-identity", "lab", parent_type="trainstack:platform:Namespaces")
    assert own_state([read, declared]).object_identities == {("Namespace", None, "lab")}


def test_every_reader_of_yaml_takes_an_identity_for_text() -> None:
    """`takeOver` needs no quotes: no identity is like `0b08…` or all digits."""
    for identity in (own_state([]).identity for _ in range(512)):
        assert re.fullmatch("[a-f][0-9a-f]{31}", identity)


def make_config_map(name: str, stack: str, state: str = OWN) -> StateResource:
    """Return a ConfigMap in the state, with the labels of a stack."""
    metadata = {"name": name, "namespace": "lab", "labels": {STACK: stack}, "annotations": {STATE: state}}
    return StateResource("kubernetes:core/v1:ConfigMap", "", f"lab/{name}", {"metadata": metadata})


@pytest.mark.parametrize(
    ("resources", "stack"),
    [
        ([], ""),
        ([make_config_map("a", "old"), make_config_map("b", "old")], "old"),
        ([make_config_map("a", "old"), make_config_map("b", "new")], ""),
        ([make_config_map("a", "old"), make_config_map("of-another-state", "other", "b" * 32)], "old"),
    ],
    ids=["without objects", "of one stack", "of two", "of another state"],
)
def test_a_state_knows_the_stack_of_its_objects(resources: list[StateResource], stack: str) -> None:
    """It may have had another name. A label that somebody changed is not a new name."""
    assert own_state([make_stash("state-identity", OWN), *resources]).stack == stack
