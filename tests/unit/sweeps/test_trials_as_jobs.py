"""The trials of form `jobs` that a change launches, keeps, or refuses to change."""

from copy import deepcopy

import pytest

from tests.unit.make import make_expansion, make_run, make_space
from tests.unit.sweeps.planned_sweeps import make_planned
from tests.unit.sweeps.sweep_cases import NOW, Cluster, assert_unchanged, ids, launched
from trainstack.runs.launches import Phase
from trainstack.runs.parameter_file import read_trial_number
from trainstack.settings.search_space.constraints import Value
from trainstack.sweeps.decision import decide_removed_sweep, stoppable_names

SETS: tuple[dict[str, Value], ...] = ({"batch_size": 32}, {"batch_size": 64}, {"batch_size": 128}, {"batch_size": 512})
ADDED: tuple[dict[str, Value], ...] = ({"batch_size": 16}, *SETS)
MORE_MEMORY = make_run(name="search", priority="high")
"""An edit of the launch part."""
PHASES: tuple[Phase, ...] = ("queued", "running", "failed", "succeeded")
OTHER_PROGRAM = make_run(name="search", command=("python3", "other.py"))
"""An edit of the definition."""


def test_every_trial_is_launched_once() -> None:
    """The same change again does nothing while it is queued or running, and after it ended or was deleted."""
    cluster, planned = Cluster(), make_planned()
    first = cluster.up(planned)
    assert launched(first) == ids(planned)
    assert first.ledgers == first.launches
    for phase in PHASES:
        cluster.set(phase)
        assert_unchanged(cluster.up(planned), first)
    cluster.remove_objects()
    gone = cluster.up(planned)
    assert (gone.launches, gone.ledgers) == ((), first.ledgers)
    (note,) = gone.notes
    assert note.startswith(f"search: {', '.join(ids(planned)[:3])} and 1 other trial are already settled")


def test_an_added_value_launches_only_the_new_trials() -> None:
    """The other trials keep their numbers and file, although the new file differs; both files are declared."""
    cluster, before = Cluster(), make_planned(space=make_space(file="/f"), sets_text="one")
    first = cluster.up(before)
    cluster.set("running")
    after = make_planned(space=make_space(file="/f"), sets_text="two", expansion=make_expansion(*ADDED))
    second = cluster.up(after)
    (new,) = set(launched(second)) - set(launched(first))
    assert new == ids(after)[0]
    assert all(launch in second.launches for launch in first.launches)
    assert sorted(data["hyperparams.yml"] for _, _, data in second.files) == ["one", "two"]
    assert second.notes == ()


def test_parallelism_limits_the_active_launches() -> None:
    """The next trials are launched by number when others have ended; ended launches are kept and do not count."""
    cluster, planned = Cluster(), make_planned(parallelism=2)
    run_ids = ids(planned)
    first = cluster.up(planned)
    assert (launched(first), first.waiting) == (run_ids[:2], tuple(run_ids[2:]))
    (note,) = first.notes
    assert f"search: {run_ids[2]}, {run_ids[3]} are not launched yet because parallelism is 2" in note
    cluster.set("running", run_ids[:1])
    assert cluster.up(planned) == first
    cluster.set("failed", run_ids[:1])
    second = cluster.up(planned)
    assert (launched(second), second.waiting) == (run_ids[:3], (run_ids[3],))
    cluster.set("succeeded", run_ids[1:3])
    third = cluster.up(planned)
    assert (sorted(launched(third)), third.waiting, third.notes) == (sorted(run_ids), (), ())


def test_new_trials_are_launched_after_the_sweeps_dependencies() -> None:
    """Existing launches are kept."""
    cluster, planned = Cluster(), make_planned()
    held = cluster.up(planned, held=True)
    assert (held.launches, held.blocked) == ((), tuple(ids(planned)))
    first = cluster.up(planned)
    again = cluster.up(planned, held=True)
    assert (again.launches, again.blocked) == (first.launches, ())


def test_two_trials_with_the_same_fixed_name_are_refused_until_the_first_is_deleted() -> None:
    """A set that is added before the others gets the number, and so the name, of an existing launch."""
    cluster, run = Cluster(), make_run(name="search", naming="fixed")
    before = cluster.up(make_planned(run=run))
    assert [launch.launch["metadata"]["name"] for launch in before.launches] == [
        f"search-{number}" for number in (1, 2, 3, 4)
    ]
    cluster.set("succeeded")
    planned = make_planned(run=run, expansion=make_expansion(*ADDED))
    (refusal,) = cluster.up(planned).refusals
    new, *old = ids(planned)
    assert refusal.startswith(f"sweep search: {old[0]} and {new} cannot both be launched as search-1: ")
    appended = make_planned(run=run, expansion=make_expansion(*SETS, ADDED[0]))
    assert deepcopy(cluster).up(appended).refusals == ()
    cluster.remove_objects()
    after = cluster.up(planned)
    assert (launched(after), after.refusals) == ([new], ())


def test_failed_trials_are_launched_again_when_their_launch_part_was_edited() -> None:
    """The run ids are the same, and the parallelism limits them; a trial beyond it keeps its failed launch."""
    cluster, planned = Cluster(), make_planned()
    first = cluster.up(planned)
    run_ids = ids(planned)
    cluster.set("succeeded", run_ids[:1])
    cluster.set("running", run_ids[1:2])
    cluster.set("failed", run_ids[2:])
    before = cluster.names
    second = cluster.up(make_planned(run=MORE_MEMORY, parallelism=2))
    assert sorted(launched(second)) == sorted(run_ids)
    assert second.waiting == (run_ids[3],)
    changed = [run_id for run_id in run_ids if cluster.names[run_id] != before[run_id]]
    assert changed == [run_ids[2]]
    assert f"search: {run_ids[1]} is active: the edit (memory, queue, labels, …) takes effect" in second.notes[0]
    assert {ledger.run_id for ledger in second.ledgers} == {ledger.run_id for ledger in first.ledgers}
    cluster.set("succeeded", run_ids[1:3])
    cluster.up(make_planned(run=MORE_MEMORY, parallelism=2))
    assert cluster.names[run_ids[3]] != before[run_ids[3]]


def test_the_queued_trials_of_removed_sets_are_deleted_and_running_ones_only_with_stop() -> None:
    """Ended trials are deleted too: their records are on the volume."""
    cluster, planned = Cluster(), make_planned()
    cluster.up(planned)
    run_ids = ids(planned)
    cluster.set("running", run_ids[:2])
    cluster.set("succeeded", run_ids[2:3])
    remaining = make_planned(expansion=make_expansion(SETS[0]))
    second = cluster.up(remaining)
    assert (launched(second), second.refusals) == (run_ids[:2], ())
    (note,) = second.notes
    assert note == (
        f"search: {run_ids[1]} is still running although the set was removed; to stop, set "
        f"trainstack:workloads: stop: [{run_ids[1]}]"
    )
    third = cluster.up(remaining, run_ids[1])
    assert (launched(third), third.notes) == (run_ids[:1], ())


def test_the_deletion_of_a_running_trial_without_a_ledger_is_refused() -> None:
    """Its set was removed, and an interrupted `up` left no ledger: its manifest is unknown."""
    cluster, planned = Cluster(), make_planned()
    cluster.up(planned)
    cluster.set("running", ids(planned)[3:])
    cluster.forget()
    remaining = make_planned(expansion=make_expansion(*SETS[:3]))
    (refusal,) = cluster.up(remaining).refusals
    assert f"stop: [{ids(planned)[3]}]" in refusal


@pytest.mark.parametrize("phase", ["queued", "running"])
def test_an_edit_of_the_definition_is_refused_while_trials_are_active(phase: Phase) -> None:
    """One refusal for all trials has both remedies; `stop` may name the sweep."""
    cluster, planned = Cluster(), make_planned()
    cluster.up(planned)
    cluster.set(phase)
    edited = make_planned(run=OTHER_PROGRAM)
    assert not set(ids(edited)) & set(ids(planned))
    (refusal,) = cluster.up(edited).refusals
    assert refusal == (
        f"sweep search: {', '.join(ids(planned)[:3])} and 1 other trial are active (for 2 h), and this "
        "change would delete the launch, because their definition was edited. Undo the edit, wait for it (trainstack "
        "wait search -s test), or stop it: trainstack:workloads: stop: [search]"
    )
    (refusal,) = cluster.up(edited, *ids(planned)[1:]).refusals
    assert refusal == (
        f"sweep search: {ids(planned)[0]} is active (for 2 h), and this change would delete the launch, because "
        f"their definition was edited. Undo the edit, wait for it (trainstack wait {ids(planned)[0]} -s test), or stop "
        f"it: trainstack:workloads: stop: [{ids(planned)[0]}]"
    )
    assert launched(cluster.up(edited, "search")) == ids(edited)


def test_the_removal_of_an_active_sweep_is_refused() -> None:
    """A finished sweep can be removed."""
    cluster = Cluster()
    cluster.up(make_planned())
    live = list(cluster.live.values())
    (refusal,) = decide_removed_sweep("search", live, (), NOW).refusals
    assert "because the sweep was removed from the environment" in refusal
    assert decide_removed_sweep("search", live, ("search",), NOW).refusals == ()
    cluster.set("succeeded")
    assert decide_removed_sweep("search", list(cluster.live.values()), (), NOW).refusals == ()


def test_the_ledger_of_an_interrupted_launch_has_its_original_values() -> None:
    """Its number and file are the original ones, although both have changed since."""
    cluster, before = Cluster(), make_planned(space=make_space(file="/f"), sets_text="one")
    first = cluster.up(before)
    cluster.set("running")
    cluster.forget()
    after = make_planned(space=make_space(file="/f"), sets_text="two", expansion=make_expansion(*ADDED))
    second = {ledger.run_id: ledger for ledger in cluster.up(after).ledgers}
    for ledger in first.ledgers:
        assert second[ledger.run_id] == ledger
    assert read_trial_number(second[ids(before)[0]].launch) == 1


def test_what_stop_may_name() -> None:
    """It may name a trial or the sweep."""
    cluster, planned = Cluster(), make_planned()
    cluster.up(planned)
    assert stoppable_names(list(cluster.live.values()), {}) == {"search", *ids(planned)}
