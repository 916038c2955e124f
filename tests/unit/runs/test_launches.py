"""The launches of a change, for all combinations of declared runs, ledgers and live launches."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trainstack.runs.launches import (
    LATE_SECONDS,
    LaunchDecision,
    LiveLaunch,
    Phase,
    SweepOfLaunch,
    decide_launches,
    live_launch,
    unknown_stop_notes,
)
from trainstack.runs.ledgers import Claim, Ledger

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUN, OTHER = "digits-0123456789", "digits-abcdefabcd"
FIRST, SECOND = f"{RUN}-aaaaaa", f"{RUN}-bbbbbb"


def make_ledger(launch: str = FIRST, run: str = RUN, **launched: Any) -> Ledger:
    """Return the ledger of a run with this launch name."""
    manifest = {"metadata": {"labels": {"trainstack.dev/stack": "lab"}}, "spec": launched}
    return Ledger(run_id=run, workload="digits", namespace="research", attempt=1, launch_name=launch, launch=manifest)


def make_live(phase: Phase, name: str = FIRST, run: str = RUN, *, age_seconds: int = 7300) -> LiveLaunch:
    """Return a launch's object in this phase."""
    created = NOW - timedelta(seconds=age_seconds)
    return LiveLaunch(
        run_id=run,
        name=name,
        kind="PyTorchJob",
        namespace="research",
        phase=phase,
        created=created,
        launch=name,
        stack="lab",
    )


def outcome(
    declared: list[Ledger], live: list[LiveLaunch], ledgers: list[Ledger], stop: tuple[str, ...] = ()
) -> tuple[list[str], list[str], int, int]:
    """Return the launch names of the decision's launches and ledgers, and the numbers of its refusals and notes."""
    decision = decide_launches(declared, live, ledgers, stop, NOW)
    return (
        [launch.launch_name for launch in decision.launches],
        [ledger.launch_name for ledger in decision.ledgers],
        len(decision.refusals),
        len(decision.notes),
    )


@pytest.mark.parametrize(
    ("live", "ledgers", "stop", "expected"),
    [
        pytest.param([], [], (), ([SECOND], [SECOND], 0, 0), id="new: launched"),
        pytest.param([], [FIRST], (), ([], [FIRST], 0, 1), id="launched once, object gone: settled"),
        pytest.param([("queued", FIRST)], [FIRST], (), ([FIRST], [FIRST], 0, 1), id="edited while queued: frozen"),
        pytest.param([("running", FIRST)], [FIRST], (), ([FIRST], [FIRST], 0, 1), id="edited while running: frozen"),
        pytest.param([("running", SECOND)], [SECOND], (), ([SECOND], [SECOND], 0, 0), id="running, unedited"),
        pytest.param([("running", SECOND)], [], (), ([SECOND], [SECOND], 0, 0), id="running, `up` was interrupted"),
        pytest.param([("running", FIRST)], [], (), ([], [], 1, 0), id="running, interrupted, then edited: refused"),
        pytest.param([("running", FIRST)], [], (RUN,), ([SECOND], [SECOND], 0, 0), id="the same, with stop"),
        pytest.param([("running", FIRST)], [FIRST], (RUN,), ([SECOND], [SECOND], 0, 0), id="edited, with stop"),
        pytest.param(
            [("running", SECOND)], [SECOND], (RUN,), ([SECOND], [SECOND], 0, 0), id="stop, unedited: continues"
        ),
        pytest.param([("failed", FIRST)], [FIRST], (), ([SECOND], [SECOND], 0, 0), id="failed, edited: again"),
        pytest.param([("failed", SECOND)], [SECOND], (), ([SECOND], [SECOND], 0, 0), id="failed, unedited: stays"),
        pytest.param([("succeeded", FIRST)], [FIRST], (), ([FIRST], [FIRST], 0, 0), id="succeeded, edited: stays"),
        pytest.param([("succeeded", SECOND)], [SECOND], (), ([SECOND], [SECOND], 0, 0), id="succeeded, unedited"),
        pytest.param([("succeeded", SECOND)], [], (), ([SECOND], [SECOND], 0, 0), id="succeeded, `up` was interrupted"),
        pytest.param([("succeeded", FIRST)], [], (), ([], [SECOND], 0, 1), id="the same, then edited: settled"),
        pytest.param(
            [("failed", FIRST), ("running", SECOND)],
            [FIRST],
            (),
            ([SECOND], [SECOND], 0, 0),
            id="the new launch runs while the failed one is not gone yet",
        ),
        pytest.param(
            [("failed", FIRST), ("succeeded", SECOND)],
            [SECOND],
            (),
            ([SECOND], [SECOND], 0, 0),
            id="succeeded in the end",
        ),
        pytest.param(
            [("failed", SECOND), ("succeeded", FIRST)],
            [FIRST],
            (),
            ([FIRST], [FIRST], 0, 0),
            id="succeeded in the end, and edited since",
        ),
    ],
)
def test_a_declared_run(
    live: list[tuple[Phase, str]],
    ledgers: list[str],
    stop: tuple[str, ...],
    expected: tuple[list[str], list[str], int, int],
) -> None:
    """The declared launch name is SECOND; FIRST is the one from before an edit of the run's launch part."""
    launches = [make_live(phase, name) for phase, name in live]
    assert outcome([make_ledger(SECOND)], launches, [make_ledger(name) for name in ledgers], stop) == expected


@pytest.mark.parametrize(
    ("spec", "age_seconds", "launched"),
    [
        pytest.param({}, 10**6, True, id="no TTL: nothing removes it"),
        pytest.param({}, None, True, id="no TTL, of an unknown age"),
        pytest.param({"ttlSecondsAfterFinished": 600}, 599, True, id="younger than the TTL"),
        pytest.param({"ttlSecondsAfterFinished": 600}, -600, False, id="from the future"),
        pytest.param({"ttlSecondsAfterFinished": 600}, 600, False, id="older than the TTL"),
        pytest.param({"ttlSecondsAfterFinished": 600}, None, False, id="of an unknown age"),
        pytest.param({"ttlSecondsAfterFinished": 0}, 0, False, id="removed at once"),
        pytest.param({"ttlSecondsAfterFinished": LATE_SECONDS}, 0, False, id="removed while it is waited for"),
        pytest.param({"ttlSecondsAfterFinished": LATE_SECONDS + 1}, 0, True, id="not removed while it is waited for"),
        pytest.param({"ttlSecondsAfterFinished": 10**400}, 10**6, True, id="a TTL beyond any time"),
        pytest.param({"runPolicy": {"ttlSecondsAfterFinished": 600}}, 700, False, id="a PyTorchJob's"),
    ],
)
def test_a_claimed_launch_is_created_unless_it_may_have_ended(
    spec: dict[str, Any], age_seconds: int | None, launched: bool
) -> None:
    """An `up` claimed it, and was interrupted; neither the cluster nor the engine's state has it.

    The claim's age is by the API server's clock: the reader's, here `now`, does not matter.
    """
    ledger = make_ledger(SECOND, **spec)
    claim = Claim(ledger, NOW, None if age_seconds is None else NOW + timedelta(seconds=age_seconds))
    for now in (NOW, NOW - timedelta(days=400), NOW + timedelta(days=400)):
        decision = decide_launches([ledger], [], [], (), now, [claim])
        assert [launch.launch_name for launch in decision.launches] == ([SECOND] if launched else [])
        for remedy in (f"kubectl delete configmap -n research run-{RUN}", f"trainstack fetch {RUN} -s lab"):
            assert [remedy in text for text in decision.refusals] == ([] if launched else [True])


def test_of_two_active_launches_none_is_chosen() -> None:
    """The refusal names both; `stop` keeps the declared one."""
    live = [make_live("running", FIRST), make_live("queued", SECOND)]
    decision = decide_launches([make_ledger(SECOND)], live, [make_ledger(FIRST)], (), NOW)
    (refusal,) = decision.refusals
    assert f"run {RUN} has 2 active launches" in refusal
    assert all(f"PyTorchJob research/{launch}" in refusal for launch in (FIRST, SECOND))
    assert not decision.launches
    assert outcome([make_ledger(SECOND)], live, [make_ledger(FIRST)], (RUN,)) == ([SECOND], [SECOND], 0, 0)


def test_an_existing_launch_is_declared_unchanged() -> None:
    """Its manifest is read from its ledger, because values such as the commit have changed since."""
    launched, declared = make_ledger(FIRST, commit="then"), make_ledger(FIRST, commit="now")
    for phase in ("queued", "running", "succeeded", "failed"):
        assert decide_launches([declared], [make_live(phase)], [launched], (), NOW) == LaunchDecision(
            (launched,), (launched,)
        )


@pytest.mark.parametrize("phase", ["queued", "running", "succeeded"])
def test_a_launch_is_identified_by_its_label_and_not_by_its_name(phase: Phase) -> None:
    """All launches of a run share a fixed name, and a generated name is unknown before the launch."""
    live = replace(make_live(phase), name="digits-x7k2p")
    launched, declared = make_ledger(FIRST), make_ledger(SECOND)
    assert decide_launches([declared], [live], [launched], (), NOW).launches == (launched,)
    assert decide_launches([launched], [live], [], (), NOW).launches == (launched,)


@pytest.mark.parametrize("phase", ["queued", "running"])
def test_a_fixed_name_cannot_be_reused_while_its_run_is_active(phase: Phase) -> None:
    """Its definition was edited: the object of the same name would be replaced."""
    live = replace(make_live(phase), name="digits")
    decision = decide_launches([make_ledger(f"{OTHER}-cccccc", OTHER)], [live], [make_ledger()], (), NOW)
    (refusal,) = decision.refusals
    assert f"PyTorchJob research/digits (run {RUN}) has been {phase}" in refusal


@pytest.mark.parametrize("phase", ["queued", "running"])
def test_the_removal_of_an_active_run_is_refused(phase: Phase) -> None:
    """The message has object, run, state, age, cause and both remedies."""
    decision = decide_launches([make_ledger(SECOND, OTHER)], [make_live(phase)], [make_ledger()], (), NOW)
    (refusal,) = decision.refusals
    assert refusal == (
        f"PyTorchJob research/{FIRST} (run {RUN}) has been {phase} for 2 h and this change would delete it, because "
        "its definition was edited or removed. Undo the edit, wait for it (trainstack wait "
        f"{RUN} -s lab), or stop it: trainstack:workloads: stop: [{RUN}]"
    )


@pytest.mark.parametrize("phase", ["succeeded", "failed"])
def test_a_finished_run_can_be_removed(phase: Phase) -> None:
    """Its record is on the volume; the object and the ledger are deleted."""
    assert outcome([], [make_live(phase)], [make_ledger()]) == ([], [], 0, 0)


@pytest.mark.parametrize(
    ("phases", "stop", "kept", "refusals"),
    [
        ([], (), [FIRST], 0),
        (["succeeded"], (), [FIRST], 0),
        (["failed", "succeeded"], (), [FIRST], 0),
        (["failed"], (), [], 0),
        (["running"], (RUN,), [], 0),
        (["succeeded", "running"], (RUN,), [], 0),
        (["running"], (), [], 1),
    ],
)
def test_an_excluded_run_keeps_its_ledger_once_it_has_succeeded(
    phases: list[Phase], stop: tuple[str, ...], kept: list[str], refusals: int
) -> None:
    """Its object is deleted. A run that failed or was stopped is launched again when it is included again."""
    live = [make_live(phase, f"{RUN}-{number}") for number, phase in enumerate(phases)]
    decision = decide_launches([], live, [make_ledger()], stop, NOW, excluded_ledgers=[make_ledger()])
    assert [ledger.launch_name for ledger in decision.ledgers] == kept
    assert (decision.launches, len(decision.refusals)) == ((), refusals)
    if kept:
        again = decide_launches([make_ledger(SECOND)], [], decision.ledgers, (), NOW)
        assert (again.launches, [ledger.launch_name for ledger in again.ledgers]) == ((), kept)
        assert again.notes == (f"{RUN} was launched before and is settled; raise its `attempt` to train again",)


def test_stop_allows_the_removal_of_the_named_run_only() -> None:
    """The removal of the other run is still refused; a note reports an entry without a run."""
    live = [make_live("running"), make_live("running", f"{OTHER}-cccccc", OTHER)]
    decision = decide_launches([], live, [], (RUN, "digits-gone"), NOW)
    assert len(decision.refusals) == 1
    assert OTHER in decision.refusals[0]
    notes = unknown_stop_notes((RUN, "digits-gone"), {launch.run_id for launch in live})
    assert notes == ("stop names digits-gone, which is not a run of this stack: remove the entry",)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (86400, "1 d"), (200000, "2 d")],
)
def test_the_age_is_printed_in_its_largest_unit(seconds: int, text: str) -> None:
    """If the local clock is behind the cluster's, the age is 0."""
    (refusal,) = decide_launches([], [make_live("queued", age_seconds=seconds)], [], (), NOW).refusals
    assert f"has been queued for {text} " in refusal


def make_body(kind: str, spec: dict[str, Any], *conditions: tuple[str, str]) -> dict[str, Any]:
    """Return a live object with these conditions."""
    return {
        "kind": kind,
        "metadata": {
            "name": FIRST,
            "namespace": "research",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"trainstack.dev/run": RUN, "trainstack.dev/launch": FIRST, "trainstack.dev/stack": "lab"},
        },
        "spec": spec,
        "status": {"conditions": [{"type": name, "status": status} for name, status in conditions]},
    }


def make_pod(phase: str, **spec: Any) -> dict[str, Any]:
    """Return a live Pod in this phase."""
    body = make_body("Pod", spec, ("Ready", "False"))
    body["status"]["phase"] = phase
    return body


@pytest.mark.parametrize(
    ("body", "phase"),
    [
        pytest.param(make_body("Job", {"suspend": True}), "queued", id="job suspended"),
        pytest.param(make_body("Job", {"suspend": True}, ("Suspended", "True")), "queued", id="job with the condition"),
        pytest.param(make_body("Job", {"suspend": False}, ("Suspended", "False")), "running", id="job resumed"),
        pytest.param(make_body("Job", {}), "running", id="job without a queue"),
        pytest.param(make_body("Job", {}, ("SuccessCriteriaMet", "True")), "running", id="job about to end"),
        pytest.param(make_body("Job", {}, ("Complete", "True")), "succeeded", id="job complete"),
        pytest.param(make_body("Job", {}, ("Failed", "True")), "failed", id="job failed"),
        pytest.param(make_body("Job", {}, ("Failed", "False")), "running", id="a condition that does not hold"),
        pytest.param(make_body("PyTorchJob", {"runPolicy": {"suspend": True}}), "queued", id="torch suspended"),
        pytest.param(
            make_body("PyTorchJob", {"runPolicy": {"suspend": False}}, ("Created", "True"), ("Running", "True")),
            "running",
            id="torch running",
        ),
        pytest.param(
            make_body("PyTorchJob", {"runPolicy": {}}, ("Running", "False"), ("Succeeded", "True")),
            "succeeded",
            id="torch succeeded",
        ),
        pytest.param(make_body("PyTorchJob", {}, ("Failed", "True")), "failed", id="torch failed"),
        pytest.param(make_pod("Pending", schedulingGates=[{"name": "g"}]), "queued", id="pod held by Kueue"),
        pytest.param(make_pod("Pending"), "running", id="pod about to start"),
        pytest.param(make_pod("Running"), "running", id="pod running"),
        pytest.param(make_pod("Succeeded"), "succeeded", id="pod succeeded"),
        pytest.param(make_pod("Failed"), "failed", id="pod failed"),
        pytest.param(make_body("TrainJob", {"suspend": True}, ("Suspended", "True")), "queued", id="train suspended"),
        pytest.param(make_body("TrainJob", {"suspend": False}, ("Suspended", "False")), "running", id="train resumed"),
        pytest.param(make_body("TrainJob", {}, ("Complete", "True")), "succeeded", id="train complete"),
        pytest.param(make_body("TrainJob", {}, ("Failed", "True")), "failed", id="train failed"),
        pytest.param(
            make_body("JobSet", {"suspend": True}, ("StartupPolicyCompleted", "False")), "queued", id="set suspended"
        ),
        pytest.param(make_body("JobSet", {"suspend": False}), "running", id="set resumed"),
        pytest.param(make_body("JobSet", {}, ("Completed", "True")), "succeeded", id="set completed"),
        pytest.param(make_body("JobSet", {}, ("Failed", "True")), "failed", id="set failed"),
    ],
)
def test_the_state_of_a_live_object(body: dict[str, Any], phase: Phase) -> None:
    """Conditions decide; without one, suspension or a scheduling gate does."""
    expected = LiveLaunch(
        run_id=RUN,
        name=FIRST,
        kind=body["kind"],
        namespace="research",
        phase=phase,
        created=NOW,
        launch=FIRST,
        stack="lab",
    )
    assert live_launch(body) == expected
    # `status --json` copies it.
    assert LiveLaunch(**asdict(live_launch(body))) == expected
    assert expected.is_active == (phase in ("queued", "running"))


def test_an_object_without_status_is_queued() -> None:
    """Objects have no status directly after their creation."""
    body = make_body("Job", {"suspend": True})
    del body["status"]
    assert live_launch(body).phase == "queued"


def test_the_trials_of_a_live_launch_are_read() -> None:
    """A trial has its set, its number and the file that it mounts; an Indexed Job has the succeeded indexes."""
    container = {"name": "training", "env": [{"name": "JOB_ID", "value": "7"}]}
    volumes = [{"name": "trainstack-sweep", "configMap": {"name": "sweep-digits-0"}}]
    spec = {"template": {"spec": {"containers": [container], "volumes": volumes}}}
    body = make_body("Job", spec)
    body["metadata"]["labels"] |= {"trainstack.dev/sweep": "digits", "trainstack.dev/set": "aaaaaaaaaa"}
    assert live_launch(body).sweep == SweepOfLaunch(name="digits", set_id="aaaaaaaaaa", number=7, file="sweep-digits-0")
    del body["metadata"]["labels"]["trainstack.dev/set"], container["env"]
    body["status"]["completedIndexes"] = "0,2-4,7"
    assert live_launch(body).sweep == SweepOfLaunch(
        name="digits", set_id="", number=None, file="sweep-digits-0", succeeded=(0, 2, 3, 4, 7)
    )


def test_a_run_that_was_launched_elsewhere_is_recorded_and_never_launched() -> None:
    """Once it is recorded, its ledger decides, with or without `adopt`."""
    planned = make_ledger()
    first = decide_launches([planned], [], [], (), NOW, adopted_ids={RUN})
    assert (first.launches, first.ledgers, first.refusals) == ((), (planned,), ())
    assert first.notes == (f"{RUN} is recorded as launched (`adopt`); its object stays as it is",)
    for adopted_ids in ({RUN}, set[str]()):
        later = decide_launches([planned], [], [planned], (), NOW, adopted_ids=adopted_ids)
        assert (later.launches, later.ledgers) == ((), (planned,))


def test_a_run_of_the_stack_is_not_adopted() -> None:
    """Its launch, and the claim of an interrupted `up`, decide."""
    planned, live = make_ledger(), make_live("running")
    assert decide_launches([planned], [live], [planned], (), NOW, adopted_ids={RUN}).launches == (planned,)
    claim = Claim(planned, NOW, NOW)
    assert decide_launches([planned], [], [], (), NOW, [claim], adopted_ids={RUN}).launches == (planned,)
