"""Launches that the engine's state or a ledger records, whatever labels are left of them."""

from typing import Any

from trainstack.runs.recorded import RecordedLaunch, StateResource, merged, recorded_launches, state_resource
from trainstack.runs.records import Ledger

RUN = "digits-0123456789"
NAME = f"{RUN}-aaaaaa"
LABELS = {"trainstack.dev/stack": "dev", "trainstack.dev/run": RUN, "trainstack.dev/launch": NAME}


def make_recorded(**changes: Any) -> RecordedLaunch:
    """A Job in the engine's state."""
    base = {"api_version": "batch/v1", "kind": "Job", "namespace": "research", "name": NAME, "uid": "u"}
    return RecordedLaunch(**{**base, "labels": LABELS, **changes})


def make_ledger(**metadata: Any) -> Ledger:
    """The ledger of the same launch."""
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": LABELS, **metadata}}
    return Ledger(run_id=RUN, workload="digits", namespace="research", attempt=1, launch_name=NAME, launch=manifest)


def make_body(uid: str = "u", **labels: str | None) -> dict[str, Any]:
    """The live object, with other labels; None removes one."""
    live = {**LABELS, **{f"trainstack.dev/{key}": value for key, value in labels.items()}}
    kept = {key: value for key, value in live.items() if value is not None}
    return {"metadata": {"name": NAME, "uid": uid, "labels": {**kept, "team": "a"}}}


def test_state_and_ledger_are_one_launch() -> None:
    """The state has the uid, and after a refresh the labels that are left; the ledger has those of the launch."""
    (launch,) = merged([make_recorded(labels={})], [make_ledger(name=NAME)])
    assert launch == make_recorded()


def test_a_ledger_alone_finds_what_has_a_known_name() -> None:
    """The state was lost. The API server chose a generated name, and only the state knows it."""
    (launch,) = merged([], [make_ledger(name=NAME)])
    assert launch == make_recorded(uid="")
    assert merged([], [make_ledger(generateName="digits-")]) == []


def test_another_object_of_a_fixed_name_is_not_the_launch() -> None:
    """The uid tells; without it the label, and a name that is derived from the launch."""
    assert make_recorded().is_same(make_body()["metadata"])
    assert not make_recorded().is_same(make_body(uid="other")["metadata"])
    fixed = make_recorded(name="digits", uid="")
    assert not fixed.is_same({**make_body(launch=None)["metadata"], "name": "digits"})
    assert fixed.is_same({**make_body(stack=None)["metadata"], "name": "digits"})
    assert make_recorded(uid="").is_same(make_body(launch=None)["metadata"])


def test_lost_labels_are_those_by_which_launches_are_listed() -> None:
    """They are restored in what is read, so that the launch is judged as any other; others stay as they are."""
    body = make_body(stack=None, run="changed")
    assert make_recorded().lost(body) == {"trainstack.dev/stack": "dev", "trainstack.dev/run": RUN}
    assert make_recorded().with_labels(body)["metadata"]["labels"] == {**LABELS, "team": "a"}
    assert make_recorded().lost(make_body()) == {}


URN = "urn:pulumi:dev::trainstack::trainstack:training:Runs$kubernetes:batch/v1:Job::research/"


def test_a_urn_names_the_type_the_parent_and_the_resource() -> None:
    """The stack's own children have no parent type."""
    assert state_resource(f"{URN}{NAME}", {}) == StateResource(
        "kubernetes:batch/v1:Job", "trainstack:training:Runs", f"research/{NAME}", {}
    )
    assert state_resource("urn:pulumi:dev::trainstack::pulumi:index:Stash::a::b", None) == StateResource(
        "pulumi:index:Stash", "", "a::b", {}
    )


def test_launches_in_a_state_are_those_of_runs_and_sweeps() -> None:
    """With the labels that were declared, whatever a refresh has read; of an older state with what the name holds."""
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
