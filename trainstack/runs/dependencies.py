"""Which runs are not launched yet, because others must have ended well before.

Pure: from what is declared, and what a cluster holds. Ended well means succeeded; of a data loader, which does not end
by itself, removed after its launch. What has been launched depends on nothing any more.
"""

from collections.abc import Collection, Mapping, Sequence

from trainstack.runs.launches import LiveLaunch
from trainstack.runs.records import Ledger


def waiting(
    depends_on: Mapping[str, Sequence[str]],
    loaders: Collection[str],
    live: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
) -> dict[str, tuple[str, ...]]:
    """By run id, the run ids that a declared run still has to wait for; runs that may be launched are not in it.

    Args:
        depends_on: by run id, the run ids that must have ended well before it is launched.
        loaders: the run ids of data loaders.
        live: this stack's launches in the cluster.
        ledgers: this stack's ledgers in the cluster.

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
    """Why a run is not launched, and what to do."""
    there = {launch.run_id for launch in live}
    gone = [each.run_id for each in ledgers if each.run_id in others and each.run_id not in there]
    text = f"{run} is not launched yet: it depends on {', '.join(others)}. Run `up` again when that has ended well"
    if not gone:
        return text
    return (
        f"{text}. Whether {', '.join(gone)} did is not known, since its object was removed: if it did, take it out of "
        "`dependsOn`; if not, raise its `attempt`"
    )


def _ended_well(phases: set[str]) -> bool:
    """Of one run's launches, whose states these are: one has succeeded and none is active."""
    return "succeeded" in phases and not phases & {"queued", "running"}
