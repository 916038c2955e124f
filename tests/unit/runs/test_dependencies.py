"""A run waits for its dependencies before it is launched."""

import pytest

from tests.unit.runs.test_launches import FIRST, OTHER, RUN, make_ledger, make_live
from trainstack.runs.dependencies import unmet_dependencies, waiting_note
from trainstack.runs.launches import Phase


@pytest.mark.parametrize(
    ("live", "has_ledger", "launched"),
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
        pytest.param([], True, False, id="removed after its launch: the outcome is unknown"),
    ],
)
def test_a_run_waits_until_its_dependency_has_succeeded(live: list[Phase], has_ledger: bool, launched: bool) -> None:
    """The other run may have several launches in different states."""
    launches = [make_live(phase, f"{RUN}-{number}") for number, phase in enumerate(live)]
    ledgers = [make_ledger(FIRST)] if has_ledger else []
    assert unmet_dependencies({OTHER: (RUN,), RUN: ()}, (), launches, ledgers) == ({} if launched else {OTHER: (RUN,)})


@pytest.mark.parametrize(
    ("live", "has_ledger", "launched"),
    [
        pytest.param([], False, False, id="to be launched by the same change"),
        pytest.param(["running"], True, False, id="in use"),
        pytest.param([], True, True, id="removed after its launch"),
    ],
)
def test_a_removed_data_loader_counts_as_succeeded(live: list[Phase], has_ledger: bool, launched: bool) -> None:
    """A data loader never completes."""
    launches = [make_live(phase) for phase in live]
    ledgers = [make_ledger(FIRST)] if has_ledger else []
    assert unmet_dependencies({OTHER: (RUN,)}, (RUN,), launches, ledgers) == ({} if launched else {OTHER: (RUN,)})


def test_the_note_about_an_unknown_outcome_has_both_remedies() -> None:
    """The TTL may have removed the run after a failure, so launching its dependents would be a guess."""
    message = waiting_note(OTHER, (RUN,), [], [make_ledger(FIRST)])
    assert message == (
        f"{OTHER} is not launched yet: it depends on {RUN}. Run `up` again when its dependencies have succeeded. The "
        f"outcome of {RUN} is unknown because the object was deleted: if it succeeded, remove it from `dependsOn`; "
        "otherwise raise its `attempt`"
    )
    assert waiting_note(OTHER, (RUN,), [make_live("running")], [make_ledger(FIRST)]).endswith(
        "when its dependencies have succeeded"
    )


def test_only_unfinished_dependencies_are_listed() -> None:
    third = "digits-9999999999"
    assert unmet_dependencies({OTHER: (RUN, third)}, (), [make_live("succeeded")], []) == {OTHER: (third,)}


@pytest.mark.parametrize("phase", ["queued", "running", "succeeded", "failed"])
def test_a_launched_run_waits_for_nothing(phase: Phase) -> None:
    """Its dependency may be edited and run again; the launch does not change."""
    assert unmet_dependencies({RUN: (OTHER,)}, (), [make_live(phase)], []) == {}
    assert unmet_dependencies({RUN: (OTHER,)}, (), [], [make_ledger()]) == {}
