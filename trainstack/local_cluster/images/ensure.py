"""The images that a registry must have: missing ones are built and pushed."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from trainstack.local_cluster.images import base_image, oci_layout
from trainstack.local_cluster.images.recipe import Recipe, build_recipe
from trainstack.local_cluster.images.registry import Registry
from trainstack.local_cluster.images.storage import ImageStorage, Report
from trainstack.local_cluster.registry_access import RegistryAccess
from trainstack.runs.images.content_tags import base_reference

COMPRESSION_SECONDS = 10
"""Duration for an image with PyTorch, on 2 cores."""


def ensure_images(
    recipes: Sequence[Recipe], registry: RegistryAccess, report: Report, storage: ImageStorage | None = None
) -> list[str]:
    """Build missing images, and push what the registry lacks; return the images' names, in order.

    If nothing is missing, a call takes less than 2 s. After an interruption, another call continues. A second process
    waits for the first.
    """
    storage = storage or ImageStorage.shared()
    images = [recipe.image for recipe in recipes]
    was_any_missing = _ensure_all_built(storage, list(zip(recipes, images, strict=True)), report)
    registry_client = Registry(registry)
    image_names = [
        (image, name)
        for image, recipe in zip(images, recipes, strict=True)
        for name in dict.fromkeys((image, *recipe.serve_as))
    ]
    with ThreadPoolExecutor(max_workers=8) as pool:
        presence = pool.map(lambda image_name: registry_client.has_image(storage.layout, *image_name), image_names)
        missing_names = [
            image_name for image_name, is_present in zip(image_names, presence, strict=True) if not is_present
        ]
    for image, name in missing_names:
        since = time.monotonic()
        registry_client.push(storage.layout, image, name)
        report(f"pushed {name} in {time.monotonic() - since:.1f} s")
    if not was_any_missing and not missing_names:
        report(f"the registry has all {len(image_names)} images")
    return images


def ensure_built(recipes: Sequence[Recipe], report: Report, storage: ImageStorage | None = None) -> list[str]:
    """Build missing images into the storage's layout; return the images' names, in order."""
    images = [recipe.image for recipe in recipes]
    _ensure_all_built(storage or ImageStorage.shared(), list(zip(recipes, images, strict=True)), report)
    return images


def _ensure_all_built(storage: ImageStorage, images: Sequence[tuple[Recipe, str]], report: Report) -> bool:
    """Build the missing ones of the images, with their recipes; return whether any was missing."""
    missing = [(recipe, image) for recipe, image in images if not oci_layout.find_image(storage.layout, image)]
    if missing:
        with storage.lock(report):
            storage.remove_leftovers()
            for recipe, image in missing:
                _ensure_built(storage, recipe, image, report)
    return bool(missing)


def _ensure_built(storage: ImageStorage, recipe: Recipe, image: str, report: Report) -> None:
    """Build an image and its base if they are missing. The caller has locked the storage."""
    if oci_layout.find_image(storage.layout, image):
        return
    base = base_reference()
    if base in (image, recipe.build_args.get("BASE")) and not storage.has_image(base):
        _run_timed(
            report,
            "base image",
            base_image.EXPECTED_SECONDS,
            lambda: base_image.build_base(storage, base, report),
        )
    if image != base:
        _run_timed(report, image, None, lambda: build_recipe(storage, recipe, image))
    expected = COMPRESSION_SECONDS if base in (image, recipe.build_args.get("BASE")) else None
    _run_timed(report, f"compressing {image}", expected, lambda: oci_layout.add_image(storage, image))


def _run_timed(report: Report, task: str, expected_seconds: int | None, step: Callable[[], object]) -> None:
    """Run a step, and report its expected duration, if it is known, and its duration."""
    if expected_seconds is not None:
        report(f"{task}: about {expected_seconds} s")
    since = time.monotonic()
    step()
    report(f"{task}: done in {time.monotonic() - since:.1f} s")
