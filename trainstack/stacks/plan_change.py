"""The decision about a change before the first resource is declared, from the files and the cluster. Writes nothing."""

import os
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.errors import RefusedError
from trainstack.guards import cluster_identity, definition_releases
from trainstack.guards import field_managers as managers
from trainstack.guards.other_states import OwnState
from trainstack.kueue.format import describe_release, verdict_lines
from trainstack.kueue.verdict import Verdict
from trainstack.live import kubeconfig
from trainstack.live.identity import read_cluster_identity
from trainstack.live.object_scopes import scope_refusals
from trainstack.live.releases import with_downloads
from trainstack.live.rights import missing_right_errors
from trainstack.live.snapshot import read_metadata, read_runs
from trainstack.objects import ownership
from trainstack.objects.labels import field_manager
from trainstack.platform.operators.release import ReleaseError
from trainstack.preflight import downgrades
from trainstack.preflight.file_checks import examine
from trainstack.preflight.finding import Finding
from trainstack.preflight.rules.references import queue_unknown
from trainstack.printable import clean
from trainstack.runs.recorded_launches import RecordedLaunch
from trainstack.settings.loading.load import LoadedEnvironment, load_with_places
from trainstack.settings.model import Settings
from trainstack.stack_objects.inputs import InputsError
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.stacks.live_guards import (
    check_data_loss,
    check_evictions,
    check_foreign_fields,
    check_other_states,
    deletion_refusals,
    drained_queue_notes,
    immutable_edit_refusals,
    missing_namespace_refusals,
    read_removed_objects,
    renamed_stack_refusal,
)
from trainstack.stacks.run_decision import RunDecision, decide_runs_and_sweeps


@dataclass(frozen=True)
class LoadedProgram:
    """A change that no guard refuses: everything that the program declares."""

    cluster: cluster_identity.ClusterIdentity
    state: OwnState
    """The engine's state of the stack."""
    stack_objects: StackObjects
    definitions: Mapping[str, definition_releases.Release]
    """The definitions by operator."""
    run_decision: RunDecision
    recorded_launches: tuple[RecordedLaunch, ...]
    """The launches in the engine's state."""
    replacements: Mapping[str, Mapping[str, Any]]
    """The manifests that replace a terminating object of the same name, by that object's UID."""
    takeovers: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...]
    """The manifests of live objects that have fields of other states, each with the live metadata."""
    notes: tuple[str, ...]
    admission_lines: tuple[str, ...]
    """The admission of the runs on an idle cluster with the quota of the files, below a line with Kueue's release;
    empty without queued runs."""

    @property
    def settings(self) -> Settings:
        return self.stack_objects.settings


@dataclass(frozen=True)
class CheckedFiles:
    """The files of an environment in which the rules found no error."""

    loaded: LoadedEnvironment
    stack_objects: StackObjects
    findings: tuple[Finding, ...]
    admission_lines: tuple[str, ...]
    """As in `LoadedProgram`."""


def check_files(root: Path, stack: str, engine_values: Mapping[str, str] | None) -> CheckedFiles:
    """Load and check the files.

    `engine_values` are the sections in the engine's configuration, which override the file; None outside of the engine.

    Raises RefusedError because of a rule or an unintended kubeconfig, and SettingsError, ReleaseError, InputsError,
    WorkloadError or OperatorError if files are not valid.
    """
    loaded = load_with_places(root, stack, engine_values)
    settings = loaded.settings
    stack_objects, input_error = _build_stack_objects(settings, root)
    examination = examine(stack_objects, root, loaded.places)
    _refuse(str(finding) for finding in examination.findings if finding.is_blocking)
    if input_error is not None:
        raise input_error
    _refuse(
        [
            _local_kubeconfig_refusal(root, stack)
            if settings.cluster.local
            else kubeconfig.unintended_local_cluster_error(settings)
        ]
    )
    return CheckedFiles(
        loaded, stack_objects, tuple(examination.findings), tuple(admission_lines(examination.verdicts))
    )


def admission_lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield a line with the release of Kueue, then one per distinct verdict; nothing without verdicts."""
    if verdicts:
        yield f"admission of the runs on an idle cluster, for {describe_release(verdicts)}:"
        yield from verdict_lines(verdicts)


def plan_change(
    files: CheckedFiles, state: OwnState, recorded_launches: Sequence[RecordedLaunch] = ()
) -> LoadedProgram:
    """Decide about the change from the files and the live cluster.

    `recorded_launches` are the launches in the engine's state.

    Raises RefusedError, WorkloadError if a run cannot be launched, and ClusterError if the cluster cannot be read.
    """
    loaded, stack_objects, findings = files.loaded, files.stack_objects, files.findings
    settings, stack = loaded.settings, loaded.settings.stack
    # A wrong cluster, or a stack of another name, would make every later refusal misleading.
    cluster, identity_place = read_cluster_identity(settings), loaded.place_of("cluster.identity")
    _refuse([cluster_identity.unexpected_cluster_refusal(cluster, stack, settings.cluster.identity, identity_place)])
    _refuse([renamed_stack_refusal(settings, state)])
    live_runs = read_runs(settings, recorded_launches)
    refused_evictions, evicted_names = check_evictions(settings, recorded_launches)
    run_decision = decide_runs_and_sweeps(stack_objects, live_runs, evicted_names)
    all_manifests = stack_objects.manifests(run_decision.groups)
    if settings.environment.profile == "tenant":
        _refuse(missing_right_errors(all_manifests, settings.cluster.context))
    # A generated name does not exist yet.
    manifests_by_identity = {
        ownership.identity(manifest): manifest for manifest in all_manifests if "name" in manifest["metadata"]
    }
    named_manifests = [*manifests_by_identity.values()]
    # In a namespace that does not exist, a deployer has no role, and the reads below would fail.
    _refuse(missing_namespace_refusals(settings, named_manifests))
    _refuse(scope_refusals(stack_objects.other_manifests, settings.cluster.context))
    # The role of an owner's deployer allows to list every declared kind but Secrets.
    stack_to_list = stack if settings.environment.profile == "owner" else None
    live_metadata = read_metadata(named_manifests, settings.cluster.context, stack_to_list=stack_to_list)
    adopted_objects = ownership.adopted_identities(settings)
    removed_metadata = read_removed_objects(state, manifests_by_identity, settings.cluster.context)
    observed_metadata = {**live_runs.metadata, **removed_metadata, **live_metadata}
    other_states = check_other_states(
        settings, state, observed_metadata, adopted_objects, stack_objects.retained_objects
    )
    _refuse([other_states.refusal])
    # A terminating object cannot be edited: its manifest is created once the object is gone.
    terminating_uids = {
        identity: manifest["uid"] for identity, manifest in live_metadata.items() if "deletionTimestamp" in manifest
    }
    lasting_manifests = {
        identity: manifest for identity, manifest in manifests_by_identity.items() if identity not in terminating_uids
    }
    replacements = {
        terminating_uids[identity]: manifest
        for identity, manifest in manifests_by_identity.items()
        if identity in terminating_uids
    }
    live_labels = {identity: metadata.get("labels") or {} for identity, metadata in live_metadata.items()}
    # `run_decision.refusals` covers launches without labels, so they must not be refused twice.
    labeled_manifests = [
        manifest
        for identity, manifest in manifests_by_identity.items()
        if identity not in run_decision.unlabeled_launches
    ]
    refused_foreign_objects = ownership.refusals(labeled_manifests, live_labels, adopted_objects, stack)
    refused_volumes, volume_notes = check_data_loss(settings, state, loaded.places)
    refused_deletions = deletion_refusals(
        settings,
        state,
        removed_metadata,
        manifests_by_identity,
        run_decision.active_launches(live_runs.live),
        recorded_launches,
    )
    # Only fields of objects that this change writes can conflict.
    writable_objects = {
        identity
        for identity in live_labels
        if ownership.owning_stack(live_labels[identity]) == stack or identity in adopted_objects
    }
    written_manifests = [manifest for identity, manifest in lasting_manifests.items() if identity in writable_objects]
    refused_fields, field_notes = check_foreign_fields(settings, written_manifests, live_metadata, adopted_objects)
    refused_edits = immutable_edit_refusals(
        stack_objects, state, {*map(ownership.identity, written_manifests)} & live_metadata.keys(), loaded.places
    )
    refused_downgrades = downgrades.refusals(stack_objects.operators, live_labels)
    # All refusals at once, so that the user can resolve them with one edit of the files.
    _refuse(
        (
            *run_decision.refusals,
            *refused_foreign_objects,
            *refused_downgrades,
            *refused_deletions,
            *refused_evictions,
            *refused_volumes,
            *refused_edits,
            *refused_fields,
        )
    )
    releases = definition_releases.plan_releases(stack_objects, live_metadata, state.revisions, state.identity)
    return LoadedProgram(
        cluster=cluster,
        state=state,
        stack_objects=stack_objects,
        definitions=releases,
        run_decision=run_decision,
        recorded_launches=tuple(recorded_launches),
        replacements=replacements,
        takeovers=tuple(_takeovers(manifests_by_identity, live_metadata, state)),
        notes=(
            *_finding_notes(findings, settings),
            *other_states.notes,
            *run_decision.notes,
            *volume_notes,
            *field_notes,
            *definition_releases.drift_notes(releases, live_metadata, state.revisions),
            *drained_queue_notes(live_metadata),
            *ownership.adoption_notes(lasting_manifests.values(), live_labels, adopted_objects, stack),
            *map(_replacement_note, replacements.values()),
        ),
        admission_lines=files.admission_lines,
    )


def _takeovers(
    manifests_by_identity: Mapping[ownership.Identity, Mapping[str, Any]],
    live_metadata: Mapping[ownership.Identity, Mapping[str, Any]],
    state: OwnState,
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    manager = field_manager(state.identity)
    for identity, manifest in manifests_by_identity.items():
        if identity in live_metadata and managers.has_fields_of_other_states(live_metadata[identity], manager):
            yield manifest, live_metadata[identity]


def _finding_notes(findings: Iterable[Finding], settings: Settings) -> Iterator[str]:
    # The program checks queues against the outputs of the platform's stack (trainstack/stacks/assemble.py).
    ids_checked_later = {queue_unknown.rule.id} if settings.environment.platform is not None else set()
    for finding in findings:
        if not finding.silence_reason and finding.id not in ids_checked_later:
            yield str(finding)


def _replacement_note(manifest: Mapping[str, Any]) -> str:
    return (
        f"{ownership.format_identity(ownership.identity(manifest))} is being deleted; its replacement is created "
        "afterwards. If the engine's state still has the object, run `up --refresh` after its deletion"
    )


def _refuse(reasons: Iterable[str | None]) -> None:
    """Raise RefusedError with the reasons, if there are any."""
    if message := "\n".join(filter(None, reasons)):
        raise RefusedError(message)


def _local_kubeconfig_refusal(root: Path, stack: str) -> str:
    """Return a refusal if KUBECONFIG is not set: the engine's provider, another process, would use another cluster."""
    if os.environ.get(kubeconfig.KUBECONFIG_VARIABLE):
        return ""
    export = f"export {kubeconfig.KUBECONFIG_VARIABLE}={shlex.quote(str(root / kubeconfig.LOCAL_CLUSTER_FILE))}"
    return (
        f"stack {stack!r} uses the local cluster (`cluster.local`), and {kubeconfig.KUBECONFIG_VARIABLE} is not "
        f'set; run `eval "$(trainstack env -s {stack})"`, or {export}'
    )


def _build_stack_objects(settings: Settings, root: Path) -> tuple[StackObjects, InputsError | ReleaseError | None]:
    # The error is returned, because the rules report more than the first error of the inputs.
    try:
        return StackObjects.from_files(with_downloads(settings, _log_line), root, commit=commit(root)), None
    except (InputsError, ReleaseError) as error:
        return StackObjects(settings), error


def _log_line(line: str) -> None:
    import pulumi  # noqa: PLC0415 (slow to load, and commands use other parts of this module)

    pulumi.log.info(clean(line))


def commit(root: Path) -> str:
    """Return the commit that ledgers record, with `-dirty` if files differ from it; empty outside of git."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout.strip()
    except OSError:
        return ""
