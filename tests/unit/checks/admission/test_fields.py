"""Every field of Kueue's objects and Configuration is calculated, irrelevant, or makes the verdict unknown."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.checks.admission.make import make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.differences import RELEASES
from trainstack.kueue.fields import FIELDS, MODELLED, unmodelled_fields
from trainstack.kueue.from_objects import read_model
from trainstack.kueue.model import Workload
from trainstack.kueue.workloads import read_kueue_workload

Body = dict[str, Any]
SCHEMAS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "kueue_fields.json").read_text())
"""Made by tests/admission/kueue_fields.py; a test there compares it with the modules. By minor release."""
SCHEMA = SCHEMAS["v0.15"]


def covering(release: str, kind: str, path: str) -> list[str]:
    """The lines of the table for a field."""
    return [
        known
        for known in RELEASES[release].fields[kind]
        if path == known or path.startswith((f"{known}.", f"{known}["))
    ]


@pytest.mark.parametrize("kind", sorted(SCHEMA.keys() - {"gates"}))
@pytest.mark.parametrize("release", SCHEMAS)
def test_each_field_has_one_line_and_each_line_a_field(release: str, kind: str) -> None:
    """So the test fails without any one of the lines, and with a field of another release."""
    schema, table = SCHEMAS[release][kind], RELEASES[release].fields[kind]
    assert [path for path in schema if len(covering(release, kind, path)) != 1] == []
    assert {known for path in schema for known in covering(release, kind, path)} == table.keys()


@pytest.mark.parametrize("release", RELEASES)
def test_no_kind_and_no_gate_is_missing(release: str) -> None:
    assert RELEASES[release].fields.keys() == SCHEMAS[release].keys() - {"gates"}
    assert {name: gate.default for name, gate in RELEASES[release].gates.items()} == SCHEMAS[release]["gates"]


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


def test_every_field_has_a_treatment() -> None:
    """It is calculated, or irrelevant for a reason."""
    assert all(reason for table in FIELDS.values() for reason in table.values())
    assert list(unmodelled_fields("ClusterQueue", {"spec": {"stopPolicy": "Hold"}})) == []
    assert FIELDS["ClusterQueue"]["spec.stopPolicy"] == MODELLED
