"""The trials of form `indexed` that a change launches, keeps, or refuses to change."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.make import make_expansion
from tests.unit.sweeps.planned_sweeps import make_indexed, make_planned
from tests.unit.sweeps.sweep_cases import NOW, Cluster, assert_unchanged, ids, launched, name_of_file
from tests.unit.sweeps.test_trials_as_jobs import ADDED, MORE_MEMORY, OTHER_PROGRAM, PHASES, SETS
from trainstack.runs.launches import Phase
from trainstack.runs.ledgers import Claim, Ledger
from trainstack.sweeps.decision import decide, stoppable_names


def test_all_new_trials_are_one_job_and_are_launched_once() -> None:
    """The same change again does nothing while they are queued or running, and after they ended or were deleted."""
    cluster, planned = Cluster(), make_indexed()
    first = cluster.up(planned)
    (batch,) = first.launches
    assert (first.ledgers, batch.trials) == ((batch,), tuple(ids(planned)))
    ((namespace, file, data),) = first.files
    assert (namespace, file) == ("research", name_of_file(planned, ids(planned)))
    assert data == planned.batch_file(ids(planned))
    for phase, done in zip(PHASES, (0, 2, 3, 4), strict=True):
        cluster.set(phase, succeeded=range(done))
        assert_unchanged(cluster.up(planned), first)
    cluster.remove_objects()
    gone = cluster.up(planned)
    assert (gone.launches, gone.ledgers, gone.files) == ((), (batch,), ())
    assert gone.notes == (
        f"{batch.run_id}: 4 trials were launched before and are settled; raise `run.attempt` to train again",
    )


def test_an_added_value_is_another_job_with_the_new_trials() -> None:
    """The first Job is not changed: it keeps its numbers, although the file has new ones."""
    cluster, before, after = Cluster(), make_indexed(), make_indexed(expansion=make_expansion(*ADDED))
    first = cluster.up(before)
    cluster.set("running")
    second = cluster.up(after)
    assert second.launches[:1] == first.launches
    assert [launch.trials for launch in second.launches] == [tuple(ids(before)), (ids(after)[0],)]
    assert len(second.files) == 2
    assert_unchanged(cluster.up(after), second)


def make_claim(ledger: Ledger) -> Claim:
    """Return the claim of an interrupted `up`, older than its launch's TTL."""
    spec = {**ledger.launch["spec"], "ttlSecondsAfterFinished": 600}
    return Claim(replace(ledger, launch={**ledger.launch, "spec": spec}), NOW - timedelta(hours=1), NOW)


def test_a_claim_refuses_only_its_own_trials() -> None:
    """It does not refuse trials that another Job with an added value has launched, or that were edited."""
    cluster, before, after = Cluster(), make_indexed(), make_indexed(expansion=make_expansion(*ADDED))
    (batch,) = decide(before, [], [], {}, (), NOW).launches
    claim = make_claim(batch)
    (refusal,) = decide(before, [], [], {}, (), NOW, claims=[claim]).refusals
    assert f"kubectl delete configmap -n research run-{batch.run_id}" in refusal
    first = cluster.up(after)
    live, ledgers = list(cluster.live.values()), list(cluster.ledgers.values())
    again = decide(after, live, ledgers, cluster.files, (), NOW, claims=[claim])
    assert (again.refusals, again.launches) == ((), first.launches)
    cluster.remove_objects()
    assert decide(after, [], ledgers, cluster.files, (), NOW, claims=[claim]).refusals == ()
    edited = make_indexed(run=OTHER_PROGRAM)
    assert decide(edited, [], [], {}, (), NOW, claims=[claim]).refusals == ()


def test_another_form_launches_no_trial_again() -> None:
    """Active, finished and deleted trials are not launched again. New trials are launched in the new form."""
    cluster, together, one_by_one = Cluster(), make_indexed(), make_planned()
    first = cluster.up(together)
    for phase in PHASES:
        cluster.set(phase)
        assert cluster.up(one_by_one).launches == first.launches
    cluster.remove_objects()
    assert cluster.up(one_by_one).launches == ()
    added = make_planned(expansion=make_expansion(*ADDED))
    assert launched(cluster.up(added)) == [ids(added)[0]]
    more = make_indexed(expansion=make_expansion(*ADDED, {"batch_size": 8}))
    assert sorted(launch.trials for launch in cluster.up(more).launches) == [(), (ids(more)[-1],)]


def test_the_parallelism_counts_the_trials_of_an_active_job() -> None:
    """They count also after a change of the form."""
    cluster = Cluster()
    cluster.up(make_indexed())
    added = make_planned(expansion=make_expansion(*ADDED), parallelism=2)
    assert cluster.up(added).waiting == (ids(added)[0],)


def test_trials_that_failed_are_launched_again_when_the_launch_part_was_edited() -> None:
    """Trials that have not succeeded get another Job, and are removed from the first ledger."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    cluster.set("failed", succeeded=(0, 3))
    assert cluster.up(planned).launches == (first,)
    edited = make_indexed(run=MORE_MEMORY)
    second = cluster.up(edited)
    run_ids = ids(planned)
    assert [launch.trials for launch in second.launches] == [(run_ids[0], "", "", run_ids[3]), tuple(run_ids[1:3])]
    cluster.set("failed", [second.launches[1].run_id], succeeded=())
    assert_unchanged(cluster.up(edited), second)
    cluster.remove_objects()
    assert cluster.up(edited).ledgers == second.ledgers


def test_when_all_have_failed_the_next_job_takes_the_ledger_over() -> None:
    """The trials and so the batch are the same, under another launch name; the failed object is deleted."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    cluster.set("failed")
    (second,) = cluster.up(make_indexed(run=MORE_MEMORY)).launches
    assert (second.run_id, second.trials) == (first.run_id, first.trials)
    assert second.launch_name != first.launch_name


def test_failed_trials_are_launched_again_in_the_form_that_the_sweep_has_now() -> None:
    """A change of the form alone launches none."""
    cluster, planned = Cluster(), make_indexed(max_failed_indexes=1)
    cluster.up(planned)
    cluster.set("failed", succeeded=(0, 1))
    assert len(cluster.up(make_planned()).launches) == 1
    assert launched(cluster.up(make_planned(run=MORE_MEMORY)))[1:] == ids(planned)[2:]


def test_trials_that_a_reached_target_has_stopped_are_not_launched_again() -> None:
    """The Job has succeeded with one of them: the search has ended."""
    cluster, planned = Cluster(), make_indexed()
    first = cluster.up(planned)
    cluster.set("succeeded", succeeded=(1,))
    assert cluster.up(make_indexed(run=MORE_MEMORY)).launches == first.launches


@pytest.mark.parametrize("phase", ["queued", "running"])
def test_an_edit_of_the_launch_part_reaches_the_next_job(phase: Phase) -> None:
    """The active Job is declared unchanged, with a note."""
    cluster = Cluster()
    first = cluster.up(make_indexed())
    cluster.set(phase)
    second = cluster.up(make_indexed(run=MORE_MEMORY))
    assert (second.launches, second.files) == (first.launches, first.files)
    (note,) = second.notes
    assert note == (
        f"{first.launches[0].run_id} is {phase}: the edit (memory, queue, labels, …) takes effect at the next launch"
    )


def test_removed_sets_are_withdrawn_from_the_active_job() -> None:
    """The Job's file lists them. `stop` ends running trials, and the records of finished ones are kept."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    cluster.set("running", succeeded=(0,))
    run_ids = ids(planned)
    remaining = make_indexed(expansion=make_expansion(SETS[1]))
    second = cluster.up(remaining)
    assert (second.launches, second.refusals) == ((replace(first, trials=("", run_ids[1], "", "")),), ())
    ((_, file, data),) = second.files
    assert file == name_of_file(planned, run_ids)
    withdrawn = sorted([run_ids[0], *run_ids[2:]])
    assert data == {**planned.batch_file(run_ids), "withdrawn.json": json.dumps(withdrawn, separators=(",", ":"))}
    stopped = cluster.up(remaining, run_ids[2])
    assert stopped.files[0][2]["stopped.json"] == f'["{run_ids[2]}"]'
    assert stopped.launches == second.launches


def test_a_set_that_is_added_again_is_a_new_trial() -> None:
    """The Job from which it was withdrawn may have skipped its index."""
    cluster, planned = Cluster(), make_indexed()
    cluster.up(planned)
    cluster.up(make_indexed(expansion=make_expansion(*SETS[:3])))
    again = cluster.up(planned)
    assert [launch.trials for launch in again.launches] == [(*ids(planned)[:3], ""), (ids(planned)[3],)]
    files = {file: data for _, file, data in again.files}
    assert files[name_of_file(planned, ids(planned))]["withdrawn.json"] == f'["{ids(planned)[3]}"]'


def test_a_queued_job_whose_sets_are_all_removed_is_deleted() -> None:
    """A running Job is kept until it ends."""
    for kept, phase in enumerate(PHASES[:2]):
        cluster = Cluster()
        cluster.up(make_indexed())
        cluster.set(phase)
        decision = cluster.up(make_indexed(expansion=make_expansion({"batch_size": 8})))
        assert len(decision.launches) == kept + 1
        assert decision.refusals == ()


@pytest.mark.parametrize("phase", ["queued", "running"])
def test_an_edit_of_the_definition_is_refused_while_the_job_is_active(phase: Phase) -> None:
    """The refusal has object, trials, age and both remedies; `stop` may name the batch or the sweep."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    cluster.set(phase)
    edited = make_indexed(run=OTHER_PROGRAM)
    (refusal,) = cluster.up(edited).refusals
    assert refusal == (
        f"Job research/{first.launch_name} (4 trials) has been {phase} for 2 h and this change would train 4 of its "
        f"trials anew, because their definition was edited. Undo the edit, wait for it (trainstack wait "
        f"{first.run_id} -s test), or stop it: trainstack:workloads: stop: [{first.run_id}]"
    )
    for name in (first.run_id, "search"):
        other = replace(cluster, live=dict(cluster.live))
        assert [launch.trials for launch in other.up(edited, name).launches] == [tuple(ids(edited))]


def test_stop_does_not_affect_an_unedited_job() -> None:
    """The unfinished trials of an edited Job are launched again, the finished ones are not."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    cluster.set("running", succeeded=(2,))
    assert cluster.up(planned, first.run_id).launches == (first,)
    edited = cluster.up(make_indexed(run=MORE_MEMORY), first.run_id)
    run_ids = ids(planned)
    assert [launch.trials for launch in edited.launches] == [(run_ids[0], run_ids[1], run_ids[3])]
    assert [ledger.trials for ledger in edited.ledgers] == [
        ("", "", run_ids[2], ""),
        (run_ids[0], run_ids[1], run_ids[3]),
    ]


def test_an_interrupted_launch_is_identified_by_its_file() -> None:
    """Its ledger is added, and no trial is launched twice. If it was edited since, the change is refused."""
    cluster, planned = Cluster(), make_indexed()
    first = cluster.up(planned)
    cluster.set("running")
    cluster.forget()
    added = make_indexed(expansion=make_expansion(*ADDED))
    second = cluster.up(added)
    assert second.ledgers[0] == first.ledgers[0]
    assert [launch.trials for launch in second.launches] == [tuple(ids(planned)), (ids(added)[0],)]
    cluster.forget()
    (refusal, *_) = cluster.up(make_indexed(run=MORE_MEMORY)).refusals
    assert "an interrupted `up` left it without a ledger" in refusal


def test_the_trials_of_an_interrupted_relaunch_belong_to_the_later_job() -> None:
    """The ledger of the first Job still lists trials that the second has taken over."""
    cluster, planned = Cluster(), make_indexed()
    first = cluster.up(planned)
    cluster.set("failed", succeeded=(0,))
    edited = make_indexed(run=MORE_MEMORY)
    second = cluster.up(edited)
    cluster.ledgers = {ledger.run_id: ledger for ledger in first.ledgers}
    assert_unchanged(cluster.up(edited), second)


def test_a_job_that_ended_without_a_ledger_and_was_edited_since_is_settled() -> None:
    """Its trials are not launched again. Its manifest is unknown, so its object is deleted."""
    cluster, planned = Cluster(), make_indexed()
    cluster.up(planned)
    cluster.set("succeeded", succeeded=(0, 1, 2, 3))
    cluster.forget()
    decision = cluster.up(make_indexed(run=MORE_MEMORY))
    assert (decision.launches, [ledger.trials for ledger in decision.ledgers]) == ((), [tuple(ids(planned))])


def test_what_stop_may_name() -> None:
    """It may name the batch, each of its trials, and the sweep."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    assert stoppable_names(list(cluster.live.values()), cluster.files) == {"search", first.run_id, *ids(planned)}
