"""The decision about runs and sweeps: launches, dependencies, records, refusals. Pure except for the clock."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from trainstack.live.snapshot import LiveRuns
from trainstack.objects.labels import Manifest
from trainstack.objects.ownership import Identity
from trainstack.runs import dependencies, launches
from trainstack.runs.launches import LiveLaunch
from trainstack.runs.ledgers import Claim, Ledger, mounted_wrapper, wrapper_config_map, wrapper_reference
from trainstack.runs.parameter_file import parameter_config_map
from trainstack.settings.model import Settings
from trainstack.stack_objects.launch_groups import LaunchGroup
from trainstack.stack_objects.stack_objects import PlannedRun, StackObjects
from trainstack.sweeps import decision as sweeps
from trainstack.sweeps.decision import SweepDecision
from trainstack.sweeps.planned_sweep import PlannedSweep


@dataclass(frozen=True, kw_only=True)
class RunDecision:
    """The launches, records and refusals of a change's runs and sweeps."""

    runs: LaunchGroup
    sweeps: tuple[SweepDecision, ...]
    waiting: Mapping[str, tuple[str, ...]]
    """The dependencies, as run ids, of runs (by run id) and sweeps (by name) that are not launched yet."""
    live_objects: Mapping[str, str]
    """The live objects of launches as `<namespace>/<name>`, by launch name."""
    config_map_versions: Mapping[Identity, str]
    """The resource versions of the live ConfigMaps of runs, including ledgers and claims."""
    claims: tuple[Claim, ...]
    """The claims whose launches neither the cluster nor the engine's state has."""
    unlabeled_launches: frozenset[Identity]
    """The live launches without the labels of this stack."""
    refusals: tuple[str, ...]
    notes: tuple[str, ...]

    @cached_property
    def groups(self) -> tuple[LaunchGroup, ...]:
        """The launches of the runs, then of each sweep that has a record."""
        stack = self.runs.stack
        return (
            self.runs,
            *(
                LaunchGroup(
                    stack=stack,
                    sweep=sweep.name,
                    files=tuple(
                        parameter_config_map(name, sweep.name, namespace, stack, data)
                        for namespace, name, data in sweep.files
                    ),
                    launches=sweep.launches,
                    ledgers=sweep.ledgers,
                )
                for sweep in self.sweeps
                if sweep.ledgers
            ),
        )

    def claims_of(self, ledger: Ledger) -> tuple[Claim, ...]:
        """Return the claims of the launch's run, or of any of its trials."""
        return tuple(claim for claim in self.claims if claim.ledger.trained_ids & ledger.trained_ids)

    @property
    def all_launches(self) -> tuple[Ledger, ...]:
        return (*self.runs.launches, *(launch for sweep in self.sweeps for launch in sweep.launches))

    def active_launches(self, live_launches: Iterable[LiveLaunch]) -> frozenset[Identity]:
        """Return the active launches that the change does not delete."""
        declared_names = {ledger.launch_name for ledger in self.all_launches}
        return frozenset(
            (launch.kind, launch.namespace, launch.name)
            for launch in live_launches
            if launch.is_active and launch.launch in declared_names
        )


def decide_runs_and_sweeps(
    stack_objects: StackObjects, live_runs: LiveRuns, evicted_names: Collection[str] = ()
) -> RunDecision:
    """Decide which runs and trials are launched. Raises WorkloadError if a run cannot be launched.

    `evicted_names`: names in `workloads.stop` of runs that the change evicts, also of other stacks.
    """
    settings = stack_objects.settings
    # Without the training layer, no run is declared, and an active one would be deleted.
    has_training = "training" in settings.environment.layers
    runs = stack_objects.runs if has_training else ()
    planned_sweeps = stack_objects.sweeps if has_training else ()
    loader_ids = {run.launch.run_id for run in runs if run.workload.kind == "DataLoader"}
    waiting = dependencies.unmet_dependencies(
        _dependency_ids(runs, planned_sweeps), loader_ids, live_runs.live, live_runs.ledgers
    )
    stop, now = settings.workloads.stop, launches.utc_now()
    decision = launches.decide_launches(
        [run.ledger for run in runs if run.launch.run_id not in waiting],
        [launch for launch in live_runs.live if launch.sweep is None],
        [ledger for ledger in live_runs.ledgers if not ledger.sweep],
        stop,
        now,
        [claim for claim in live_runs.claims if not claim.ledger.sweep],
        _ledgers_of_excluded_runs(settings, live_runs.ledgers) if has_training else (),
        {run.launch.run_id for run in runs if run.workload.adopt},
    )
    sweep_decisions = _decide_sweeps(planned_sweeps, live_runs, stop, now, waiting)
    # A sweep that was launched before does not wait for dependencies again.
    launched_sweeps = {sweep.name for sweep in sweep_decisions if not sweep.blocked}
    waiting = {key: run_ids for key, run_ids in waiting.items() if key not in launched_sweeps}
    stoppable_names = {launch.run_id for launch in live_runs.live} | sweeps.stoppable_names(
        live_runs.live, live_runs.files
    )
    all_launches = [*decision.launches, *(launch for sweep in sweep_decisions for launch in sweep.launches)]
    return RunDecision(
        runs=LaunchGroup(
            stack=settings.stack,
            files=tuple(_wrappers(settings, all_launches, live_runs.wrappers, stack_objects.inputs.wrapper)),
            launches=decision.launches,
            ledgers=decision.ledgers,
        ),
        sweeps=tuple(sweep_decisions),
        waiting=waiting,
        live_objects={launch.launch: f"{launch.namespace}/{launch.name}" for launch in live_runs.live},
        config_map_versions={
            identity: str(metadata["resourceVersion"])
            for identity, metadata in live_runs.metadata.items()
            if identity[0] == "ConfigMap"
        },
        claims=live_runs.claims,
        unlabeled_launches=frozenset(
            (launch.kind, launch.namespace, launch.name) for launch in live_runs.live if launch.lost_labels
        ),
        refusals=(
            *decision.refusals,
            *(refusal for sweep in sweep_decisions for refusal in sweep.refusals),
            *(launches.lost_labels_refusal(launch, now) for launch in live_runs.live if launch.lost_labels),
        ),
        notes=(
            *decision.notes,
            *(note for sweep in sweep_decisions for note in sweep.notes),
            *launches.unknown_stop_notes(stop, {*stoppable_names, *evicted_names}),
            *(
                dependencies.waiting_note(run, run_ids, live_runs.live, live_runs.ledgers)
                for run, run_ids in waiting.items()
            ),
        ),
    )


def _ledgers_of_excluded_runs(settings: Settings, ledgers: Sequence[Ledger]) -> list[Ledger]:
    """Return the ledgers of runs in `workloads.exclude` whose namespace the stack still has."""
    environment = settings.environment
    namespaces = {namespace.name for namespace in environment.namespaces} | {*environment.existing.namespaces}
    return [
        ledger
        for ledger in ledgers
        if ledger.workload in settings.workloads.exclude
        and not ledger.sweep
        # A stack without the platform does not declare its namespaces.
        and (ledger.namespace in namespaces or "platform" not in environment.layers)
    ]


def _wrappers(
    settings: Settings, mounting_ledgers: Sequence[Ledger], live_wrappers: Mapping[str, str], wrapper: str
) -> list[Manifest]:
    """Return the ConfigMaps of the wrappers that launches mount: this checkout's, and those of earlier launches.

    Dispatched runs are launches of another stack, so their namespaces keep all wrappers.
    """
    current_name = wrapper_reference(wrapper)
    wrapper_by_name = {**live_wrappers, current_name: wrapper}
    mounted_wrappers = {(ledger.namespace, mounted_wrapper(ledger.objects)) for ledger in mounting_ledgers}
    mounted_wrappers |= {(namespace, name) for namespace in settings.workloads.receives for name in wrapper_by_name}
    available_wrappers = sorted((namespace, name) for namespace, name in mounted_wrappers if name in wrapper_by_name)
    return [
        wrapper_config_map(namespace, settings.stack, wrapper_by_name[name]) for namespace, name in available_wrappers
    ]


def _decide_sweeps(
    planned_sweeps: Sequence[PlannedSweep],
    live_runs: LiveRuns,
    stop: Sequence[str],
    now: datetime,
    waiting: Collection[str],
) -> list[SweepDecision]:
    """Decide about each declared sweep, then about sweeps that exist only in the cluster."""
    launches_by_sweep: dict[str, list[LiveLaunch]] = {}
    for launch in live_runs.live:
        if launch.sweep is not None:
            launches_by_sweep.setdefault(launch.sweep.name, []).append(launch)
    decisions = []
    for sweep in planned_sweeps:
        name = sweep.sweep.name
        ledgers = [ledger for ledger in live_runs.ledgers if ledger.sweep == name]
        claims = [claim for claim in live_runs.claims if claim.ledger.sweep == name]
        decisions.append(
            sweeps.decide(
                sweep,
                launches_by_sweep.pop(name, []),
                ledgers,
                live_runs.files,
                stop,
                now,
                blocked=name in waiting,
                claims=claims,
            )
        )
    return [
        *decisions,
        *(sweeps.decide_removed_sweep(name, trials, stop, now) for name, trials in sorted(launches_by_sweep.items())),
    ]


def _dependency_ids(runs: Sequence[PlannedRun], planned_sweeps: Sequence[PlannedSweep]) -> dict[str, tuple[str, ...]]:
    """Return the run ids that runs (by run id) and sweeps (by name) depend on."""
    ids = {(run.workload.namespace, run.workload.name): run.launch.run_id for run in runs}
    workloads = [(run.launch.run_id, run.workload) for run in runs]
    workloads += [(sweep.sweep.name, sweep.sweep.run) for sweep in planned_sweeps]
    return {key: tuple(ids[workload.namespace, name] for name in workload.depends_on) for key, workload in workloads}
