"""Which runs wait for others before they are launched."""

import pytest

from tests.unit.checks.test_launches import FIRST, OTHER, RUN, make_ledger, make_live
from trainstack.runs.dependencies import note, waiting
from trainstack.runs.launches import Phase


@pytest.mark.parametrize(
    ("live", "remembered", "launched"),
    [
        pytest.param([], False, False, id="to be launched by the same change"),
        pytest.param(["queued"], True, False, id="queued"),
        pytest.param(["running"], True, False, id="running"),
        pytest.param(["failed"], True, False, id="failed"),
        pytest.param(["failed", "running"], True, False, id="failed, and running again"),
        pytest.param(["succeeded", "running"], True, False, id="an older launch had succeeded"),
        pytest.param(["succeeded"], True, True, id="succeeded"),
        pytest.param(["failed", "succeeded"], True, True, id="succeeded in the end"),
        pytest.param(["succeeded"], False, True, id="succeeded, and `up` was interrupted"),
        pytest.param([], True, False, id="removed after its launch: nobody knows how it ended"),
    ],
)
def test_a_run_waits_until_what_it_depends_on_has_ended_well(
    live: list[Phase], remembered: bool, launched: bool
) -> None:
    """In whatever states the other run's launches are."""
    alive = [make_live(phase, f"{RUN}-{number}") for number, phase in enumerate(live)]
    ledgers = [make_ledger(FIRST)] if remembered else []
    assert waiting({OTHER: (RUN,), RUN: ()}, (), alive, ledgers) == ({} if launched else {OTHER: (RUN,)})


@pytest.mark.parametrize(
    ("live", "remembered", "launched"),
    [
        pytest.param([], False, False, id="to be launched by the same change"),
        pytest.param(["running"], True, False, id="in use"),
        pytest.param([], True, True, id="removed after its launch"),
    ],
)
def test_a_data_loader_has_ended_well_when_it_was_removed(live: list[Phase], remembered: bool, launched: bool) -> None:
    """It does not end by itself."""
    alive = [make_live(phase) for phase in live]
    ledgers = [make_ledger(FIRST)] if remembered else []
    assert waiting({OTHER: (RUN,)}, (RUN,), alive, ledgers) == ({} if launched else {OTHER: (RUN,)})


def test_a_run_whose_end_nobody_saw_is_told_with_both_remedies() -> None:
    """Its TTL may have removed it after a failure; launching what depends on it would be a guess."""
    said = note(OTHER, (RUN,), [], [make_ledger(FIRST)])
    assert said == (
        f"{OTHER} is not launched yet: it depends on {RUN}. Run `up` again when its dependencies have succeeded. The "
        f"outcome of {RUN} is unknown because the object was deleted: if it succeeded, remove it from `dependsOn`; "
        "otherwise raise its `attempt`"
    )
    assert note(OTHER, (RUN,), [make_live("running")], [make_ledger(FIRST)]).endswith(
        "when its dependencies have succeeded"
    )


def test_of_several_only_the_open_ones_are_named() -> None:
    """A run is told what it still waits for."""
    third = "digits-9999999999"
    assert waiting({OTHER: (RUN, third)}, (), [make_live("succeeded")], []) == {OTHER: (third,)}


@pytest.mark.parametrize("phase", ["queued", "running", "succeeded", "failed"])
def test_a_launched_run_waits_for_nothing(phase: Phase) -> None:
    """What it depended on may be edited and run again: the launch stays as it is."""
    assert waiting({RUN: (OTHER,)}, (), [make_live(phase)], []) == {}
    assert waiting({RUN: (OTHER,)}, (), [], [make_ledger()]) == {}
