"""Every field of Kueue's objects and Configuration is calculated, irrelevant, or makes the verdict unknown."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.checks.admission.make import make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.feature_gates import GATES
from trainstack.kueue.fields import FIELDS, MODELLED, OLDER, UNKNOWN, unmodelled_fields
from trainstack.kueue.from_objects import read_model
from trainstack.kueue.model import Workload
from trainstack.kueue.workloads import read_kueue_workload

Body = dict[str, Any]
SCHEMA: dict[str, Any] = json.loads((Path(__file__).parent / "kueue_fields.json").read_text())
"""Made by tests/admission/kueue_fields.py; a test there compares it with the release and the module that are built."""


def covering(kind: str, path: str) -> list[str]:
    """The lines of the table for a field."""
    return [known for known in FIELDS[kind] if path == known or path.startswith((f"{known}.", f"{known}["))]


@pytest.mark.parametrize("kind", sorted(SCHEMA.keys() - {"gates"}))
def test_each_field_has_one_line_and_each_line_a_field(kind: str) -> None:
    """So the test fails without any one of the lines, and with a field of another release."""
    assert [path for path in SCHEMA[kind] if len(covering(kind, path)) != 1] == []
    assert {known for path in SCHEMA[kind] for known in covering(kind, path)} == FIELDS[kind].keys()


def test_no_kind_and_no_gate_is_missing() -> None:
    assert FIELDS.keys() == SCHEMA.keys() - {"gates"}
    assert {name: gate.default for name, gate in GATES.items()} == SCHEMA["gates"]


def make_objects(**specs: Body) -> list[Body]:
    """A queue with all that belongs to it, with further fields by kind."""
    flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    base: dict[str, tuple[Body, Body]] = {
        "ResourceFlavor": ({"name": "f"}, {}),
        "Cohort": ({"name": "lab"}, {}),
        "ClusterQueue": (
            {"name": "q"},
            {
                "cohortName": "lab",
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
            },
        ),
        "LocalQueue": ({"name": "q", "namespace": "ns"}, {"clusterQueue": "q"}),
    }
    return [
        {"kind": kind, "metadata": metadata, "spec": {**spec, **specs.get(kind, {})}}
        for kind, (metadata, spec) in base.items()
    ]


@pytest.mark.parametrize("kind", ["ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue"])
def test_a_field_that_no_line_has_makes_the_verdict_unknown(kind: str) -> None:
    """Such as one of a later release; of another tree's objects it is irrelevant."""
    assert simulate(make_workload(), read_model(make_objects())).outcome == "fits"
    changed = {kind: {"fromALaterRelease": {"deep": 1}}}
    found = simulate(make_workload(), read_model(make_objects(**changed)))
    assert (found.outcome, [reason.cause for reason in found.reasons]) == ("unknown", ["unmodelled"])
    assert "sets spec.fromALaterRelease: the verdict does not know this field" in found.reasons[0].message
    other = {"kind": kind, "metadata": {"name": "other", "namespace": "ns"}, "spec": {"later": 1}}
    if kind in ("ClusterQueue", "LocalQueue"):
        other["spec"] |= {"clusterQueue": "other", "resourceGroups": []}  # type: ignore[operator]
    assert simulate(make_workload(), read_model([*make_objects(), other])).outcome == "fits"


def test_an_unknown_field_of_a_workload_makes_its_own_verdict_unknown() -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template, "later": True}]}
    model = read_model(make_objects())
    read = read_kueue_workload({"metadata": {"name": "w", "namespace": "ns"}, "spec": spec}, model)
    assert isinstance(read, Workload)
    found = simulate(read, model)
    assert (found.outcome, found.reasons[0].message) == (
        "unknown",
        "Workload ns/w sets spec.podSets[].later: the verdict does not know this field",
    )


@pytest.mark.parametrize(
    ("ready", "outcome"),
    [
        ({"timeout": "5m"}, "fits"),
        ({"blockAdmission": False}, "fits"),
        ({"blockAdmission": True}, "unknown"),
        # In v1beta1 it blocks unless it is off.
        ({"enable": True}, "unknown"),
        ({"enable": True, "blockAdmission": False}, "fits"),
        ({"enable": False, "blockAdmission": True}, "fits"),
    ],
)
def test_kueue_that_waits_for_pods_before_it_admits_makes_the_verdict_unknown(ready: Body, outcome: str) -> None:
    """Source: PodsReadyForAllAdmittedWorkloads in pkg/cache/scheduler/cache.go; the defaults of both versions."""
    found = simulate(make_workload(), read_model(make_objects(), kueue={"waitForPodsReady": ready}))
    assert found.outcome == outcome
    if outcome == "unknown":
        assert found.reasons[0].message.startswith("Configuration sets waitForPodsReady.")


def test_every_field_that_is_unknown_is_found_where_it_is_set() -> None:
    """By the table alone: no code names the field."""
    lines = [(kind, path) for kind, table in {**FIELDS, "older": OLDER}.items() for path in table]
    unknown = [(kind, path) for kind, path in lines if {**FIELDS, "older": OLDER}[kind][path].startswith(UNKNOWN)]
    assert unknown
    for kind, path in unknown:
        body: object = True
        for key in reversed(path.split(".")):
            body = {key.removesuffix("[]"): [body] if key.endswith("[]") else body}
        assert isinstance(body, dict)
        (text,) = unmodelled_fields("Configuration" if kind == "older" else kind, body)
        assert text.startswith(f"{path}: ")
    assert all(reason for table in FIELDS.values() for reason in table.values())
    assert list(unmodelled_fields("ClusterQueue", {"spec": {"stopPolicy": "Hold"}})) == []
    assert FIELDS["ClusterQueue"]["spec.stopPolicy"] == MODELLED
