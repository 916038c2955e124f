"""Images with a Dockerfile in this repository that the cluster's registry does not have, for `check` and `up`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import typer

from trainstack.cli.console import err, step
from trainstack.cli.local_registry import asking, local_registry
from trainstack.cli.session import Session
from trainstack.declared.declared import Declared
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.registry_access import RegistryAccess
from trainstack.dev.image_builds import require_local
from trainstack.live.registry import ImageMissingError, Registries
from trainstack.live.registry_credentials import RegistryError, read_credentials
from trainstack.live.snapshot import read_runs
from trainstack.preflight import silences
from trainstack.preflight.finding import Finding
from trainstack.preflight.live_context import UnservedImage
from trainstack.preflight.live_rules.registry import image_missing, image_violation
from trainstack.runs.errors import WorkloadError
from trainstack.runs.images.run_images import RunImage, run_images
from trainstack.settings.model import Settings

_AT_ONCE = 8
_TIMEOUT_SECONDS = 5.0
"""The nodes may reach a registry that this machine does not: then nothing is lost but this time."""


def unserved_images(session: Session) -> tuple[UnservedImage, ...]:
    """Those that the registry lacks, and those that it cannot be asked for."""
    try:
        images = run_images(session.settings, session.root, session.loaded.places)
    except WorkloadError:
        return ()  # A folder without a Dockerfile: other rules find it.
    pulled = {path for path, run in session.settings.trained() if run.image_pull_policy != "Never"}
    built_here = [image for image in images if len(image.folders) == 1 and pulled & {*image.paths}]
    if not built_here:
        return ()
    local = local_registry(session)
    with (
        step("asking the registry for the images that are built here", "1 s"),
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        answers = pool.map(lambda image: _unserved(session.settings, image, local), built_here)
        return tuple(answer for answer in answers if answer is not None)


def ensure_pushed(session: Session) -> None:
    """End the command where a run that is yet to be launched has an image that the registry lacks.

    A run that was launched already needs its image no more. A registry that cannot be asked stops nothing, and neither
    does a finding that the environment silences: its nodes may have a mirror.
    """
    unserved = unserved_images(session)
    launching = set(_launching(session)) if any(image.missing for image in unserved) else set()
    concerned = [image for image in unserved if not image.missing or launching & {*image.workloads}]
    silenced, places = session.settings.checks.silenced, session.loaded.places
    violations = [Finding.of(image_missing.rule, image_violation(image)) for image in concerned]
    found = silences.settled(violations, silenced, (), places)
    for finding in found:
        if not finding.silenced:
            err.print(str(finding), style="red" if finding.stops else "yellow")
    if any(finding.stops for finding in found):
        raise typer.Exit(1)


def _unserved(settings: Settings, image: RunImage, local: RegistryAccess | None) -> UnservedImage | None:
    command = f"trainstack image push {image.workloads[0]} -s {settings.stack}"
    if local is not None and not image.local:
        # The local cluster's registry stands in for the one in the name.
        command = f"trainstack cluster load {image.folder} --as {image.reference}"
    missing, reason = False, ""
    try:
        # The pods ask for the digest where one is pinned: the tag may be elsewhere by now, or gone.
        _registries(image, local).digest(settings.pinned(image.reference))
    except ImageMissingError:
        missing = True
    except (RegistryError, ClusterError) as error:
        reason = str(error)
    else:
        return None
    return UnservedImage(image.paths[0], image.workloads, image.reference, command, missing, reason)


def _registries(image: RunImage, local: RegistryAccess | None) -> Registries:
    """The registries that serve the cluster this image."""
    if image.local or local is not None:
        return asking(require_local(local))
    return Registries(read_credentials(), timeout_seconds=_TIMEOUT_SECONDS)


def _launching(session: Session) -> Iterator[str]:
    """The runs and sweeps that `up` would launch something of."""
    settings = session.settings
    ledgers = read_runs(settings).ledgers
    launched = {run_id for ledger in ledgers for run_id in (ledger.run_id, *ledger.trials)}
    declared = Declared.from_files(settings, session.root)
    for run in declared.runs:
        if run.launch.run_id not in launched:
            yield run.workload.name
    for sweep, trials in declared.trials.items():
        if any(trial.run_id not in launched for trial in trials):
            yield sweep
