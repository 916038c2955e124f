"""The dependencies that keep declared runs from being launched.

A dependency is met when it has succeeded. A data loader never completes on its own, so it is met when its launch has
been deleted. A run that has been launched does not wait for its dependencies any more.
"""

from collections.abc import Collection, Mapping, Sequence

from trainstack.runs.launches import LiveLaunch
from trainstack.runs.ledgers import Ledger


def waiting(
    depends_on: Mapping[str, Sequence[str]],
    loaders: Collection[str],
    live: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
) -> dict[str, tuple[str, ...]]:
    """Return the unmet dependencies of runs by run id, without the runs that may be launched.

    `depends_on`: the dependencies of declared runs by run id. `loaders`: the run ids of data loaders. `live_launches`
    and `ledgers` are those of this stack.
    """
    phases: dict[str, set[str]] = {}
    for launch in live:
        phases.setdefault(launch.run_id, set()).add(launch.phase)
    launched = {ledger.run_id for ledger in ledgers} | phases.keys()
    done = {run for run in launched if _ended_well(phases.get(run, set()))}
    done |= {run for run in launched - phases.keys() if run in loaders}
    left = {run: tuple(other for other in others if other not in done) for run, others in depends_on.items()}
    return {run: others for run, others in left.items() if others and run not in launched}


def note(run: str, others: Sequence[str], live: Sequence[LiveLaunch], ledgers: Sequence[Ledger]) -> str:
    live_ids = {launch.run_id for launch in live}
    deleted = [each.run_id for each in ledgers if each.run_id in others and each.run_id not in live_ids]
    text = (
        f"{run} is not launched yet: it depends on {', '.join(others)}. Run `up` again when its dependencies have "
        "succeeded"
    )
    if not deleted:
        return text
    return (
        f"{text}. The outcome of {', '.join(deleted)} is unknown because the object was deleted: if it succeeded, "
        "remove it from `dependsOn`; otherwise raise its `attempt`"
    )


def _ended_well(phases: set[str]) -> bool:
    return "succeeded" in phases and not phases & {"queued", "running"}
