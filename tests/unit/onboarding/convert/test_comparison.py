"""A lost field is found at any depth; an addition has a reason, or is reported."""

from typing import Any

import pytest

from trainstack.onboarding.convert.comparison import AddedField, LostField, compare, compare_trial


def make_job(spec: Any, **labels: str) -> dict[str, Any]:
    """Return a Job."""
    return {"kind": "Job", "metadata": {"name": "a", "labels": labels}, "spec": spec}


def test_documented_additions_have_reasons() -> None:
    """Labels of the owner and the launch are; any other field is not."""
    rendered = make_job({"x": 1, "y": {"z": 2}}, **{"app": "x", "trainstack.dev/run": "r"})
    comparison = compare(make_job({"x": 1}, app="x"), rendered)
    assert comparison.lost == ()
    assert comparison.added == (
        AddedField("metadata.labels.trainstack.dev/run", "status, logs and the launch rules find the launch by them"),
        AddedField("spec.y.z", ""),
    )
    assert not comparison.is_complete


@pytest.mark.parametrize(
    ("source", "rendered", "lost"),
    [
        ({"a": 1}, {}, LostField("spec.a", 1, None)),
        ({"a": [1, 2]}, {"a": [1]}, LostField("spec.a[1]", 2, None)),
        ({"a": [2, 1]}, {"a": [1, 2]}, LostField("spec.a[0]", 2, 1)),
        ({"a": {}}, {}, LostField("spec.a", {}, None)),
        ({"a": True}, {"a": 1}, LostField("spec.a", True, 1)),
        ({"a": "1"}, {"a": 1}, LostField("spec.a", "1", 1)),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, LostField("spec.limits.cpu", "1", "2")),
        ({"suspend": True}, {}, LostField("spec.suspend", True, None)),
    ],
)
def test_a_change_is_a_loss(source: Any, rendered: Any, lost: LostField) -> None:
    """Order, types and empty maps count."""
    assert compare(make_job(source), make_job(rendered)).lost[0] == lost


@pytest.mark.parametrize(
    ("source", "rendered"),
    [
        ({"limits": {"cpu": 1, "memory": "1024Mi"}}, {"limits": {"cpu": "1", "memory": "1Gi"}}),
        ({"requests": {"cpu": 0.5}}, {"requests": {"cpu": "500m"}}),
        ({"a": None}, {}),
    ],
)
def test_what_the_api_server_reads_as_the_same_is_no_loss(source: Any, rendered: Any) -> None:
    """Quantities have several spellings, and a null is no value."""
    assert compare(make_job(source), make_job(rendered)).lost == ()


def test_kueue_suspends_what_is_in_a_queue() -> None:
    """So the field is left out, which is listed."""
    queue = {"kueue.x-k8s.io/queue-name": "q"}
    comparison = compare(make_job({"suspend": True}, **queue), make_job({}, **queue))
    assert comparison.is_complete
    assert comparison.added == (AddedField("spec.suspend (left out)", "Kueue sets it"),)


def test_a_trial_may_have_another_name_and_its_number() -> None:
    """Its number is a variable after those of the file."""
    pods = {"containers": [{"env": [{"name": "A", "value": "1"}]}]}
    trial_pods = {"containers": [{"env": [{"name": "A", "value": "1"}, {"name": "JOB_ID", "value": "3"}]}]}
    rendered = {**make_job(trial_pods), "metadata": {"name": "sweep-3", "labels": {}}}
    comparison = compare_trial(make_job(pods), rendered)
    assert comparison.is_complete
    assert [field.path for field in comparison.added] == [
        "metadata.name",
        "spec.containers[0].env[1].name",
        "spec.containers[0].env[1].value",
    ]
    assert not compare(make_job(pods), make_job(trial_pods)).is_complete
