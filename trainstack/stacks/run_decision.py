"""What becomes of runs and sweeps: which are launched, which wait, what is remembered, what stands against it.

Reads nothing but the clock.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from trainstack.declared.declared import Declared, PlannedRun
from trainstack.declared.launches import LaunchGroup
from trainstack.live.snapshot import Runs
from trainstack.objects.labels import Manifest
from trainstack.objects.ownership import Identity
from trainstack.runs import dependencies, launches
from trainstack.runs.launches import LiveLaunch
from trainstack.runs.parameter_file import file_config_map
from trainstack.runs.records import Ledger, wrapper_config_map, wrapper_of, wrapper_reference
from trainstack.settings.model import Settings
from trainstack.sweeps import decision as sweeps
from trainstack.sweeps.decision import SweepDecision
from trainstack.sweeps.launches import PlannedSweep


@dataclass(frozen=True, kw_only=True)
class Decided:
    """Runs and sweeps, as they are to be."""

    runs: LaunchGroup
    sweeps: tuple[SweepDecision, ...]
    waiting: Mapping[str, tuple[str, ...]]
    """Runs, by run id, and sweeps, by name, that are not launched yet, and the run ids they depend on."""
    live: Mapping[str, str]
    """The launches that are in the cluster, by name: their objects, as `<namespace>/<name>`."""
    config_map_versions: Mapping[Identity, str]
    """The resource versions of the ConfigMaps of runs that are in the cluster, ledgers and claims among them."""
    unlabelled: frozenset[Identity]
    """The launches that are in the cluster without the labels of this stack."""
    refusals: tuple[str, ...]
    """Why the change must not go on."""
    notes: tuple[str, ...]
    """Warnings."""

    @cached_property
    def groups(self) -> tuple[LaunchGroup, ...]:
        """What to declare: the runs, then each sweep that has a record."""
        stack = self.runs.stack
        return (
            self.runs,
            *(
                LaunchGroup(
                    stack=stack,
                    sweep=sweep.name,
                    files=tuple(
                        file_config_map(name, sweep.name, namespace, stack, data)
                        for namespace, name, data in sweep.files
                    ),
                    launches=sweep.launches,
                    ledgers=sweep.ledgers,
                )
                for sweep in self.sweeps
                if sweep.ledgers
            ),
        )

    @property
    def all_launches(self) -> tuple[Ledger, ...]:
        """The launches of runs and of trials."""
        return (*self.runs.launches, *(launch for sweep in self.sweeps for launch in sweep.launches))


def runs_and_sweeps(declared: Declared, live: Runs) -> Decided:
    """Decide.

    Args:
        declared: the environment.
        live: what the cluster has of them.

    Raises:
        WorkloadError: a run cannot be launched as it is.

    """
    settings = declared.settings
    # Without its half no run is declared: one that is active would be deleted.
    trains = "training" in settings.environment.halves
    runs = declared.runs if trains else ()
    planned = declared.sweeps if trains else ()
    loaders = {run.launch.run_id for run in runs if run.workload.kind == "DataLoader"}
    held = dependencies.waiting(_dependencies(runs, planned), loaders, live.live, live.ledgers)
    stop, now = settings.workloads.stop, launches.utc_now()
    decision = launches.decide(
        [run.ledger for run in runs if run.launch.run_id not in held],
        [each for each in live.live if each.sweep is None],
        [each for each in live.ledgers if not each.sweep],
        stop,
        now,
        [claim for claim in live.claims if not claim.ledger.sweep],
        _of_excluded_runs(settings, live.ledgers) if trains else (),
    )
    trials = _sweeps(planned, live, stop, now, held)
    # Of a sweep what is known already waits for nothing.
    held = {key: others for key, others in held.items() if key not in {each.name for each in trials if not each.held}}
    known = {each.run_id for each in live.live} | sweeps.stoppable(live.live, live.files)
    launched = [*decision.launches, *(launch for each in trials for launch in each.launches)]
    return Decided(
        runs=LaunchGroup(
            stack=settings.stack,
            files=tuple(_wrappers(settings.stack, launched, live.wrappers, declared.inputs.wrapper)),
            launches=decision.launches,
            ledgers=decision.ledgers,
        ),
        sweeps=tuple(trials),
        waiting=held,
        live={each.launch: f"{each.namespace}/{each.name}" for each in live.live},
        config_map_versions={
            who: str(metadata["resourceVersion"]) for who, metadata in live.metadata.items() if who[0] == "ConfigMap"
        },
        unlabelled=frozenset((run.kind, run.namespace, run.name) for run in live.live if run.lost_labels),
        refusals=(
            *decision.refusals,
            *(refusal for each in trials for refusal in each.refusals),
            *(launches.without_labels(launch, now) for launch in live.live if launch.lost_labels),
        ),
        notes=(
            *decision.notes,
            *(note for each in trials for note in each.notes),
            *launches.idle_stops(stop, known),
            *(dependencies.note(run, others, live.live, live.ledgers) for run, others in held.items()),
        ),
    )


def _of_excluded_runs(settings: Settings, ledgers: Sequence[Ledger]) -> list[Ledger]:
    """The ledgers of runs that `workloads.exclude` names, but for those in a namespace that the stack no longer has."""
    environment = settings.environment
    namespaces = {one.name for one in environment.namespaces} | {*environment.existing.namespaces}
    return [
        ledger
        for ledger in ledgers
        if ledger.workload in settings.workloads.exclude
        and not ledger.sweep
        # Without the platform's half a stack does not name its namespaces.
        and (ledger.namespace in namespaces or "platform" not in environment.halves)
    ]


def _wrappers(stack: str, launched: Sequence[Ledger], live: Mapping[str, str], wrapper: str) -> list[Manifest]:
    """The wrappers that launches mount: that of this checkout, and those of launches from before."""
    sources = {**live, wrapper_reference(wrapper): wrapper}
    mounted = {(each.namespace, wrapper_of(each.objects)) for each in launched}
    there = sorted((namespace, name) for namespace, name in mounted if name in sources)
    return [wrapper_config_map(namespace, stack, sources[name]) for namespace, name in there]


def _sweeps(
    planned: Sequence[PlannedSweep], live: Runs, stop: Sequence[str], now: datetime, held: Collection[str]
) -> list[SweepDecision]:
    """What becomes of each sweep, also of those that are in the cluster alone."""
    launched: dict[str, list[LiveLaunch]] = {}
    remembered: dict[str, list[Ledger]] = {}
    for each in live.live:
        if each.sweep is not None:
            launched.setdefault(each.sweep.name, []).append(each)
    for ledger in live.ledgers:
        remembered.setdefault(ledger.sweep, []).append(ledger)
    decided = []
    for sweep in planned:
        name = sweep.sweep.name
        here, ledgers = launched.pop(name, []), remembered.get(name, [])
        claims = [claim for claim in live.claims if claim.ledger.sweep == name]
        decision = sweeps.decide(sweep, here, ledgers, live.files, stop, now, held=name in held, claims=claims)
        decided.append(decision)
    return [*decided, *(sweeps.undeclared(name, here, stop, now) for name, here in sorted(launched.items()))]


def _dependencies(runs: Sequence[PlannedRun], planned: Sequence[PlannedSweep]) -> dict[str, tuple[str, ...]]:
    """The run ids that each run, by run id, and each sweep, by name, depends on."""
    ids = {(run.workload.namespace, run.workload.name): run.launch.run_id for run in runs}
    trained = [(run.launch.run_id, run.workload) for run in runs]
    trained += [(sweep.sweep.name, sweep.sweep.run) for sweep in planned]
    return {key: tuple(ids[each.namespace, name] for name in each.depends_on) for key, each in trained}
