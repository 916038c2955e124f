"""The sites' images: Trainstack's training program behind the entry points of the original images."""

import hashlib
import subprocess
import sys
from pathlib import Path

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images import Recipe, base
from trainstack.local_cluster.sites.definition import BASE, SITES, Site, SiteImage
from trainstack.runs.images.content_tags import base_reference
from trainstack.toolchain.places import CHECKOUT, cache_root

PROGRAM = CHECKOUT / "workloads" / "digits"
EXAMPLE = SITES / "mnist_example.py"
"""The program that prints the output of the original images."""
TEST_IMAGES = 197
"""Number of test images. The remaining 1,600 are for training and validation, as vsphere's image requires."""


def site_recipes(site: Site) -> list[Recipe]:
    return [_recipe(site, image) for image in site.images]


def _recipe(site: Site, image: SiteImage) -> Recipe:
    if image.build == BASE:
        return base(image.names)
    if not PROGRAM.is_dir():
        raise LocalClusterError(
            f"The images of site {site.name} contain workloads/digits, which is in the checkout of Trainstack and not "
            "in its wheel; run the command in a checkout"
        )
    folder = site.folder / image.build
    if not (folder / "Dockerfile").is_file():
        raise LocalClusterError(f"{folder} has no Dockerfile; correct `build` in {site.folder}/site.yaml")
    programs = {f"digits/{path.name}": path for path in sorted(PROGRAM.glob("*.py"))}
    data = {f"data/{path.name}": path for path in sorted(_prepare_data().iterdir())}
    programs[EXAMPLE.name] = EXAMPLE
    build_args = {"BASE": base_reference()}
    return Recipe(f"site-{site.name}", folder, build_args, programs=programs | data, serve_as=image.names)


def _prepare_data() -> Path:
    """Return the folder of the prepared data set; create it once for each version of `prepare.py`."""
    prepare = PROGRAM / "prepare.py"
    key = hashlib.sha256(prepare.read_bytes() + bytes([TEST_IMAGES])).hexdigest()[:16]
    folder = cache_root() / "site-data" / key
    # The manifest is written last, so a folder with a manifest is complete.
    if not (folder / "manifest.json").is_file():
        command = [sys.executable, "-m", "workloads.digits.prepare", str(folder), f"--test-images={TEST_IMAGES}"]
        result = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if result.returncode:
            raise LocalClusterError(f"preparing the data of the sites' images failed: {result.stderr.strip()}")
    return folder
