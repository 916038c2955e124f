"""Which trials of form `indexed` a change launches, leaves alone, or refuses to touch."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.checks.sweep_cases import NOW, Cluster, ids, launched, name_of_file, quiet
from tests.unit.checks.test_trials_as_jobs import ADDED, MORE_MEMORY, OTHER_PROGRAM, PHASES, SETS
from tests.unit.make import make_expansion
from tests.unit.workloads.sweeps import make_indexed, make_planned
from trainstack.runs.launches import Phase
from trainstack.runs.records import Claim, Ledger
from trainstack.sweeps.decision import decide, stoppable


def test_all_new_trials_are_one_job_and_are_launched_once() -> None:
    """Queued, running, done and gone: the same change again does nothing."""
    cluster, planned = Cluster(), make_indexed()
    first = cluster.up(planned)
    (batch,) = first.launches
    assert (first.ledgers, batch.trials) == ((batch,), tuple(ids(planned)))
    ((namespace, file, data),) = first.files
    assert (namespace, file) == ("research", name_of_file(planned, ids(planned)))
    assert data == planned.batch_file(ids(planned))
    for phase, done in zip(PHASES, (0, 2, 3, 4), strict=True):
        cluster.set(phase, succeeded=range(done))
        quiet(cluster.up(planned), first)
    cluster.remove_objects()
    gone = cluster.up(planned)
    assert (gone.launches, gone.ledgers, gone.files) == ((), (batch,), ())
    assert gone.notes == (
        f"{batch.run_id}: 4 trials were launched before and are settled; raise `run.attempt` to train again",
    )


def test_a_value_that_is_added_is_a_further_job_of_the_new_trials() -> None:
    """The first one is not touched: its numbers stay, though they are others now."""
    cluster, before, after = Cluster(), make_indexed(), make_indexed(expansion=make_expansion(*ADDED))
    first = cluster.up(before)
    cluster.set("running")
    second = cluster.up(after)
    assert second.launches[:1] == first.launches
    assert [each.trials for each in second.launches] == [tuple(ids(before)), (ids(after)[0],)]
    assert len(second.files) == 2
    quiet(cluster.up(after), second)


def make_claim(ledger: Ledger) -> Claim:
    """A claim that an interrupted `up` has left, older than its launch's TTL."""
    spec = {**ledger.launch["spec"], "ttlSecondsAfterFinished": 600}
    return Claim(replace(ledger, launch={**ledger.launch, "spec": spec}), NOW - timedelta(hours=1))


def test_a_claim_stands_against_its_own_trials_alone() -> None:
    """Not once they were launched in another Job, with a value that was added, and not when they are edited."""
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


def test_another_form_runs_nothing_again() -> None:
    """Not what is active, done or gone; new trials are launched in the new form."""
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
    assert sorted(each.trials for each in cluster.up(more).launches) == [(), (ids(more)[-1],)]


def test_a_capped_sweep_counts_what_its_active_job_may_run() -> None:
    """After a change of the form: two at once are two at once."""
    cluster = Cluster()
    cluster.up(make_indexed())
    added = make_planned(expansion=make_expansion(*ADDED), parallelism=2)
    assert cluster.up(added).waiting == (ids(added)[0],)


def test_trials_that_failed_are_launched_again_when_the_launch_part_was_edited() -> None:
    """Those that have not succeeded, in a further Job; the first one's ledger gives them up."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    cluster.set("failed", succeeded=(0, 3))
    assert cluster.up(planned).launches == (first,)
    edited = make_indexed(run=MORE_MEMORY)
    second = cluster.up(edited)
    run_ids = ids(planned)
    assert [each.trials for each in second.launches] == [(run_ids[0], "", "", run_ids[3]), tuple(run_ids[1:3])]
    cluster.set("failed", [second.launches[1].run_id], succeeded=())
    quiet(cluster.up(edited), second)
    cluster.remove_objects()
    assert cluster.up(edited).ledgers == second.ledgers


def test_when_all_have_failed_the_next_job_takes_the_ledger_over() -> None:
    """The same trials, so the same batch, under another launch name; the failed object goes."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    cluster.set("failed")
    (second,) = cluster.up(make_indexed(run=MORE_MEMORY)).launches
    assert (second.run_id, second.trials) == (first.run_id, first.trials)
    assert second.launch_name != first.launch_name


def test_failed_trials_are_launched_again_in_the_form_that_the_sweep_has_now() -> None:
    """Not for the form's sake alone."""
    cluster, planned = Cluster(), make_indexed(max_failed_indexes=1)
    cluster.up(planned)
    cluster.set("failed", succeeded=(0, 1))
    assert len(cluster.up(make_planned()).launches) == 1
    assert launched(cluster.up(make_planned(run=MORE_MEMORY)))[1:] == ids(planned)[2:]


def test_what_a_target_has_stopped_is_not_launched_again() -> None:
    """The Job has succeeded with one of them: the search is over."""
    cluster, planned = Cluster(), make_indexed()
    first = cluster.up(planned)
    cluster.set("succeeded", succeeded=(1,))
    assert cluster.up(make_indexed(run=MORE_MEMORY)).launches == first.launches


@pytest.mark.parametrize("phase", ["queued", "running"])
def test_an_edit_of_the_launch_part_reaches_the_next_job(phase: Phase) -> None:
    """The active one is declared as it was launched, and a note says so."""
    cluster = Cluster()
    first = cluster.up(make_indexed())
    cluster.set(phase)
    second = cluster.up(make_indexed(run=MORE_MEMORY))
    assert (second.launches, second.files) == (first.launches, first.files)
    (note,) = second.notes
    assert note == (
        f"{first.launches[0].run_id} is {phase}: the edit (memory, queue, labels, …) takes effect at the next launch"
    )


def test_sets_that_are_taken_out_are_withdrawn_from_the_active_job() -> None:
    """Its file says so; those that run end when they are named, and records of what is done stay."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    cluster.set("running", succeeded=(0,))
    run_ids = ids(planned)
    left = make_indexed(expansion=make_expansion(SETS[1]))
    second = cluster.up(left)
    assert (second.launches, second.refusals) == ((replace(first, trials=("", run_ids[1], "", "")),), ())
    ((_, file, data),) = second.files
    assert file == name_of_file(planned, run_ids)
    gone = sorted([run_ids[0], *run_ids[2:]])
    assert data == {**planned.batch_file(run_ids), "withdrawn.json": json.dumps(gone, separators=(",", ":"))}
    named = cluster.up(left, run_ids[2])
    assert named.files[0][2]["stopped.json"] == f'["{run_ids[2]}"]'
    assert named.launches == second.launches


def test_a_set_that_comes_back_is_a_new_trial() -> None:
    """The Job that it was withdrawn from may have passed its index without training it."""
    cluster, planned = Cluster(), make_indexed()
    cluster.up(planned)
    cluster.up(make_indexed(expansion=make_expansion(*SETS[:3])))
    again = cluster.up(planned)
    assert [each.trials for each in again.launches] == [(*ids(planned)[:3], ""), (ids(planned)[3],)]
    files = {file: data for _, file, data in again.files}
    assert files[name_of_file(planned, ids(planned))]["withdrawn.json"] == f'["{ids(planned)[3]}"]'


def test_a_queued_job_whose_sets_are_all_taken_out_goes() -> None:
    """One that runs is left to end by itself."""
    for there, phase in enumerate(PHASES[:2]):
        cluster = Cluster()
        cluster.up(make_indexed())
        cluster.set(phase)
        decision = cluster.up(make_indexed(expansion=make_expansion({"batch_size": 8})))
        assert len(decision.launches) == there + 1
        assert decision.refusals == ()


@pytest.mark.parametrize("phase", ["queued", "running"])
def test_an_edit_of_what_is_trained_is_refused_while_the_job_is_active(phase: Phase) -> None:
    """With object, trials, age and both remedies; `stop` names the batch or the sweep."""
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
        assert [each.trials for each in other.up(edited, name).launches] == [tuple(ids(edited))]


def test_a_job_that_is_named_goes_on_where_nothing_about_it_was_edited() -> None:
    """As a run does; edited, the rest of its trials is launched anew, and what is done stays done."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    cluster.set("running", succeeded=(2,))
    assert cluster.up(planned, first.run_id).launches == (first,)
    edited = cluster.up(make_indexed(run=MORE_MEMORY), first.run_id)
    run_ids = ids(planned)
    assert [each.trials for each in edited.launches] == [(run_ids[0], run_ids[1], run_ids[3])]
    assert [each.trials for each in edited.ledgers] == [("", "", run_ids[2], ""), (run_ids[0], run_ids[1], run_ids[3])]


def test_an_interrupted_launch_is_known_by_its_file() -> None:
    """Its ledger is added; edited since, it is refused; and nothing of it is launched a second time."""
    cluster, planned = Cluster(), make_indexed()
    first = cluster.up(planned)
    cluster.set("running")
    cluster.forget()
    added = make_indexed(expansion=make_expansion(*ADDED))
    second = cluster.up(added)
    assert second.ledgers[0] == first.ledgers[0]
    assert [each.trials for each in second.launches] == [tuple(ids(planned)), (ids(added)[0],)]
    cluster.forget()
    (refusal, *_) = cluster.up(make_indexed(run=MORE_MEMORY)).refusals
    assert "an interrupted `up` left it without a ledger" in refusal


def test_an_interrupted_relaunch_is_the_later_jobs() -> None:
    """The ledger of the first still names what the second has taken over."""
    cluster, planned = Cluster(), make_indexed()
    first = cluster.up(planned)
    cluster.set("failed", succeeded=(0,))
    edited = make_indexed(run=MORE_MEMORY)
    second = cluster.up(edited)
    cluster.ledgers = {each.run_id: each for each in first.ledgers}
    quiet(cluster.up(edited), second)


def test_a_job_that_ended_without_a_ledger_and_was_edited_since_is_settled() -> None:
    """What it did is not done again; what was launched is not known, so its object goes."""
    cluster, planned = Cluster(), make_indexed()
    cluster.up(planned)
    cluster.set("succeeded", succeeded=(0, 1, 2, 3))
    cluster.forget()
    decision = cluster.up(make_indexed(run=MORE_MEMORY))
    assert (decision.launches, [each.trials for each in decision.ledgers]) == ((), [tuple(ids(planned))])


def test_what_stop_may_name() -> None:
    """The batch, each of its trials, and the sweep."""
    cluster, planned = Cluster(), make_indexed()
    (first,) = cluster.up(planned).launches
    assert stoppable(list(cluster.live.values()), cluster.files) == {"search", first.run_id, *ids(planned)}
