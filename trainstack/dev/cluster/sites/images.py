"""The images that sites serve: our training program behind the entry points of their own images."""

import hashlib
import subprocess
import sys
from pathlib import Path

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.images import Recipe, base
from trainstack.dev.cluster.sites.definition import BASE, SITES, Site, SiteImage
from trainstack.dev.toolchain.places import CHECKOUT, cache_root
from trainstack.runs.images.images import base_reference

PROGRAM = CHECKOUT / "workloads" / "digits"
EXAMPLE = SITES / "mnist_example.py"
"""Prints what the originals of some of these images print."""
TEST_IMAGES = 197
"""So 1,600 are left to train and validate on: vsphere's image counts on it."""


def recipes(site: Site) -> list[Recipe]:
    """What has to be built and served for a site."""
    return [_recipe(site, image) for image in site.images]


def _recipe(site: Site, image: SiteImage) -> Recipe:
    if image.build == BASE:
        return base(image.names)
    folder = site.folder / image.build
    if not (folder / "Dockerfile").is_file():
        raise ClusterError(f"{folder}: has no Dockerfile; `build` in {site.folder}/site.yaml names a folder that has")
    program = {f"digits/{path.name}": path for path in sorted(PROGRAM.glob("*.py"))}
    data = {f"data/{path.name}": path for path in sorted(_data().iterdir())}
    program[EXAMPLE.name] = EXAMPLE
    build_args = {"BASE": base_reference()}
    return Recipe(f"site-{site.name}", folder, build_args, programs=program | data, serve_as=image.names)


def _data() -> Path:
    """The folder of the prepared data set, made once for each version of what prepares it."""
    prepare = PROGRAM / "prepare.py"
    key = hashlib.sha256(prepare.read_bytes() + bytes([TEST_IMAGES])).hexdigest()[:16]
    folder = cache_root() / "site-data" / key
    # The manifest comes last: a folder that has one is whole.
    if not (folder / "manifest.json").is_file():
        words = ["-m", "workloads.digits.prepare", str(folder), f"--test-images={TEST_IMAGES}"]
        done = subprocess.run([sys.executable, *words], cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"the data of the sites' images cannot be prepared: {done.stderr.strip()}")
    return folder
