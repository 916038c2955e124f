"""An environment as one decision, taken before the first resource is declared.

Reads files and the cluster; declares nothing. The order is the point: whatever is wrong stops the change while
nothing has been written.
"""

import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.declared.declared import Declared
from trainstack.declared.inputs import InputsError
from trainstack.guards import cluster_identity as identity
from trainstack.guards import field_managers as managers
from trainstack.guards.states import OwnState
from trainstack.kueue.format import lines
from trainstack.live.identity import read_cluster
from trainstack.live.rights import lacking
from trainstack.live.snapshot import read_metadata, read_runs
from trainstack.objects import ownership
from trainstack.objects.labels import field_manager
from trainstack.objects.ownership import Identity
from trainstack.platform.operators.release import ReleaseError
from trainstack.preflight import downgrades
from trainstack.preflight.preflight import examine
from trainstack.preflight.rules.references import queue_unknown
from trainstack.runs.recorded import RecordedLaunch
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.model import Settings
from trainstack.stacks.guards import fields_of_others, namespaces_to_prepare, objects_of_other_states, volumes_with_data
from trainstack.stacks.run_decision import Decided, runs_and_sweeps


class Refused(Exception):  # noqa: N818 (it says what happened to the change)
    """The change must not go on: every reason, each with its remedy."""


@dataclass(frozen=True)
class Program:
    """What a stack declares."""

    cluster: identity.Cluster
    """Where the objects go."""
    state: OwnState
    """The engine's state of the stack."""
    declared: Declared
    decided: Decided
    """What becomes of runs and sweeps."""
    recorded: tuple[RecordedLaunch, ...]
    """The launches in the engine's state."""
    departing: Mapping[str, Mapping[str, Any]]
    """Those manifests whose namesakes are being deleted, by the UIDs of these."""
    taken: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...]
    """The manifests of live objects with fields of other states, each with the live metadata."""
    notes: tuple[str, ...]
    """Warnings."""
    verdicts: tuple[str, ...]
    """Whether the runs would be admitted, on an idle cluster with the quota of the files."""

    @property
    def settings(self) -> Settings:
        """The environment."""
        return self.declared.settings


def decide(
    root: Path,
    stack: str,
    engine: Mapping[str, str] | None,
    state: OwnState,
    recorded: Sequence[RecordedLaunch] = (),
) -> Program:
    """Load, check, look at the cluster, decide.

    Args:
        root: the project's folder.
        stack: the environment.
        engine: the engine's configuration, where there is an engine.
        state: what the engine's state of the stack holds.
        recorded: the launches in the engine's state.

    Raises:
        SettingsError: the files do not say what an environment is.
        Refused: a rule, another cluster than the environment names, another state of the stack, a running run, somebody
            else's object, a newer operator, a missing namespace or, of a tenant, a missing right stands against it.
        ClusterError: the cluster cannot be read.
        ReleaseError, InputsError, WorkloadError, OperatorError: something that the environment names is not right.

    """
    loaded = load_with_places(root, stack, engine)
    settings = loaded.settings
    environment, unread = _declared(settings, root)
    checked = examine(environment, root, loaded.places)
    findings = checked.findings
    faults = [str(each) for each in findings if each.stops]
    if faults:
        raise Refused("\n".join(faults))
    if unread is not None:
        raise unread
    here, where = read_cluster(settings), loaded.where("cluster.identity")
    if elsewhere := identity.unexpected(here, stack, settings.cluster.identity, where):
        raise Refused(elsewhere)
    installs = environment.operators
    runs = read_runs(settings, recorded)
    decided = runs_and_sweeps(environment, runs)
    everything = environment.manifests(decided.groups)
    if settings.environment.profile == "tenant" and (denied := lacking(everything, settings.cluster.context)):
        raise Refused("\n".join(denied))
    # A name that the API server chooses is nobody's yet.
    declared = [each for each in everything if "name" in each["metadata"]]
    if uncreated := namespaces_to_prepare(settings, declared):
        raise Refused("\n".join(uncreated))
    there, adopted = read_metadata(declared, settings.cluster.context), ownership.adoptions(settings)
    kept = environment.retained
    owners = objects_of_other_states(settings, state, declared, {**runs.metadata, **there}, adopted, kept)
    if owners.refusal:
        raise Refused(owners.refusal)
    going = {who: metadata["uid"] for who, metadata in there.items() if "deletionTimestamp" in metadata}
    staying = [each for each in declared if ownership.identity(each) not in going]
    departing = {going[who]: each for each in declared if (who := ownership.identity(each)) in going}
    marks = {who: metadata.get("labels") or {} for who, metadata in there.items()}
    # Other messages refuse these.
    labelled = [each for each in declared if ownership.identity(each) not in decided.unlabelled]
    foreign = ownership.refusals(labelled, marks, adopted, stack)
    endangered, discarded = volumes_with_data(settings, loaded.places)
    contested, overwritten = fields_of_others(
        settings,
        [each for each in staying if _ours_to_write(ownership.identity(each), marks, adopted, stack)],
        there,
        adopted,
    )
    downgraded = downgrades.refusals(installs, marks)
    if refusals := (*decided.refusals, *foreign, *downgraded, *endangered, *contested):
        raise Refused("\n".join(refusals))
    # The platform's stack tells which queues there are (trainstack/stacks/assemble.py).
    answered = {queue_unknown.rule.id} if settings.environment.platform is not None else set()
    return Program(
        cluster=here,
        state=state,
        declared=environment,
        decided=decided,
        recorded=tuple(recorded),
        departing=departing,
        taken=tuple(_with_fields_of_other_states(declared, there, state)),
        notes=(
            *(str(each) for each in findings if not each.silenced and each.id not in answered),
            *owners.notes,
            *decided.notes,
            *discarded,
            *overwritten,
            *ownership.taken_over(staying, marks, adopted, stack),
            *(
                f"{ownership.shown(ownership.identity(each))} is being deleted: what takes its place waits; if the "
                "state still holds it, `up --refresh` makes it anew once it is gone"
                for each in departing.values()
            ),
        ),
        verdicts=tuple(lines(checked.verdicts)),
    )


def _with_fields_of_other_states(
    manifests: Iterable[Mapping[str, Any]], live: Mapping[Identity, Mapping[str, Any]], state: OwnState
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    manager = field_manager(state.identity)
    for manifest in manifests:
        metadata = live.get(ownership.identity(manifest))
        if metadata is not None and managers.of_other_states(metadata, manager):
            yield manifest, metadata


def _declared(settings: Settings, root: Path) -> tuple[Declared, InputsError | ReleaseError | None]:
    """The environment, and why its inputs cannot be read. The rules have more to report than the first such error."""
    try:
        return Declared.from_files(settings, root, commit=commit(root)), None
    except (InputsError, ReleaseError) as error:
        return Declared(settings), error


def _ours_to_write(
    who: Identity, marks: Mapping[Identity, Mapping[str, str]], adopted: Collection[Identity], stack: str
) -> bool:
    """Whether this is a live object that the change may write to: this stack's, or one that it takes over."""
    return who in marks and (ownership.owner(marks[who]) == stack or who in adopted)


def commit(root: Path) -> str:
    """The commit that runs are recorded with, `-dirty` where files differ from it; empty outside of git."""
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
