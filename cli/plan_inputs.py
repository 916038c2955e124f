"""What a plan is made from beside the environment: earlier records here, and what its cluster holds."""

from collections.abc import Callable
from statistics import median

from checks.admission.live import snapshot
from checks.cluster.holding import Holding, read_holding
from checks.plan.beside import Held, limits, matched, owners
from cli.session import Session
from reports.took import Took, took
from settings.model import Settings
from settings.operators import Operators
from settings.workloads import Workload
from workloads import render
from workloads.pods import pods


def measured(session: Session) -> dict[str, float]:
    """How long earlier runs took, by the key of the declared run that says the same: the median of their records."""
    records = took(session.results)
    found = {}
    for run in session.settings.workloads.runs:
        seconds = [record.seconds for record in records if _says(record, run)]
        if seconds:
            found[f"{run.namespace}/{run.name}"] = median(seconds)
    return found


def _says(record: Took, run: Workload) -> bool:
    """Whether a record is of the same program with the same arguments and as many replicas."""
    first, together = pods(run)[0], sum(each.replicas for each in pods(run))
    alike = (record.workload, record.command, record.args) == (run.name, first.command, first.args)
    return alike and record.env == first.env and record.world_size in (None, together)


def held_by(session: Session) -> Callable[[Settings], Held]:
    """Read the cluster once; what it holds then, and will have once an environment with other settings is up.

    Raises ClusterError, and ValueError where files are not there that the runs are named after.
    """
    settings, read = session.settings, read_holding(session.settings)
    without = settings.model_copy(update={"operators": Operators()})
    wanted = [
        render.ledger(each) for each in render.runs(without, render.read_inputs(without, session.root, commit=""))
    ]
    runs, ended = matched(wanted, read.runs.live, read.runs.ledgers, owners(read.workloads))
    return lambda tried: _held(read, tried, runs, ended)


def _held(read: Holding, settings: Settings, runs: dict[str, str], ended: set[str]) -> Held:
    return Held(
        snapshot=snapshot(read.lists, settings),
        now=read.now,
        runs=runs,
        limits=limits(read.workloads, read.owners),
        launched=ended,
    )
