"""An environment as one decision, taken before the first resource is declared.

Reads files and the cluster; declares nothing. The order is the point: whatever is wrong stops the change while
nothing has been written.
"""

import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from checks import dependencies, downgrades, identity, launches, ownership, sweeps
from checks.admission.words import lines
from checks.cluster.identity import read_cluster
from checks.cluster.rights import lacking
from checks.cluster.snapshot import Runs, read_metadata, read_runs
from checks.launches import LiveLaunch
from checks.ownership import Identity
from checks.preflight import examine
from checks.sweeps import SweepDecision
from manifests import secrets, storage
from manifests.labels import STACK, Manifest
from manifests.operators import OperatorManifests, in_order
from manifests.retained import Retained, retained
from settings.load import load_with_places
from settings.model import Settings
from stacks.guards import fields_of_others, volumes_with_data
from workloads import render
from workloads.parameter_file import file_config_map
from workloads.records import Ledger, ledger_config_map, wrapper_config_map, wrapper_of, wrapper_reference
from workloads.sweep_launches import PlannedSweep


class Refused(Exception):  # noqa: N818 (it says what happened to the change)
    """The change must not go on: every reason, each with its remedy."""


@dataclass(frozen=True)
class Program:
    """What a stack declares."""

    settings: Settings
    cluster: identity.Cluster
    """Where the objects go."""
    operators: Mapping[str, OperatorManifests]
    """By name, in the order of their installation."""
    wrappers: tuple[Manifest, ...]
    launches: tuple[Ledger, ...]
    """Of runs; those of trials are in `sweeps`."""
    ledgers: tuple[Ledger, ...]
    """Likewise."""
    sweeps: tuple[SweepDecision, ...]
    waiting: Mapping[str, tuple[str, ...]]
    """Runs, by run id, and sweeps, by name, that are not launched yet, and the run ids they depend on."""
    live: Mapping[str, str]
    """The launches that are in the cluster, by name: their objects, as `<namespace>/<name>`."""
    retained: tuple[Retained, ...]
    """What `destroy` leaves in the cluster."""
    notes: tuple[str, ...]
    """Warnings: not in the way, but worth a look."""
    verdicts: tuple[str, ...]
    """Whether the runs would be admitted, on an idle cluster with the quota of the files."""


def decide(root: Path, stack: str, engine: Mapping[str, str] | None) -> Program:
    """Load, check, look at the cluster, decide.

    Args:
        root: the project's folder.
        stack: the environment.
        engine: the engine's configuration, where there is an engine.

    Raises:
        SettingsError: the files do not say what an environment is.
        Refused: a rule, another cluster than the environment names, a running run, somebody else's object, a newer
            operator or, of a tenant, a missing right stands against it.
        ClusterError: the cluster cannot be read.
        ReleaseError, InputsError, WorkloadError, OperatorError: something that the environment names is not right.

    """
    loaded = load_with_places(root, stack, engine)
    settings = loaded.settings
    checked = examine(settings, root, loaded.places)
    findings = checked.findings
    faults = [str(each) for each in findings if each.stops]
    if faults:
        raise Refused("\n".join(faults))
    here, where = read_cluster(settings), loaded.where("cluster.identity")
    if elsewhere := identity.unexpected(here, stack, settings.cluster.identity, where):
        raise Refused(elsewhere)
    inputs = render.read_inputs(settings, root, commit=commit(root), cache=root / render.CACHE)
    installs = render.operators(settings, inputs)
    live = read_runs(settings)
    # Without its half no run is declared: one that is active would be deleted.
    trains = "training" in settings.environment.halves
    runs = render.runs(settings, inputs) if trains else []
    planned = render.sweeps(settings, inputs) if trains else []
    loaders = {run.launch.run_id for run in runs if run.workload.kind == "DataLoader"}
    held = dependencies.waiting(_dependencies(runs, planned), loaders, live.live, live.ledgers)
    stop, now = settings.workloads.stop, launches.utc_now()
    decision = launches.decide(
        [render.ledger(run) for run in runs if run.launch.run_id not in held],
        [each for each in live.live if each.sweep is None],
        [each for each in live.ledgers if not each.sweep],
        stop,
        now,
    )
    trials = _sweeps(planned, live, stop, now, held)
    # Of a sweep what is known already waits for nothing.
    held = {key: others for key, others in held.items() if key not in {each.name for each in trials if not each.held}}
    launched = [*decision.launches, *(launch for each in trials for launch in each.launches)]
    remembered = [*decision.ledgers, *(ledger for each in trials for ledger in each.ledgers)]
    refusals = [*decision.refusals, *(refusal for each in trials for refusal in each.refusals)]
    known = {each.run_id for each in live.live} | sweeps.stoppable(live.live, live.files)
    sources = {**live.wrappers, wrapper_reference(inputs.wrapper): inputs.wrapper}
    mounted = {(each.namespace, wrapper_of(each.objects)) for each in launched}
    wrappers = [
        wrapper_config_map(namespace, stack, sources[name])
        for namespace, name in sorted((namespace, name) for namespace, name in mounted if name in sources)
    ]
    declared = [
        *wrappers,
        *(
            render.platform(settings, inputs)
            if "platform" in settings.environment.halves
            else (secrets.secret(each, stack) for each in settings.secrets.secrets)
        ),
        *(storage.claim(each, stack) for each in settings.storage.volumes if trains),
        *(file for each in trials for file in parameter_files(each, stack)),
        *(each for launch in launched for each in launch.objects),
        *(ledger_config_map(stack, ledger) for ledger in remembered),
    ]
    if settings.environment.profile == "tenant" and (denied := lacking(declared, settings.cluster.context)):
        raise Refused("\n".join(denied))
    # A name that the API server chooses is nobody's yet.
    declared = [each for each in declared if "name" in each["metadata"]]
    there, adopted = read_metadata(declared, settings.cluster.context), ownership.adoptions(settings)
    marks = {who: metadata.get("labels") or {} for who, metadata in there.items()}
    foreign = ownership.refusals(declared, marks, adopted, stack)
    endangered, discarded = volumes_with_data(settings, loaded.places)
    contested, overwritten = fields_of_others(
        settings,
        [each for each in declared if _ours_to_write(ownership.identity(each), marks, adopted, stack)],
        there,
        adopted,
    )
    downgraded = downgrades.refusals(installs, marks)
    if refusals or foreign or downgraded or endangered or contested:
        raise Refused("\n".join((*refusals, *foreign, *downgraded, *endangered, *contested)))
    # The platform's stack tells which queues there are (stacks/assemble.py).
    answered = {"queue-unknown"} if settings.environment.platform is not None else set()
    return Program(
        settings=settings,
        cluster=here,
        operators=installs,
        wrappers=tuple(wrappers),
        launches=decision.launches,
        ledgers=decision.ledgers,
        sweeps=tuple(trials),
        waiting=held,
        live={each.launch: f"{each.namespace}/{each.name}" for each in live.live},
        retained=tuple(retained(settings, in_order(installs.values()))),
        notes=(
            *(str(each) for each in findings if not each.silenced and each.id not in answered),
            *decision.notes,
            *(note for each in trials for note in each.notes),
            *launches.idle_stops(stop, known),
            *(dependencies.note(run, others, live.live, live.ledgers) for run, others in held.items()),
            *discarded,
            *overwritten,
            *ownership.taken_over(declared, marks, adopted, stack),
        ),
        verdicts=tuple(lines(checked.verdicts)),
    )


def _ours_to_write(
    who: Identity, marks: Mapping[Identity, Mapping[str, str]], adopted: Collection[Identity], stack: str
) -> bool:
    """Whether this is a live object that the change may write to: this stack's, or one that it takes over."""
    return who in marks and (marks[who].get(STACK) == stack or who in adopted)


def parameter_files(sweep: SweepDecision, stack: str) -> list[Manifest]:
    """The ConfigMaps that a sweep's launches mount."""
    return [file_config_map(name, sweep.name, namespace, stack, data) for namespace, name, data in sweep.files]


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
        decided.append(sweeps.decide(sweep, here, ledgers, live.files, stop, now, held=name in held))
    return [*decided, *(sweeps.undeclared(name, here, stop, now) for name, here in sorted(launched.items()))]


def _dependencies(runs: Sequence[render.PlannedRun], planned: Sequence[PlannedSweep]) -> dict[str, tuple[str, ...]]:
    """The run ids that each run, by run id, and each sweep, by name, depends on."""
    ids = {(run.workload.namespace, run.workload.name): run.launch.run_id for run in runs}
    trained = [(run.launch.run_id, run.workload) for run in runs]
    trained += [(sweep.sweep.name, sweep.sweep.run) for sweep in planned]
    return {key: tuple(ids[each.namespace, name] for name in each.depends_on) for key, each in trained}


def commit(root: Path) -> str:
    """The commit that runs are recorded with, `-dirty` where files differ from it; empty outside of git."""
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
