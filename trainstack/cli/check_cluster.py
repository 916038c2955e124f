"""`trainstack check --cluster`: checks of an environment against its cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainstack.cli.kueue_judge import kueue_judge
from trainstack.cli.local_registry import local_registry
from trainstack.cli.output.console import step
from trainstack.cli.session import Session
from trainstack.cli.unserved_images import images_of_runs, read_image_users, unread_images, unserved_images
from trainstack.live.client import ClusterError
from trainstack.live.environment import read_environment
from trainstack.live.worker_needs import read_worker_clusters
from trainstack.objects.labels import LAUNCH, OBJECT, QUEUE, RUN, SWEEP, WORKLOAD, Manifest
from trainstack.platform import probes
from trainstack.preflight import cluster_checks
from trainstack.preflight.cluster_checks import CLUSTER_UNREACHABLE, MANIFESTS_UNBUILT
from trainstack.preflight.finding import CheckResult, Finding
from trainstack.preflight.live_context import LiveContext, is_operator_declared
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.preflight.rule import Violation
from trainstack.preflight.worker_needs import Need, launch_needs
from trainstack.runs.manifests.build import is_dispatched
from trainstack.runs.manifests.trainjob import uses_cluster_runtime
from trainstack.runs.status.launch_kinds import KINDS
from trainstack.settings.loading.load import LoadedEnvironment
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.stack_objects.inputs import BUILD_ERRORS
from trainstack.stack_objects.stack_objects import StackObjects


def add_cluster_findings(checked_files: CheckResult, session: Session, loaded: LoadedEnvironment) -> CheckResult:
    """Add the findings on the cluster; an error if the cluster cannot be read."""
    try:
        checked_cluster = _check_cluster(session, loaded, checked_files.findings)
    except ClusterError as error:
        message, _, remedy = str(error).partition("; ")
        path = "cluster" if loaded.settings.cluster.context is None else "cluster.context"
        unreachable = Finding.from_violation(
            CLUSTER_UNREACHABLE, Violation(path, message, remedy), loaded.place_of(path)
        )
        return CheckResult([*checked_files.findings, unreachable], checked_files.verdicts)
    # The cluster has answered what is unknown from the files.
    findings_in_files = [finding for finding in checked_files.findings if finding.severity != "unknown"]
    findings = sorted({*findings_in_files, *checked_cluster.findings}, key=lambda finding: finding.sort_key)
    return CheckResult(findings, checked_cluster.verdicts)


_DRY_RUN_KINDS = {*KINDS, "TrainingRuntime"}
"""Kinds that are sent as a dry run."""
_REMEDY = "fix this, then run the check again"


def _check_cluster(session: Session, loaded: LoadedEnvironment, file_findings: Sequence[Finding]) -> CheckResult:
    settings = loaded.settings
    manifests, unbuilt_findings = _buildable_manifests(session.root, settings)
    paths = {run.name: path for path, run in settings.runs_and_trials()}
    # Whether an object is accepted is decided by the API server and its admission webhooks.
    dry_runs = [
        (paths[manifest["metadata"]["labels"][WORKLOAD]], manifest) for manifest in _manifests_to_dry_run(manifests)
    ]
    if settings.environment.profile == "owner":
        dry_runs += [
            (OPERATORS[name].path, probe(session.stack))
            for name, probe in probes.BY_OPERATOR.items()
            if is_operator_declared(settings, name)
        ]
    needs_by_run = dict(_worker_needs(settings, paths, manifests))
    with step("reading the cluster", "2 s"):
        live = read_environment(settings, dry_runs)
        worker_clusters = read_worker_clusters(settings, needs_by_run)
    launch_names = {
        (metadata["namespace"], name)
        for metadata in (manifest["metadata"] for manifest in manifests)
        if LAUNCH in metadata["labels"]
        for name in (metadata["labels"][RUN], metadata.get("name"))
        if name is not None
    }
    images, registry_access = images_of_runs(session), local_registry(session)
    unread = unread_images(session, images, registry_access)
    unread_references = {image.reference for image in unread}
    served_images = [image for image in images if image.reference not in unread_references]
    live = replace(
        live,
        worker_needs=needs_by_run,
        workers=worker_clusters,
        unserved_images=unserved_images(session, images, registry_access),
        named_images=unread,
        image_users=read_image_users(session, served_images, registry_access),
    )
    stack_objects = StackObjects(settings, runtimes=live.countable_runtimes)
    context = LiveContext(stack_objects, live, _operator_images(manifests), launch_names, kueue_judge)
    checked = cluster_checks.examine(context, loaded.places, file_findings)
    located_findings = [replace(finding, where=loaded.place_of(finding.path)) for finding in unbuilt_findings]
    return CheckResult([*located_findings, *checked.findings], checked.verdicts)


def _manifests_to_dry_run(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    """Yield the launches; of a sweep, whose trials differ only in arguments, the first one."""
    included_sweeps = set()
    for manifest in manifests:
        labels = manifest["metadata"]["labels"]
        is_object = OBJECT in manifest["metadata"].get("annotations", {})
        is_launch = (manifest["kind"] in _DRY_RUN_KINDS or is_object) and not _lacks_runtime(manifest)
        if is_launch and RUN in labels and labels.get(SWEEP) not in included_sweeps:
            included_sweeps |= {labels[SWEEP]} if SWEEP in labels else set()
            yield manifest


def _lacks_runtime(manifest: Manifest) -> bool:
    """Return whether a TrainJob is refused until `up` creates its runtime, which is sent as a dry run instead."""
    return manifest["kind"] == "TrainJob" and not uses_cluster_runtime(manifest)


def _worker_needs(
    settings: Settings, paths: Mapping[str, str], manifests: Sequence[Manifest]
) -> Iterator[tuple[str, Mapping[str, tuple[Need, ...]]]]:
    """Yield the path of each dispatched run, with what it needs in each worker cluster."""
    for manifest in _manifests_to_dry_run(manifests):
        metadata = manifest["metadata"]
        if is_dispatched(manifest):
            clusters = settings.queues.worker_clusters(metadata["namespace"], metadata["labels"][QUEUE])
            yield paths[metadata["labels"][WORKLOAD]], dict.fromkeys(clusters, launch_needs(manifest))


def build_manifests(root: Path, settings: Settings) -> list[Manifest]:
    """Return the objects that an environment declares. Raises one of `FAULTS` if the files do not suffice."""
    return StackObjects.from_files(settings, root).manifests()


def _buildable_manifests(root: Path, settings: Settings) -> tuple[list[Manifest], list[Finding]]:
    try:
        return build_manifests(root, settings), []
    except BUILD_ERRORS as error:
        message = f"the objects of the operators' releases were not checked: {error}"
        unbuilt_releases = Finding.from_violation(
            MANIFESTS_UNBUILT, Violation("operators", message, _REMEDY, "unknown")
        )
    try:
        return build_manifests(root, settings.model_copy(update={"operators": Operators()})), [unbuilt_releases]
    except BUILD_ERRORS as error:
        message = f"the launches of the runs were not checked: {error}"
        return [], [Finding.from_violation(MANIFESTS_UNBUILT, Violation("workloads", message, _REMEDY))]


def _operator_images(manifests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    images = {}
    for name, facts in OPERATORS.items():
        for manifest in manifests:
            if manifest["kind"] == "Deployment" and manifest["metadata"]["name"] in facts.names:
                containers = manifest["spec"]["template"]["spec"]["containers"]
                container_names = ("manager", manifest["metadata"]["name"])
                images[name] = next(
                    (container for container in containers if container["name"] in container_names), containers[0]
                )["image"]
    return images
