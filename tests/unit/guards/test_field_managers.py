"""A change that overwrites another manager's field is reported with object, field, manager and both values."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.live_objects import make_launch_body
from tests.unit.make import make_settings
from trainstack.guards.field_managers import (
    describe_differences,
    foreign_fields,
    has_fields_of_other_states,
    managed_fields_after_transfer,
)
from trainstack.live.client import Answer
from trainstack.objects.labels import field_manager
from trainstack.objects.ownership import identity
from trainstack.platform.secrets import secret
from trainstack.settings.sections.secrets import Encrypted, Secret, Secrets
from trainstack.stacks import live_guards

DECLARED = {
    "kind": "ClusterQueue",
    "metadata": {"name": "research", "labels": {"team.io/name": "our"}},
    "spec": {
        "stopPolicy": "None",
        "groups": [{"name": "cpu", "quota": "1"}, {"name": "memory", "quota": "1Gi"}],
        "whole": ["a", "b"],
        "modes": ["x"],
    },
}
LABELS: dict[str, Any] = {"f:labels": {".": {}, "f:team.io/name": {}, "f:other": {}}}


def make_metadata(fields: dict[str, Any], manager: str = "kubectl-edit", **entry: str) -> dict[str, Any]:
    """Return the metadata of an object whose fields a manager owns."""
    return {"managedFields": [{"manager": manager, "time": "2026-01-01T00:00:00Z", "fieldsV1": fields, **entry}]}


@pytest.mark.parametrize(
    ("fields", "change", "message"),
    [
        (
            {"f:metadata": LABELS},
            {"metadata": {"labels": {"team.io/name": "text"}}},
            'metadata.labels["team.io/name"] is "text", set by \'kubectl-edit\' (2026-01-01T00:00:00Z), and "our" is',
        ),
        (
            {"f:spec": {"f:stopPolicy": {}}},
            {"spec": {"stopPolicy": "Hold"}},
            'spec.stopPolicy is "Hold", set by \'kubectl-edit\' (2026-01-01T00:00:00Z), and "None" is',
        ),
        (
            {"f:spec": {"f:groups": {'k:{"name":"memory"}': {".": {}, "f:name": {}, "f:quota": {}}}}},
            {"spec": {"groups": [{"name": "memory", "quota": "2Gi"}]}},
            'spec.groups[name=memory].quota is "2Gi", set by \'kubectl-edit\' (2026-01-01T00:00:00Z), and "1Gi" is',
        ),
        (
            {"f:spec": {"f:whole": {}}},
            {"spec": {"whole": ["a"]}},
            'spec.whole is ["a"], set by \'kubectl-edit\' (2026-01-01T00:00:00Z), and ["a", "b"] is',
        ),
        (
            {"f:spec": {"f:groups": {"i:0": {"f:quota": {}}}}},
            {"spec": {"groups": [{"quota": "x" * 99}]}},
            f'spec.groups[0].quota is "{"x" * 58}…, set by \'kubectl-edit\' (2026-01-01T00:00:00Z), and "1" is',
        ),
    ],
)
def test_a_value_of_another_manager_is_reported_with_the_declared_one(
    fields: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    """The field is in a map, in a list with keys, in an atomic list, or in a list without keys."""
    found = foreign_fields(DECLARED, make_metadata(fields))
    assert describe_differences(DECLARED, change, found) == (f"ClusterQueue research: {message} declared",)


@pytest.mark.parametrize("live", [{"stopPolicy": "None"}, {"stopPolicy": None}, {}])
def test_an_equal_or_missing_value_is_not_reported(live: dict[str, Any]) -> None:
    """The owner of the field does not matter then."""
    found = foreign_fields(DECLARED, make_metadata({"f:spec": {"f:stopPolicy": {}}}))
    assert len(found) == 1
    assert describe_differences(DECLARED, {"spec": live}, found) == ()


@pytest.mark.parametrize(
    ("declared", "live"),
    [("1", 1), ("1000m", "1"), ({"a": 1}, {"a": 1, "filled": "in"}), ([{"a": 1}], [{"a": 1, "b": 2}])],
)
def test_other_spellings_and_defaults_of_the_api_server_are_equal_values(declared: object, live: object) -> None:
    """Quantities are compared by amount; atomic values may have additional defaults."""
    manifest = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "spec": declared}
    found = foreign_fields(manifest, make_metadata({"f:spec": {}}))
    assert len(found) == 1
    assert describe_differences(manifest, {"spec": live}, found) == ()


def test_own_and_undeclared_fields_are_not_contested() -> None:
    """A status, the presence of a map, and members of a set, which have no other value, are not contested either."""
    fields: dict[str, Any] = {"f:spec": {"f:stopPolicy": {}}}
    for manager in ("trainstack", "pulumi-kubernetes"):
        assert foreign_fields(DECLARED, make_metadata(fields, manager)) == ()
    assert foreign_fields(DECLARED, make_metadata(fields, subresource="status")) == ()
    assert foreign_fields(DECLARED, make_metadata(fields, subresource="scale")) != ()
    assert foreign_fields(DECLARED, make_metadata({"f:status": {"f:x": {}}, "f:spec": {"f:more": {}}})) == ()
    assert foreign_fields(DECLARED, make_metadata({"f:metadata": {"f:labels": {".": {}}}})) == ()
    assert foreign_fields(DECLARED, make_metadata({"f:spec": {"f:modes": {'v:"x"': {}}}})) == ()
    assert foreign_fields(DECLARED, {}) == ()


def test_a_launch_is_never_edited_and_so_never_contested() -> None:
    """Kueue and the operators write fields of a launch."""
    assert foreign_fields(make_launch_body("PyTorchJob"), make_metadata({"f:spec": {"f:runPolicy": {}}})) == ()


def test_no_value_of_a_secret_is_reported() -> None:
    """The message only states that the value differs."""
    secret = {"kind": "Secret", "metadata": {"name": "key", "namespace": "research"}, "data": {"key": "b3Vycw=="}}
    found = foreign_fields(secret, make_metadata({"f:data": {"f:key": {}}}))
    (message,) = describe_differences(secret, {"data": {"key": "dGhlaXJz"}}, found)
    assert message.startswith("Secret research/key: data.key is a secret value, set by 'kubectl-edit'")
    assert "b3Vycw" not in message
    assert "dGhlaXJz" not in message


def test_a_secret_of_the_environment_is_a_warning_since_its_value_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of other objects are refused, unless they are adopted."""
    declared = Secret(name="key", namespace="research", values={"key": Encrypted(secure="v1:a")})
    settings = make_settings(secrets=Secrets(secrets=(declared,)))
    manifest = {**DECLARED, "apiVersion": "kueue.x-k8s.io/v1beta2"}
    sealed = secret(declared, "test")
    live = {
        identity(sealed): make_metadata({"f:data": {"f:key": {}}}),
        identity(manifest): make_metadata({"f:spec": {"f:stopPolicy": {}}}),
    }
    bodies = {"key": {"data": {"key": "dGhlaXJz"}}, "research": {"spec": {"stopPolicy": "Hold"}}}

    def read(paths: Sequence[str], _: str | None) -> dict[str, Answer]:
        return {path: Answer(200, bodies[path.rpartition("/")[2]]) for path in paths}

    monkeypatch.setattr(live_guards, "read", read)
    (refusal,), (note,) = live_guards.check_foreign_fields(settings, [sealed, manifest], live, ())
    assert refusal.startswith('ClusterQueue research: spec.stopPolicy is "Hold"')
    assert note.startswith("Secret research/key: data.key is a secret value, set by 'kubectl-edit'")
    assert note.endswith("which wins if they differ (only the engine can decrypt it)")
    refusals, notes = live_guards.check_foreign_fields(settings, [manifest], live, {identity(manifest)})
    assert refusals == ()
    assert notes[0].endswith('and "None" is declared, which wins (adopt: true)')


OWN, OTHER, EARLIER = (field_manager(state) for state in ("a" * 32, "b" * 32, "c" * 32))


def make_entry(manager: str, time: str = "2026-01-01T00:00:00Z", operation: str = "Apply") -> dict[str, Any]:
    """Return one entry of `managedFields`."""
    return {"manager": manager, "operation": operation, "time": time, "fieldsV1": {"f:spec": {}}}


@pytest.mark.parametrize(
    ("managers", "expected"),
    [
        ([], False),
        ([OWN, "kubectl-edit", "trainstack-local-cluster", "manager"], False),
        ([OWN, OTHER], True),
        # A release before states had field managers.
        (["trainstack"], True),
    ],
)
def test_the_fields_of_another_state_are_known_by_its_field_manager(managers: list[str], *, expected: bool) -> None:
    """Every state has its own field manager; those of other tools do not count."""
    assert has_fields_of_other_states({"managedFields": [make_entry(manager) for manager in managers]}, OWN) == expected


def test_an_object_without_managed_fields_has_none_of_another_state() -> None:
    """The API server may omit them."""
    assert not has_fields_of_other_states({}, OWN)


def test_the_latest_set_that_another_state_applied_is_inherited() -> None:
    """Sets of clients that only created or patched the object, and older sets, are dropped; other tools keep theirs."""
    edit = make_entry("kubectl-edit", operation="Update")
    latest = make_entry(OTHER, "2026-03-01T00:00:00Z")
    claim = make_entry(OTHER, "2026-04-01T00:00:00Z", "Update")
    fields = [make_entry(EARLIER), edit, latest, claim]
    assert managed_fields_after_transfer(fields, OWN) == [edit, {**latest, "manager": OWN}]


def test_the_last_set_is_never_dropped() -> None:
    """Without any set the API server would assign the fields to its own manager, and no client could take them over."""
    claim = make_entry(OTHER, operation="Update")
    assert managed_fields_after_transfer([claim], OWN) == [{**claim, "manager": OWN}]
    assert managed_fields_after_transfer(
        [make_entry(EARLIER, operation="Update"), {**claim, "time": "2026-02-01T00:00:00Z"}], OWN
    ) == [{**claim, "time": "2026-02-01T00:00:00Z", "manager": OWN}]


def test_a_set_that_the_state_applied_is_kept() -> None:
    """A manager cannot have two applied sets."""
    own = make_entry(OWN)
    assert managed_fields_after_transfer([make_entry(OTHER, "2026-03-01T00:00:00Z"), own], OWN) == [own]
