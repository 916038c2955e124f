"""Images by name that cannot be read from their registries, for `check --cluster`."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from trainstack.cli.console import step
from trainstack.cli.session import Session
from trainstack.cli.unserved_images import TIMEOUT_SECONDS, WORKERS
from trainstack.dev.cluster.registry_access import RegistryAccess
from trainstack.live.registry import AccessDeniedError, ImageMissingError, NoAddressError, Registries
from trainstack.live.registry_credentials import RegistryError
from trainstack.preflight.live_context import Problem, UnreadImage
from trainstack.runs.images.run_images import RunImage

_PROBLEMS: Mapping[type[RegistryError], Problem] = {
    NoAddressError: "unreachable",
    ImageMissingError: "missing",
    AccessDeniedError: "denied",
}


@dataclass(frozen=True)
class _Named:
    path: str
    reference: str
    has_pull_secret: bool


def unread_images(
    session: Session, of_runs: Sequence[RunImage], local: RegistryAccess | None
) -> tuple[UnreadImage, ...]:
    """Request each image without credentials, as a node without a pull secret does, and return those that fail.

    Images with a Dockerfile in this repository are left to `unserved_images`. The local cluster's own registry serves
    all images, and `up` pushes them there.
    """
    images = [] if local is not None else list(_named(session, of_runs))
    if not images:
        return ()
    registries = Registries({}, timeout_seconds=TIMEOUT_SECONDS)

    def unread(image: _Named) -> UnreadImage | None:
        try:
            registries.digest(session.settings.pinned(image.reference))
        except RegistryError as error:
            problem = _PROBLEMS.get(type(error), "unknown")
            return UnreadImage(image.path, image.reference, problem, str(error), has_pull_secret=image.has_pull_secret)
        return None

    with step("looking for images in their registries", "1 s"), ThreadPoolExecutor(WORKERS) as pool:
        return tuple(found for found in pool.map(unread, images) if found is not None)


def _named(session: Session, images: Sequence[RunImage]) -> Iterator[_Named]:
    settings, runs = session.settings, dict(session.settings.trained())
    for image in images:
        path = image.paths[0]
        if not image.folders and runs[path].image_pull_policy != "Never":
            yield _Named(f"{path}.image.name", image.reference, bool(runs[path].image_pull_secrets))
    loader = settings.cluster.loader
    if settings.storage.volumes and loader.image not in {image.reference for image in images}:
        yield _Named("cluster.loader.image", loader.image, bool(loader.image_pull_secrets))
