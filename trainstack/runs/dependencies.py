"""The dependencies that keep declared runs from being launched.

A dependency is met when it has succeeded. A data loader never completes on its own, so it is met when its launch has
been deleted. A run that has been launched does not wait for its dependencies any more.
"""

from collections.abc import Collection, Mapping, Sequence

from trainstack.runs.launches import LiveLaunch
from trainstack.runs.ledgers import Ledger


def unmet_dependencies(
    depends_on: Mapping[str, Sequence[str]],
    loaders: Collection[str],
    live_launches: Sequence[LiveLaunch],
    ledgers: Sequence[Ledger],
) -> dict[str, tuple[str, ...]]:
    """Return the unmet dependencies of runs by run id, without the runs that may be launched.

    `depends_on`: the dependencies of declared runs by run id. `loaders`: the run ids of data loaders. `live_launches`
    and `ledgers` are those of this stack.
    """
    phases: dict[str, set[str]] = {}
    for launch in live_launches:
        phases.setdefault(launch.run_id, set()).add(launch.phase)
    launched = {ledger.run_id for ledger in ledgers} | phases.keys()
    met = {run for run in launched if _has_succeeded(phases.get(run, set()))}
    met |= {run for run in launched - phases.keys() if run in loaders}
    unmet = {
        run: tuple(dependency for dependency in dependencies if dependency not in met)
        for run, dependencies in depends_on.items()
    }
    return {run: dependencies for run, dependencies in unmet.items() if dependencies and run not in launched}


def waiting_note(
    run: str, dependencies: Sequence[str], live_launches: Sequence[LiveLaunch], ledgers: Sequence[Ledger]
) -> str:
    live_ids = {launch.run_id for launch in live_launches}
    deleted_ids = [
        ledger.run_id for ledger in ledgers if ledger.run_id in dependencies and ledger.run_id not in live_ids
    ]
    text = (
        f"{run} is not launched yet: it depends on {', '.join(dependencies)}. Run `up` again when its dependencies "
        "have succeeded"
    )
    if not deleted_ids:
        return text
    return (
        f"{text}. The outcome of {', '.join(deleted_ids)} is unknown because the object was deleted: if it succeeded, "
        "remove it from `dependsOn`; otherwise raise its `attempt`"
    )


def _has_succeeded(phases: set[str]) -> bool:
    return "succeeded" in phases and not phases & {"queued", "running"}
