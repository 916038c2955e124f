"""The ConfigMaps of a launch: ledger, claim and wrapper."""

import json
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from tests.unit.make import make_distributed, make_run
from tests.unit.runs.launches import make_launch
from trainstack.guards.other_states import OwnState, objects_of_other_states
from trainstack.objects.labels import LAUNCH, with_state
from trainstack.objects.ownership import identity
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import canonical
from trainstack.runs.ledgers import (
    Claim,
    Ledger,
    claim_config_map,
    is_claim,
    ledger_config_map,
    mounted_wrapper,
    read_claim,
    read_ledger,
    wrapper_config_map,
    wrapper_reference,
)
from trainstack.runs.manifests.build import manifest
from trainstack.settings.sections.workloads import ReplicatedJob, Workload

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MARK = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}


JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train-1-2", "namespace": "research", "labels": {LAUNCH: "train-1-2"}},
    "spec": {},
}


def make_ledger(**changes: Any) -> Ledger:
    """Return the ledger of the run `train-1`."""
    base = {
        "run_id": "train-1",
        "workload": "train",
        "namespace": "research",
        "attempt": 2,
        "launch_name": "train-1-2",
        "launch": JOB,
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
            "launch": canonical(JOB),
            "launched": "true",
        },
    }


def test_a_claim_is_its_ledger_without_the_confirmation() -> None:
    """A ledger without the annotation is not a claim."""
    ledger = ledger_config_map("dev", make_ledger())
    posted = claim_config_map(ledger, "c1")
    assert posted["data"] == {key: value for key, value in ledger["data"].items() if key != "launched"}
    assert is_claim(posted)
    assert not is_claim(ledger)
    assert not is_claim({**posted, "data": ledger["data"]})
    assert not is_claim({**ledger, "data": posted["data"]})


@pytest.mark.parametrize(
    ("operation", "fields", "claimed"),
    [
        ("Apply", {"f:data": {"f:launchName": {}, "f:run": {}}}, False),
        ("Apply", {"f:data": {"f:run": {}}}, True),
        ("Apply", {"f:metadata": {"f:labels": {}}}, True),
        ("Update", {"f:data": {"f:launchName": {}}}, True),
    ],
    ids=["confirmed", "of an earlier launch", "of labels", "claimed"],
)
def test_a_ledger_without_its_confirmation_is_no_claim(operation: str, fields: dict[str, Any], claimed: bool) -> None:
    """Somebody removed the key: the run would be launched again. The engine has applied the launch in it."""
    posted = claim_config_map(ledger_config_map("dev", make_ledger()), "c1")
    posted["metadata"]["managedFields"] = [{"manager": "trainstack", "operation": operation, "fieldsV1": fields}]
    assert is_claim(posted) is claimed


def written(manager: str, time: str | None, annotation: str = "trainstack.dev/claim") -> dict[str, Any]:
    """Return an entry of managed fields."""
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{annotation}": {}}}, "f:data": {}}
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, **({"time": time} if time else {})}


@pytest.mark.parametrize(
    ("managed_fields", "since"),
    [
        pytest.param([written("trainstack-a", "2026-01-02T03:04:05Z")], NOW, id="as written"),
        pytest.param(
            [written("kubectl", "2020-01-01T00:00:00Z", "other"), written("a", "2026-01-02T03:04:05Z")],
            NOW,
            id="beside another writer",
        ),
        pytest.param([written("a", None)], None, id="without a time"),
        pytest.param([written("a", "2026-01-02T03:04:05Z"), written("b", "2020-01-01T00:00:00Z")], None, id="of two"),
        pytest.param([{"fieldsV1": {"f:metadata": {"f:annotations": {}}}}, {}], None, id="of none"),
        pytest.param([], None, id="removed"),
        pytest.param(None, None, id="missing"),
    ],
)
@pytest.mark.parametrize("value", ["c1", "2026-01-02T03:04:05", "2126-01-02T03:04:05+09:00", "yesterday", ""])
def test_a_claim_is_as_old_as_the_api_server_says(managed_fields: object, since: datetime | None, value: str) -> None:
    """The annotation is from the claimer, whose clock may be wrong, or from somebody who edited it."""
    posted = claim_config_map(ledger_config_map("dev", make_ledger()), value)
    posted["metadata"]["managedFields"] = managed_fields
    assert read_claim(posted, NOW + timedelta(hours=1)) == Claim(make_ledger(), since, NOW + timedelta(hours=1))
    age = None if since is None else timedelta(hours=1)
    assert read_claim(posted, NOW + timedelta(hours=1)).age == age
    assert read_claim(posted, None).age is None
    assert read_claim(posted, NOW - timedelta(hours=1)).age is None


def test_a_claim_belongs_to_the_state_that_created_it() -> None:
    """After an interrupted `up` the claim is not in the state, which identifies it only by this annotation."""
    ledger = ledger_config_map("dev", make_ledger())
    claim = claim_config_map({**ledger, "metadata": with_state(ledger["metadata"], "a" * 32)}, "c1")
    assert objects_of_other_states({identity(claim): claim["metadata"]}, OwnState("a" * 32), "dev") == {}
    assert objects_of_other_states({identity(claim): claim["metadata"]}, OwnState("b" * 32), "dev") == {
        "a" * 32: (identity(claim),)
    }


def test_a_ledger_that_is_too_large_for_a_config_map_is_refused() -> None:
    """Otherwise the launch would be created without its ledger."""
    launch = {"kind": "Job", "metadata": {"name": "train-1-2"}, "spec": {"args": ["x" * (1 << 20)]}}
    with pytest.raises(WorkloadError, match=r"workload train: the ledger of train-1 needs 1048\d+ bytes"):
        ledger_config_map("dev", make_ledger(launch=launch))


def test_a_ledger_survives_a_round_trip() -> None:
    """A frozen launch is declared again from its ledger, byte for byte."""
    ledger = make_ledger(launch=manifest(make_run(env={"A": "ü $$"}), "dev", make_launch()))
    assert read_ledger(ledger_config_map("dev", ledger)) == ledger
    both = make_ledger(companions=({"apiVersion": "v1", "kind": "Runtime", "metadata": {"name": "train-1-2"}},))
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
    assert mounted_wrapper(ledger.objects) == "trainstack-wrapper-0"
    unmanaged = workload.model_copy(update={"managed": False})
    assert mounted_wrapper([manifest(unmanaged, "dev", make_launch())]) is None


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


@pytest.mark.parametrize(
    ("data", "launch"),
    [
        pytest.param({"run": "other-1"}, {}, id="another run"),
        pytest.param({"launchName": "train-1-3"}, {}, id="another launch"),
        pytest.param({"launched": "false"}, {}, id="not launched"),
        pytest.param({"launched": ""}, {}, id="launched, or not"),
        pytest.param({"attempt": "two"}, {}, id="an attempt in words"),
        pytest.param({"attempt": "0"}, {}, id="no attempt"),
        pytest.param({"attempt": "-1"}, {}, id="a negative attempt"),
        pytest.param({"attempt": "1e400"}, {}, id="an infinite attempt"),
        pytest.param({"attempt": "9" * 5000}, {}, id="a long attempt"),
        pytest.param({"trials": '["train-1", 5]'}, {}, id="a trial that is a number"),
        pytest.param({"trials": '["train-1"]'}, {}, id="a batch without parallelism"),
        pytest.param({}, {"apiVersion": None}, id="no API version"),
        pytest.param({}, {"kind": ["Job"]}, id="a list of kinds"),
        pytest.param({}, {"metadata": {"name": 5}}, id="a number as name"),
        pytest.param({}, {"metadata": {"labels": ["a"]}}, id="a list of labels"),
        pytest.param({}, {"metadata": {"labels": {"a": 5}}}, id="a number as label"),
        pytest.param({}, {"metadata": {"annotations": {"a": None}}}, id="no annotation"),
        pytest.param({}, {"metadata": {**JOB["metadata"], "namespace": "other"}}, id="another namespace"),
        pytest.param({}, {"metadata": {"namespace": "research", "labels": JOB["metadata"]["labels"]}}, id="no name"),
        pytest.param({}, {"metadata": {"namespace": "research", "name": "train-1-2"}}, id="no labels"),
        pytest.param({}, {"spec": []}, id="a list as spec"),
        pytest.param({}, {"spec": {"ttlSecondsAfterFinished": "600"}}, id="a TTL as text"),
        pytest.param({}, {"spec": {"ttlSecondsAfterFinished": float("inf")}}, id="an infinite TTL"),
        pytest.param({}, {"spec": {"ttlSecondsAfterFinished": True}}, id="a TTL that is true"),
        pytest.param({}, {"spec": {"runPolicy": 5}}, id="a number as policy"),
        pytest.param({}, {"spec": {"runPolicy": {"ttlSecondsAfterFinished": {}}}}, id="an object as TTL"),
    ],
)
def test_an_edited_value_of_a_ledger_is_refused_in_one_line(data: dict[str, str], launch: dict[str, Any]) -> None:
    """Its run counted as never launched, or a command ended with a traceback. A claim is read in the same way."""
    config_map = ledger_config_map("dev", make_ledger())
    read_ledger(config_map)
    config_map["data"] = {**config_map["data"], "launch": json.dumps({**JOB, **launch}), **data}
    for read in (read_ledger, lambda edited: read_claim(edited, NOW)):
        with pytest.raises(
            WorkloadError, match=r"^ConfigMap research/run-train-1 records a launch, but cannot be"
        ) as caught:
            read(config_map)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("spec", [None, [], 5, {"template": None}, {"template": {"spec": {"volumes": [5]}}}])
def test_a_launch_whose_pods_cannot_be_read_is_refused(spec: object) -> None:
    """A nested value of the ledger was edited."""
    with pytest.raises(WorkloadError, match="the pods of launch train-1-2 cannot be read"):
        mounted_wrapper([{"kind": "Job", "metadata": {"name": "train-1-2"}, "spec": spec}])
