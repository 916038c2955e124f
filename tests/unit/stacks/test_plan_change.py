"""What a preview prints about admission."""

from trainstack.kueue.verdict import Verdict
from trainstack.stacks.plan_change import admission_lines


def test_the_lines_on_admission_begin_with_the_release_and_the_rules() -> None:
    """Without queued runs there are none."""
    verdict = Verdict(
        name="train",
        namespace="ns",
        queue="q",
        path="workloads.runs[train]",
        cluster_queue="q",
        outcome="waits",
        release="v0.20.7",
        rules="v0.19",
        not_compared="v0.20",
    )
    rules = "by the rules of v0.19; v0.20 is not compared"
    assert list(admission_lines([verdict])) == [
        f"admission of the runs on an idle cluster, for Kueue v0.20.7, from the files, {rules}:",
        f"train: waits ({rules})",
    ]
    assert list(admission_lines([])) == []
