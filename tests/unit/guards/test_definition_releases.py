"""The metadata of live definitions decides which definitions of operators a change applies."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.make import make_kueue, make_manifest, make_training_operator
from trainstack.guards.definition_releases import (
    COMPONENT_TYPE,
    RESOURCE_TYPE,
    Release,
    definition_identities,
    drift_notes,
    plan_releases,
    recorded_manifests,
    revisions_of_resource,
    takeover_patch,
)
from trainstack.objects.labels import REVISION, STATE, field_manager
from trainstack.objects.ownership import Identity
from trainstack.platform.operators.install import OperatorManifests
from trainstack.runs.recorded_launches import StateResource
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.stack_objects.stack_objects import StackObjects

OWN, OTHER = "a" * 32, "b" * 32
NAME = "workloads.kueue.x-k8s.io"
WHO: Identity = ("CustomResourceDefinition", None, NAME)
Metadata = dict[str, Any]


def make_definition(name: str = NAME, **spec: Any) -> dict[str, Any]:
    """Return a definition of a release, with the labels of the stack."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "labels": {"trainstack.dev/stack": "dev"}, "annotations": {"release": "x"}},
        "spec": {"group": "kueue.x-k8s.io", "names": {"kind": "Workload"}, "versions": [{"name": "v1"}], **spec},
    }


def make_declared(*definitions: dict[str, Any]) -> StackObjects:
    """Return an environment whose Kueue has these definitions; the training operator's release has none."""
    installs = Operators(kueue=make_kueue(), training_operator=make_training_operator(manifest=make_manifest()))
    declared = StackObjects(Settings(stack="dev", operators=installs))
    empty = OperatorManifests(crds=(), setup=(), deployments=(), extensions=())
    declared.operators = {"kueue": replace(empty, crds=definitions), "training-operator": empty}
    return declared


def make_plan(
    *definitions: dict[str, Any],
    live: Mapping[Identity, Metadata] | None = None,
    stored: Mapping[str, str] | None = None,
    state: str = OWN,
) -> dict[str, Release]:
    return plan_releases(make_declared(*(definitions or (make_definition(),))), live or {}, stored or {}, state)


def fields_of(value: Any) -> dict[str, Any]:
    """Return a set of fields in the format of the API server."""
    return {f"f:{key}": fields_of(below) for key, below in value.items()} if isinstance(value, dict) else {}


def make_live(release: Release, *, state: str = OWN) -> dict[Identity, Metadata]:
    """Return the metadata of the definitions of a release that were just applied."""
    return {
        ("CustomResourceDefinition", None, manifest["metadata"]["name"]): {
            **manifest["metadata"],
            "managedFields": [
                {"manager": "kube-apiserver", "operation": "Update", "subresource": "status", "fieldsV1": {}},
                {
                    "manager": field_manager(state) if state else "trainstack",
                    "operation": "Apply",
                    "fieldsV1": {
                        **fields_of({"spec": manifest["spec"]}),
                        "f:metadata": fields_of({key: manifest["metadata"][key] for key in ("labels", "annotations")}),
                    },
                },
            ],
        }
        for manifest in release.manifests
    }


def stored(releases: Mapping[str, Release]) -> Mapping[str, str]:
    """Return the revisions in the state after an `up` with this plan."""
    return {
        name: revision
        for release in releases.values()
        for name, revision in release.stored_value["definitions"].items()
    }


def test_the_state_has_a_digest_of_each_definition() -> None:
    """The applied manifest also has it, with the identity of the state. A release without definitions is left out."""
    releases = make_plan()
    assert {*releases} == {"kueue"}
    (manifest,) = releases["kueue"].manifests
    revision = manifest["metadata"]["annotations"][REVISION]
    assert len(revision) == 16
    assert releases["kueue"].stored_value == {"version": "v0.15.2", "state": OWN, "definitions": {NAME: revision}}
    assert manifest["metadata"]["annotations"][STATE] == OWN
    assert manifest["metadata"]["annotations"]["release"] == "x"
    assert releases["kueue"].manager == field_manager(OWN)


def test_an_applied_definition_is_unchanged_in_the_next_change() -> None:
    """This also holds if another client adds a field, such as a conversion webhook's CA, and after several repairs."""
    before = make_plan(stored=stored(make_plan()))
    live = make_live(before["kueue"])
    update = {"manager": "kueue", "operation": "Update", "fieldsV1": {"f:spec": {"f:conversion": {"f:caBundle": {}}}}}
    live[WHO]["managedFields"].append(update)
    after = make_plan(live=live, stored=stored(before))
    assert after == before
    assert drift_notes(after, live, stored(before)) == ()


def remove_field(fields: dict[str, Any], *path: str) -> None:
    """Remove a field that another manager takes over; the API server keeps no empty sets."""
    first, *rest = path
    if rest:
        remove_field(fields[first], *rest)
    if not rest or not fields[first]:
        del fields[first]


@pytest.mark.parametrize(
    "path",
    [
        ("f:spec", "f:versions"),
        ("f:spec", "f:names", "f:kind"),
        ("f:metadata", "f:labels", "f:trainstack.dev/stack"),
        ("f:spec",),
    ],
    ids=lambda path: path[-1],
)
def test_a_changed_field_is_applied_again(path: tuple[str, ...]) -> None:
    """The write of another client removes the field from the set of fields that this state has applied."""
    before = make_plan()
    live = make_live(before["kueue"])
    remove_field(live[WHO]["managedFields"][1]["fieldsV1"], *path)
    after = make_plan(live=live, stored=stored(before))
    assert stored(after) == {NAME: f"{stored(before)[NAME]}-1"}
    assert drift_notes(after, live, stored(before)) == (
        f"CustomResourceDefinition {NAME} was changed outside of this stack; `up` applies it again",
    )
    repaired = make_live(after["kueue"])
    assert stored(make_plan(live=repaired, stored=stored(after))) == stored(after)


@pytest.mark.parametrize("revision", ["", "0" * 16])
def test_a_changed_revision_is_applied_again(revision: str) -> None:
    """Without the right revision the manifest of the fields is unknown."""
    before = make_plan()
    live = make_live(before["kueue"])
    live[WHO]["annotations"] = {**live[WHO]["annotations"], REVISION: revision}
    assert stored(make_plan(live=live, stored=stored(before))) == {NAME: f"{stored(before)[NAME]}-1"}


def test_a_deleted_definition_is_applied_again_each_time() -> None:
    """The revision always differs from the stored one, also after several repairs of the same definition."""
    revision = stored(make_plan())[NAME]
    for stored_revision, expected in ((revision, f"{revision}-1"), (f"{revision}-1", f"{revision}-2")):
        releases = make_plan(stored={NAME: stored_revision})
        assert stored(releases) == {NAME: expected}
        assert drift_notes(releases, {}, {NAME: stored_revision}) == (
            f"CustomResourceDefinition {NAME} was deleted outside of this stack; `up` applies it again",
        )


def test_a_terminating_definition_is_applied_again() -> None:
    """The engine applies it after the deletion."""
    before = make_plan()
    live = make_live(before["kueue"])
    live[WHO]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert stored(make_plan(live=live, stored=stored(before))) == {NAME: f"{stored(before)[NAME]}-1"}


def test_another_release_is_another_revision_and_no_drift() -> None:
    """A definition that the release removes is no longer in the state, but stays in the cluster."""
    before = make_plan(make_definition(), make_definition("cohorts.kueue.x-k8s.io"))
    live = make_live(before["kueue"])
    after = make_plan(make_definition(versions=[{"name": "v2"}]), live=live, stored=stored(before))
    assert {*stored(after)} == {NAME}
    assert "-" not in stored(after)[NAME]
    assert stored(after)[NAME] != stored(before)[NAME]
    assert drift_notes(after, live, stored(before)) == ()


def test_an_interrupted_change_is_completed() -> None:
    """The definitions of the new release are in the cluster, and the state has those of the old one."""
    old = make_plan()
    new = make_plan(make_definition(versions=[{"name": "v2"}]), stored=stored(old))
    live = make_live(new["kueue"])
    again = make_plan(make_definition(versions=[{"name": "v2"}]), live=live, stored=stored(old))
    assert stored(again) == stored(new) != stored(old)
    # The old release is declared again instead.
    assert stored(make_plan(live=live, stored=stored(old))) == {NAME: f"{stored(old)[NAME]}-1"}


def test_a_definition_that_another_state_applied_is_applied_again() -> None:
    """`takeOver` allows it; until then the other state owns the fields."""
    other = make_plan(state=OTHER)
    live = make_live(other["kueue"], state=OTHER)
    assert make_plan(live=live)["kueue"].stored_value["state"] == OWN
    assert stored(make_plan(live=live, stored=stored(other))) == {NAME: f"{stored(other)[NAME]}-1"}


def test_a_program_without_our_state_has_a_field_manager_too() -> None:
    """The annotations of its definitions have no identity of a state."""
    release = make_plan(state="")["kueue"]
    assert release.manager == "trainstack"
    assert {*release.manifests[0]["metadata"]["annotations"]} == {"release", REVISION}
    live = make_live(release, state="")
    assert stored(make_plan(live=live, state="")) == release.stored_value["definitions"]


def test_a_program_that_cannot_read_its_state_salts_its_revisions() -> None:
    """Each revision differs from the stored one, except for definitions that match the declared ones."""
    declared = make_declared(make_definition())
    before = plan_releases(declared, {}, {}, salt="1a")
    live = make_live(before["kueue"], state="")
    assert plan_releases(declared, live, {}, salt="2b") == before
    assert stored(plan_releases(declared, {}, {}, salt="2b")) == {NAME: stored(before)[NAME].replace("-1a", "-2b")}


def test_the_state_is_read_by_type_and_parent() -> None:
    """A state has other values of the same type."""
    recorded = make_plan()["kueue"].stored_value
    resource = StateResource(RESOURCE_TYPE, COMPONENT_TYPE, "kueue-definitions", {"input": recorded, "output": "x"})
    assert revisions_of_resource(resource) == recorded["definitions"]
    assert revisions_of_resource(replace(resource, parent_type="")) == {}
    assert revisions_of_resource(replace(resource, outputs={})) == {}
    assert definition_identities(recorded["definitions"]) == {WHO}
    (manifest,) = recorded_manifests({"input": recorded})
    assert manifest["metadata"] == {"name": NAME, "annotations": {STATE: OWN}}


def make_entry(manager: str, operation: str, time: str, **fields: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "time": time, "fieldsV1": fields_of(fields)}


def test_updates_of_the_provider_become_applied_fields() -> None:
    """A program with the provider's own classes updates definitions; the new set is the union of both."""
    own = field_manager(OWN)
    applied = make_entry(own, "Apply", "1", spec={"names": {"kind": 1}}, metadata={"labels": {"a": 1}})
    updated = make_entry(own, "Update", "2", spec={"versions": 1, "names": {"plural": 1}})
    generated = make_entry("pulumi-kubernetes-3f", "Apply", "0", spec={"group": 1})
    foreign = make_entry("kueue", "Update", "3", spec={"conversion": 1})
    status = {**make_entry(own, "Update", "4"), "subresource": "status"}
    assert takeover_patch({"managedFields": [applied, foreign, status]}, own) == {}
    assert takeover_patch({}, own) == {}
    change = takeover_patch({"managedFields": [generated, applied, updated, foreign, status]}, own)
    assert {*change} == {"managedFields"}
    assert change["managedFields"] == [
        foreign,
        status,
        {
            **make_entry(own, "Apply", "2"),
            "fieldsV1": fields_of(
                {
                    "spec": {"group": 1, "names": {"kind": 1, "plural": 1}, "versions": 1},
                    "metadata": {"labels": {"a": 1}},
                }
            ),
        },
    ]


def test_a_restored_revision_is_no_conflict() -> None:
    """Its owner is the client that restored the definition. A field that another state has applied is a conflict."""
    own, fields = field_manager(OWN), {"metadata": {"annotations": {REVISION: 1}}}
    applied, restored = make_entry(own, "Apply", "1", **fields), make_entry("velero-server", "Update", "2", **fields)
    other = make_entry(field_manager(OTHER), "Apply", "2", **fields)
    assert takeover_patch({"managedFields": [applied, other]}, own) == {}
    assert takeover_patch({"managedFields": [restored]}, own) == {"annotations": {REVISION: None}}
    assert takeover_patch({"managedFields": [applied, restored]}, own) == {"annotations": {REVISION: None}}


def test_a_suffix_that_another_client_has_written_is_replaced() -> None:
    """The suffix need not be a number."""
    revision = stored(make_plan())[NAME]
    assert stored(make_plan(stored={NAME: f"{revision}-x"})) == {NAME: f"{revision}-1"}
