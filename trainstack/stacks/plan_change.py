"""The decision about a change, before the first resource is declared: reads files and the cluster, writes nothing."""

import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.declared.declared import Declared
from trainstack.declared.inputs import InputsError
from trainstack.errors import RefusedError
from trainstack.guards import cluster_identity as identity
from trainstack.guards import definitions
from trainstack.guards import field_managers as managers
from trainstack.guards.states import OwnState
from trainstack.kueue.format import lines
from trainstack.live import kubeconfig
from trainstack.live.identity import read_cluster
from trainstack.live.releases import with_downloads
from trainstack.live.rights import lacking
from trainstack.live.snapshot import read_metadata, read_runs
from trainstack.objects import ownership
from trainstack.objects.labels import field_manager
from trainstack.platform.operators.release import ReleaseError
from trainstack.preflight import downgrades
from trainstack.preflight.finding import Finding
from trainstack.preflight.preflight import examine
from trainstack.preflight.rules.references import queue_unknown
from trainstack.printable import clean
from trainstack.runs.recorded import RecordedLaunch
from trainstack.settings.loading.load import Loaded, load_with_places
from trainstack.settings.model import Settings
from trainstack.stacks.guards import (
    deletion_refusals,
    drained_queues,
    evictions,
    fields_of_others,
    immutable_edits,
    namespaces_to_prepare,
    objects_of_other_states,
    read_removed,
    renamed_stack,
    volumes_with_data,
)
from trainstack.stacks.run_decision import RunDecision, runs_and_sweeps


@dataclass(frozen=True)
class Program:
    cluster: identity.Cluster
    state: OwnState
    """The engine's state of the stack."""
    declared: Declared
    definitions: Mapping[str, definitions.Release]
    """The definitions by operator."""
    decided: RunDecision
    recorded: tuple[RecordedLaunch, ...]
    """The launches in the engine's state."""
    replacements: Mapping[str, Mapping[str, Any]]
    """Manifests waiting for a terminating object of the same name, by that object's UID."""
    taken: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...]
    """The manifests of live objects with fields of other states, and the live metadata."""
    notes: tuple[str, ...]
    verdicts: tuple[str, ...]
    """The admission of the runs on an idle cluster with the quota of the files."""

    @property
    def settings(self) -> Settings:
        return self.declared.settings


@dataclass(frozen=True)
class CheckedFiles:
    """The files of an environment, in which the rules found no error."""

    loaded: Loaded
    declared: Declared
    findings: tuple[Finding, ...]
    verdicts: tuple[str, ...]
    """As in `Program`."""


def check_files(root: Path, stack: str, engine: Mapping[str, str] | None) -> CheckedFiles:
    """Load and check the files.

    Raises RefusedError because of a rule or of an unintended kubeconfig; and SettingsError, ReleaseError, InputsError,
    WorkloadError or OperatorError if files are not valid.
    """
    loaded = load_with_places(root, stack, engine)
    settings = loaded.settings
    environment, unread = _declared(settings, root)
    checked = examine(environment, root, loaded.places)
    _refuse(str(finding) for finding in checked.findings if finding.stops)
    if unread is not None:
        raise unread
    _refuse([_local_kubeconfig(root, stack) if settings.cluster.local else kubeconfig.unintended(settings)])
    return CheckedFiles(loaded, environment, tuple(checked.findings), tuple(lines(checked.verdicts)))


def decide(files: CheckedFiles, state: OwnState, recorded: Sequence[RecordedLaunch] = ()) -> Program:
    """Read the cluster, and decide. `recorded` are the launches in the engine's state.

    Raises RefusedError, WorkloadError if a run cannot be launched, and ClusterError if the cluster cannot be read.
    """
    loaded, environment, findings = files.loaded, files.declared, files.findings
    settings, stack = loaded.settings, loaded.settings.stack
    cluster, where = read_cluster(settings), loaded.where("cluster.identity")
    _refuse([identity.unexpected(cluster, stack, settings.cluster.identity, where)])
    _refuse([renamed_stack(settings, state)])
    runs = read_runs(settings, recorded)
    evicting, evicted = evictions(settings, recorded)
    decided = runs_and_sweeps(environment, runs, evicted)
    everything = environment.manifests(decided.groups)
    if settings.environment.profile == "tenant":
        _refuse(lacking(everything, settings.cluster.context))
    # A generated name does not exist yet.
    declared = {ownership.identity(manifest): manifest for manifest in everything if "name" in manifest["metadata"]}
    manifests = [*declared.values()]
    _refuse(namespaces_to_prepare(settings, manifests))
    # The role of an owner's deployer allows to list every declared kind but Secrets.
    listed = stack if settings.environment.profile == "owner" else None
    live = read_metadata(manifests, settings.cluster.context, listed_of=listed)
    adopted = ownership.adoptions(settings)
    removed = read_removed(state, declared, settings.cluster.context)
    known = {**runs.metadata, **removed, **live}
    owners = objects_of_other_states(settings, state, known, adopted, environment.retained)
    _refuse([owners.refusal])
    terminating = {who: metadata["uid"] for who, metadata in live.items() if "deletionTimestamp" in metadata}
    lasting = {who: manifest for who, manifest in declared.items() if who not in terminating}
    replacements = {terminating[who]: manifest for who, manifest in declared.items() if who in terminating}
    labels = {who: metadata.get("labels") or {} for who, metadata in live.items()}
    # The decision refuses launches without labels itself.
    labelled = [manifest for who, manifest in declared.items() if who not in decided.unlabelled]
    foreign = ownership.refusals(labelled, labels, adopted, stack)
    endangered, discarded = volumes_with_data(settings, state, loaded.places)
    deleting = deletion_refusals(settings, state, removed, declared, decided.active(runs.live), recorded)
    writable = {who for who in labels if ownership.owner(labels[who]) == stack or who in adopted}
    written = [manifest for who, manifest in lasting.items() if who in writable]
    contested, overwritten = fields_of_others(settings, written, live, adopted)
    immutable = immutable_edits(environment, state, {*map(ownership.identity, written)} & live.keys(), loaded.places)
    downgraded = downgrades.refusals(environment.operators, labels)
    _refuse((*decided.refusals, *foreign, *downgraded, *deleting, *evicting, *endangered, *immutable, *contested))
    releases = definitions.planned(environment, live, state.revisions, state.identity)
    # The program checks queues against the outputs of the platform's stack (trainstack/stacks/assemble.py).
    answered = {queue_unknown.rule.id} if settings.environment.platform is not None else set()
    return Program(
        cluster=cluster,
        state=state,
        declared=environment,
        definitions=releases,
        decided=decided,
        recorded=tuple(recorded),
        replacements=replacements,
        taken=tuple(
            (manifest, live[who])
            for who, manifest in declared.items()
            if who in live and managers.of_other_states(live[who], field_manager(state.identity))
        ),
        notes=(
            *(str(finding) for finding in findings if not finding.silenced and finding.id not in answered),
            *owners.notes,
            *decided.notes,
            *discarded,
            *overwritten,
            *definitions.moved(state),
            *definitions.drifted(releases, live, state.revisions),
            *drained_queues(live),
            *ownership.taken_over(lasting.values(), labels, adopted, stack),
            *(
                f"{ownership.shown(ownership.identity(manifest))} is being deleted; its replacement is created "
                "afterwards. If the engine's state still has the object, run `up --refresh` after its deletion"
                for manifest in replacements.values()
            ),
        ),
        verdicts=files.verdicts,
    )


def _refuse(reasons: Iterable[str | None]) -> None:
    """Raise RefusedError with the reasons, if there are any."""
    if message := "\n".join(filter(None, reasons)):
        raise RefusedError(message)


def _local_kubeconfig(root: Path, stack: str) -> str:
    """Return an error if KUBECONFIG is not set: the engine's provider, another process, would use another cluster."""
    if os.environ.get(kubeconfig.VARIABLE):
        return ""
    export = f"export {kubeconfig.VARIABLE}={shlex.quote(str(root / kubeconfig.LOCAL))}"
    return (
        f"stack {stack!r} uses the local cluster (`cluster.local`), and {kubeconfig.VARIABLE} is not "
        f'set; run `eval "$(trainstack env -s {stack})"`, or {export}'
    )


def _declared(settings: Settings, root: Path) -> tuple[Declared, InputsError | ReleaseError | None]:
    # The rules report more than the first error of the inputs.
    try:
        return Declared.from_files(with_downloads(settings, _report), root, commit=commit(root)), None
    except (InputsError, ReleaseError) as error:
        return Declared(settings), error


def _report(line: str) -> None:
    import pulumi  # noqa: PLC0415 (slow to load, and commands use other parts of this module)

    pulumi.log.info(clean(line))


def commit(root: Path) -> str:
    """Return the commit that runs are recorded with, `-dirty` if files differ from it; empty outside of git."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout.strip()
    except OSError:
        return ""
