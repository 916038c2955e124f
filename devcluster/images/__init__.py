"""Container images without a container engine: built by buildah in our own cache, pushed to a registry.

ensure_images([*operators(), *helpers(), workload(Path("workloads/digits"))], cluster.up(state).registry, print)
"""

from devcluster.images.catalog import base, git, helpers, operators, workload
from devcluster.images.ensure import ensure_built, ensure_images
from devcluster.images.recipe import Recipe
from devcluster.images.registry import Registry
from devcluster.images.run import run_in_image
from devcluster.images.storage import Storage

__all__ = [
    "Recipe",
    "Registry",
    "Storage",
    "base",
    "ensure_built",
    "ensure_images",
    "git",
    "helpers",
    "operators",
    "run_in_image",
    "workload",
]
