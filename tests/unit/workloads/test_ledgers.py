"""The ConfigMaps of a launch: ledger, claim and wrapper."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from tests.unit.make import make_distributed, make_run
from tests.unit.workloads.launches import make_launch
from trainstack.guards.states import OwnState, of_others
from trainstack.objects.labels import with_state
from trainstack.objects.ownership import identity
from trainstack.runs.errors import WorkloadError
from trainstack.runs.ledgers import (
    Claim,
    Ledger,
    claim_config_map,
    ledger_config_map,
    read_claim,
    read_ledger,
    wrapper_config_map,
    wrapper_of,
    wrapper_reference,
)
from trainstack.runs.manifests.build import manifest
from trainstack.settings.sections.workloads import ReplicatedJob, Workload

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MARK = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}


def make_ledger(**changes: Any) -> Ledger:
    """Return the ledger of the run `train-1`."""
    base = {
        "run_id": "train-1",
        "workload": "train",
        "namespace": "research",
        "attempt": 2,
        "launch_name": "train-1-2",
        "launch": {"kind": "Job", "metadata": {"name": "train-1-2"}},
    }
    return Ledger(**{**base, **changes})


def test_the_config_map_of_a_ledger() -> None:
    """It has a label, and is named after its run."""
    assert ledger_config_map("dev", make_ledger()) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "run-train-1",
            "namespace": "research",
            "labels": {
                **MARK,
                "trainstack.dev/ledger": "run",
                "trainstack.dev/run": "train-1",
                "trainstack.dev/workload": "train",
            },
            "annotations": {"pulumi.com/patchForce": "true"},
        },
        "data": {
            "run": "train-1",
            "workload": "train",
            "attempt": "2",
            "launchName": "train-1-2",
            "launch": '{"kind":"Job","metadata":{"name":"train-1-2"}}',
            "launched": "true",
        },
    }


def test_a_claim_is_its_ledger_without_the_confirmation() -> None:
    """A ledger of an earlier release has no annotation, and is not a claim."""
    ledger = ledger_config_map("dev", make_ledger())
    posted = claim_config_map(ledger, NOW)
    assert posted["data"] == {key: value for key, value in ledger["data"].items() if key != "launched"}
    assert read_claim(posted) == Claim(make_ledger(), NOW)
    assert read_claim(ledger) is None
    assert read_claim({**posted, "data": ledger["data"]}) is None
    assert read_claim({**ledger, "data": posted["data"]}) is None
    posted["metadata"]["annotations"]["trainstack.dev/claim"] = "yesterday"
    with pytest.raises(WorkloadError, match=r"run-train-1: annotation trainstack.dev/claim is 'yesterday'"):
        read_claim(posted)


def test_a_claim_belongs_to_the_state_that_created_it() -> None:
    """After an interrupted `up` the claim is not in the state, which identifies it only by this annotation."""
    ledger = ledger_config_map("dev", make_ledger())
    claim = claim_config_map({**ledger, "metadata": with_state(ledger["metadata"], "a" * 32)}, NOW)
    assert of_others({identity(claim): claim["metadata"]}, OwnState("a" * 32), "dev") == {}
    assert of_others({identity(claim): claim["metadata"]}, OwnState("b" * 32), "dev") == {"a" * 32: (identity(claim),)}


def test_a_ledger_that_is_too_large_for_a_config_map_is_refused() -> None:
    """Otherwise the launch would be created without its ledger."""
    launch = {"kind": "Job", "metadata": {"name": "train-1-2"}, "spec": {"args": ["x" * (1 << 20)]}}
    with pytest.raises(WorkloadError, match=r"workload train: the ledger of train-1 needs 1048\d+ bytes"):
        ledger_config_map("dev", make_ledger(launch=launch))


def test_a_ledger_survives_a_round_trip() -> None:
    """A frozen launch is declared again from its ledger, byte for byte."""
    ledger = make_ledger(launch=manifest(make_run(env={"A": "ü $$"}), "dev", make_launch()))
    assert read_ledger(ledger_config_map("dev", ledger)) == ledger
    both = make_ledger(companions=({"kind": "TrainingRuntime", "metadata": {"name": "train-1-2"}},))
    assert read_ledger(ledger_config_map("dev", both)) == both


@pytest.mark.parametrize(
    "workload",
    [
        make_run(),
        make_run(kind="Pod"),
        make_distributed(),
        make_run(kind="JobSet", replicated_jobs=(ReplicatedJob(name="node"),)),
    ],
)
def test_the_wrapper_is_read_from_the_pods_of_a_launch(workload: Workload) -> None:
    """This applies to every kind. An unmanaged launch has none."""
    ledger = make_ledger(launch=manifest(workload, "dev", make_launch()))
    assert wrapper_of(ledger.objects) == "trainstack-wrapper-0"
    unmanaged = workload.model_copy(update={"managed": False})
    assert wrapper_of([manifest(unmanaged, "dev", make_launch())]) is None


@pytest.mark.parametrize("data", [None, {"run": "train-1"}, {"attempt": "x"}, {"launch": "{"}])
def test_a_ledger_that_was_edited_is_refused(data: dict[str, str] | None) -> None:
    """If it counted as missing, the run would be launched again."""
    config_map = ledger_config_map("dev", make_ledger())
    config_map["data"] = data if data is None or "run" in data else {**config_map["data"], **data}
    with pytest.raises(WorkloadError, match="ConfigMap research/run-train-1 records a launch, but cannot be read"):
        read_ledger(config_map)


def test_the_wrapper_is_named_after_its_content() -> None:
    """It never changes while a pod uses it."""
    reference = wrapper_reference("print()")
    assert wrapper_config_map("research", "dev", "print()") == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": reference,
            "namespace": "research",
            "labels": {**MARK, "trainstack.dev/wrapper": "run"},
        },
        "immutable": True,
        "data": {"run.py": "print()"},
    }
    assert reference.startswith("trainstack-wrapper-")
    assert wrapper_reference("print(1)") != reference


WRONG: tuple[str, ...] = (
    "5",
    "null",
    '"x"',
    "[]",
    "[5]",
    "[null]",
    "[[]]",
    '{"a": 1}',
    "true",
    "[" * 100_000,
    "1" * 5000,
)


def test_a_ledger_that_was_edited_to_another_type_is_refused() -> None:
    """Every accepted ledger has the right types."""
    accepted = set()
    for key, text in product(("launch", "companions", "trials", "attempt"), WRONG):
        config_map = ledger_config_map("dev", make_ledger())
        config_map["data"] = {**config_map["data"], key: text}
        try:
            ledger = read_ledger(config_map)
        except WorkloadError:
            continue
        accepted.add((key, text))
        assert all(isinstance(body["kind"], str) and isinstance(body["metadata"], dict) for body in ledger.objects)
        assert all(isinstance(trial, str) for trial in ledger.trials)
    assert accepted == {("companions", "[]"), ("trials", "[]"), ("attempt", "5")}


@pytest.mark.parametrize("spec", [None, [], 5, {"template": None}, {"template": {"spec": {"volumes": [5]}}}])
def test_a_launch_whose_pods_cannot_be_read_is_refused(spec: object) -> None:
    """A nested value of the ledger was edited."""
    with pytest.raises(WorkloadError, match="the pods of launch train-1-2 cannot be read"):
        wrapper_of([{"kind": "Job", "metadata": {"name": "train-1-2"}, "spec": spec}])
