"""Images of runs that their registries lack or refuse, for `check --cluster` and `up`."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import typer

from trainstack.cli.local_registry import local_registry, registry_client
from trainstack.cli.output.console import err, step
from trainstack.cli.session import Session
from trainstack.errors import ExitCode
from trainstack.images.builds import require_local_registry
from trainstack.live.registry import Registries
from trainstack.live.registry_credentials import RegistryCredentials, user_credentials
from trainstack.live.registry_errors import AccessDeniedError, ImageMissingError, NoAddressError, RegistryError
from trainstack.live.snapshot import read_runs
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.registry_access import RegistryAccess
from trainstack.preflight import silences
from trainstack.preflight.finding import Finding
from trainstack.preflight.live_context import ImageProblem, ImageUser, UnreadImage, UnservedImage
from trainstack.preflight.live_rules.image_registries import (
    host_violation,
    image_missing,
    image_violation,
    registry_unreachable,
)
from trainstack.preflight.rules.images import has_image_user
from trainstack.runs.errors import WorkloadError
from trainstack.runs.images.run_images import RunImage, run_images
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.stack_objects.stack_objects import StackObjects

_WORKERS = 8
_TIMEOUT_SECONDS = 5.0
"""Short, since a registry may be reachable only from the nodes."""
_PROBLEMS: Mapping[type[RegistryError], ImageProblem] = {
    NoAddressError: "unreachable",
    ImageMissingError: "missing",
    AccessDeniedError: "denied",
}


def images_of_runs(session: Session) -> list[RunImage]:
    """Return the images of all runs; none if a folder has no Dockerfile, which other rules report."""
    try:
        return run_images(session.settings, session.root, session.loaded.places)
    except WorkloadError:
        return []


def unserved_images(
    session: Session, images: Sequence[RunImage], registry_access: RegistryAccess | None
) -> tuple[UnservedImage, ...]:
    """Return the images with a Dockerfile here that their registry lacks, or whose registry cannot be read.

    `registry_access`: the registry of the local cluster, if the kubeconfig refers to it.
    """
    pulled_paths = {path for path, run in session.settings.runs_and_trials() if run.image_pull_policy != "Never"}
    buildable_images = [image for image in images if len(image.folders) == 1 and pulled_paths & {*image.paths}]
    if not buildable_images:
        return ()
    with step("looking for the workloads' images in their registries", "1 s"), ThreadPoolExecutor(_WORKERS) as pool:
        unserved = pool.map(lambda image: _find_unserved(session.settings, image, registry_access), buildable_images)
        return tuple(image for image in unserved if image is not None)


@dataclass(frozen=True)
class _NamedImage:
    path: str
    reference: str
    has_pull_secret: bool


def unread_images(
    session: Session, images: Sequence[RunImage], registry_access: RegistryAccess | None
) -> tuple[UnreadImage, ...]:
    """Request each image without credentials, as a node without a pull secret does, and return those that fail.

    Images with a Dockerfile in this repository are left to `unserved_images`. The local cluster's own registry serves
    all images, and `up` pushes them there.
    """
    named_images = [] if registry_access is not None else list(_named_images(session, images))
    if not named_images:
        return ()
    registries = Registries(RegistryCredentials(), timeout_seconds=_TIMEOUT_SECONDS)

    def find_unread(image: _NamedImage) -> UnreadImage | None:
        try:
            registries.digest(session.settings.pinned_reference(image.reference))
        except RegistryError as error:
            problem = _PROBLEMS.get(type(error), "unknown")
            return UnreadImage(image.path, image.reference, problem, str(error), has_pull_secret=image.has_pull_secret)
        return None

    with step("looking for images in their registries", "1 s"), ThreadPoolExecutor(_WORKERS) as pool:
        return tuple(unread_image for unread_image in pool.map(find_unread, named_images) if unread_image is not None)


def _named_images(session: Session, images: Sequence[RunImage]) -> Iterator[_NamedImage]:
    settings, runs = session.settings, dict(session.settings.runs_and_trials())
    for image in images:
        path = image.paths[0]
        if not image.folders and runs[path].image_pull_policy != "Never":
            yield _NamedImage(f"{path}.image.name", image.reference, bool(runs[path].image_pull_secrets))
    loader = settings.cluster.loader
    if settings.volume_namespaces and loader.image not in {image.reference for image in images}:
        yield _NamedImage("cluster.loader.image", loader.image, bool(loader.image_pull_secrets))


def read_image_users(
    session: Session, images: Sequence[RunImage], registry_access: RegistryAccess | None
) -> tuple[ImageUser, ...]:
    """Return the users of the images of runs that `image-user` examines, as far as their registries serve them.

    Images with a Dockerfile in this repository are left to the rule's check of files.
    """
    runs = dict(session.settings.runs_and_trials())
    paths_by_reference = {
        image.reference: [path for path in image.paths if has_image_user(runs[path])]
        for image in images
        if registry_access is None and not image.folders
    }
    examined = {reference: paths for reference, paths in paths_by_reference.items() if paths}
    if not examined:
        return ()
    registries = Registries(RegistryCredentials(), timeout_seconds=_TIMEOUT_SECONDS)

    def read_user(reference: str) -> str | None:
        try:
            return registries.user(session.settings.pinned_reference(reference))
        except RegistryError:
            return None  # `image-missing` reports it.

    with step("reading the images' users from their registries", "1 s"), ThreadPoolExecutor(_WORKERS) as pool:
        users = dict(zip(examined, pool.map(read_user, examined), strict=True))
    return tuple(
        ImageUser(f"{path}.image.name", reference, user)
        for reference, user in users.items()
        if user is not None
        for path in examined[reference]
    )


def ensure_images_pushed(session: Session) -> None:
    """Exit if the registry of a run that `up` would launch lacks its image, or has no address.

    Unreadable registries and silenced findings are not errors: the nodes may have a mirror.
    """
    problems = unserved_images(session, images_of_runs(session), local_registry(session))
    absent_images = [image for image in problems if image.is_missing or image.host_path]
    launching_workloads = set(_workloads_to_launch(session)) if absent_images else set()
    concerned_images = [
        image for image in problems if image not in absent_images or launching_workloads & {*image.workloads}
    ]
    silenced_checks, places = session.settings.checks.silenced, session.loaded.places
    findings = [
        Finding.from_violation(registry_unreachable.rule, host_violation(image))
        if image.host_path
        else Finding.from_violation(image_missing.rule, image_violation(image))
        for image in concerned_images
    ]
    settled_findings = silences.finalize_findings(findings, silenced_checks, (), places)
    for finding in settled_findings:
        if not finding.silence_reason:
            err.print(str(finding), style="red" if finding.is_blocking else "yellow")
    stopping_ids = {finding.id for finding in settled_findings if finding.is_blocking}
    if stopping_ids:
        raise typer.Exit(ExitCode.FINDINGS if registry_unreachable.rule.id in stopping_ids else ExitCode.REFUSED)


def _find_unserved(settings: Settings, image: RunImage, registry_access: RegistryAccess | None) -> UnservedImage | None:
    command = f"trainstack image push {image.workloads[0]} -s {settings.stack}"
    if registry_access is not None and not image.is_local:
        # The local cluster's registry serves the images of all registries.
        command = f"trainstack cluster load {image.folder} --as {image.reference}"
    missing, reason, host_path = False, "", ""
    try:
        # Pods pull a pinned digest; the tag may have been moved or deleted.
        _registries(image, registry_access).digest(settings.pinned_reference(image.reference))
    except ImageMissingError:
        missing = True
    except NoAddressError as error:
        reason = str(error)
        host_path = "cluster.registry" if image.has_content_tag else f"{image.paths[0]}.image.name"
    except (RegistryError, LocalClusterError) as error:
        reason = str(error)
    else:
        return None
    return UnservedImage(image.paths[0], image.workloads, image.reference, command, missing, reason, host_path)


def _registries(image: RunImage, registry_access: RegistryAccess | None) -> Registries:
    if image.is_local or registry_access is not None:
        return registry_client(require_local_registry(registry_access))
    return Registries(user_credentials(), timeout_seconds=_TIMEOUT_SECONDS)


def _workloads_to_launch(session: Session) -> Iterator[str]:
    settings = session.settings
    ledgers = read_runs(settings).ledgers
    launched_run_ids = {run_id for ledger in ledgers for run_id in (ledger.run_id, *ledger.trials)}
    # Launches do not depend on operators.
    stack_objects = StackObjects.from_files(settings.model_copy(update={"operators": Operators()}), session.root)
    for run in stack_objects.runs:
        if run.launch.run_id not in launched_run_ids:
            yield run.workload.name
    for sweep, trials in stack_objects.trials.items():
        if not trials.keys() <= launched_run_ids:
            yield sweep
