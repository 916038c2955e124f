"""Launches in the engine's state or a ledger are found without their labels."""

from typing import Any

from trainstack.runs.ledgers import Ledger
from trainstack.runs.recorded_launches import (
    RecordedLaunch,
    StateResource,
    merge_recorded_launches,
    recorded_launches,
    state_resource,
)

RUN = "digits-0123456789"
NAME = f"{RUN}-aaaaaa"
LABELS = {"trainstack.dev/stack": "dev", "trainstack.dev/run": RUN, "trainstack.dev/launch": NAME}


def make_recorded(**changes: Any) -> RecordedLaunch:
    """Return a Job in the engine's state."""
    base = {"api_version": "batch/v1", "kind": "Job", "namespace": "research", "name": NAME, "uid": "u"}
    return RecordedLaunch(**{**base, "labels": LABELS, **changes})


def make_ledger(**metadata: Any) -> Ledger:
    """Return the ledger of the same launch."""
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": LABELS, **metadata}}
    return Ledger(run_id=RUN, workload="digits", namespace="research", attempt=1, launch_name=NAME, launch=manifest)


def make_body(uid: str = "u", **labels: str | None) -> dict[str, Any]:
    """Return the live object with other labels; None removes one."""
    labels_or_none = {**LABELS, **{f"trainstack.dev/{key}": value for key, value in labels.items()}}
    kept = {key: value for key, value in labels_or_none.items() if value is not None}
    return {"metadata": {"name": NAME, "uid": uid, "labels": {**kept, "team": "a"}}}


def test_state_and_ledger_are_one_launch() -> None:
    """The state has the uid, and after a refresh the remaining labels; the ledger has the labels of the launch."""
    (launch,) = merge_recorded_launches([make_recorded(labels={})], [make_ledger(name=NAME)])
    assert launch == make_recorded()


def test_a_ledger_alone_is_enough_for_a_launch_with_a_known_name() -> None:
    """The state was lost. A generated name is chosen by the API server, and only the state has it."""
    (launch,) = merge_recorded_launches([], [make_ledger(name=NAME)])
    assert launch == make_recorded(uid="")
    assert merge_recorded_launches([], [make_ledger(generateName="digits-")]) == []


def test_another_object_of_a_fixed_name_is_not_the_launch() -> None:
    """The uid decides; without it the label and a name that is derived from the launch do."""
    assert make_recorded().is_same(make_body()["metadata"])
    assert not make_recorded().is_same(make_body(uid="other")["metadata"])
    fixed = make_recorded(name="digits", uid="")
    assert not fixed.is_same({**make_body(launch=None)["metadata"], "name": "digits"})
    assert fixed.is_same({**make_body(stack=None)["metadata"], "name": "digits"})
    assert make_recorded(uid="").is_same(make_body(launch=None)["metadata"])


def test_lost_labels_are_those_by_which_launches_are_listed() -> None:
    """The read restores them, so that the launch is handled like any other. Other labels do not change."""
    body = make_body(stack=None, run="changed")
    assert make_recorded().lost_labels(body) == {"trainstack.dev/stack": "dev", "trainstack.dev/run": RUN}
    assert make_recorded().with_labels(body)["metadata"]["labels"] == {**LABELS, "team": "a"}
    assert make_recorded().lost_labels(make_body()) == {}


URN = "urn:pulumi:dev::trainstack::trainstack:training:Runs$kubernetes:batch/v1:Job::research/"


def test_a_urn_has_the_type_the_parent_and_the_name() -> None:
    """Direct children of the stack have no parent type."""
    assert state_resource(f"{URN}{NAME}", {}) == StateResource(
        "kubernetes:batch/v1:Job", "trainstack:training:Runs", f"research/{NAME}", {}
    )
    assert state_resource("urn:pulumi:dev::trainstack::pulumi:index:Stash::a::b", None) == StateResource(
        "pulumi:index:Stash", "", "a::b", {}
    )


def test_launches_in_a_state_are_those_of_runs_and_sweeps() -> None:
    """Their labels are the declared ones, also after a refresh; for an older state they are derived from the name."""
    live = {"metadata": {"name": NAME, "namespace": "research", "uid": "u", "labels": {"team": "a"}}}
    declared = {**live, "__inputs": {"metadata": {"labels": LABELS}}}
    ledger = URN.replace("batch/v1:Job", "core/v1:ConfigMap")
    other = URN.replace("training:Runs", "platform:Queues")
    state = [
        state_resource(f"{URN}{NAME}", declared),
        state_resource(f"{ledger}run-{RUN}", live),
        state_resource(f"{other}{NAME}", live),
    ]
    assert recorded_launches("dev", state) == (make_recorded(labels={**LABELS, "team": "a"}),)
    assert recorded_launches("dev", [state_resource(f"{URN}{NAME}", live)]) == (
        make_recorded(labels={**LABELS, "team": "a"}),
    )
