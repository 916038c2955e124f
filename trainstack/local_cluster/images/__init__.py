"""Container images without a container engine: buildah builds them in the shared cache; a registry serves them.

Read `ensure.py` before you edit.

ensure_images([*operators(), *helpers(), workload(Path("workloads/digits"))], cluster.up(state).registry, print)
"""

from trainstack.local_cluster.images.catalog import base, git, helpers, operators, workload
from trainstack.local_cluster.images.ensure import ensure_built, ensure_images
from trainstack.local_cluster.images.recipe import Recipe
from trainstack.local_cluster.images.registry import Registry
from trainstack.local_cluster.images.storage import ImageStorage

__all__ = [
    "ImageStorage",
    "Recipe",
    "Registry",
    "base",
    "ensure_built",
    "ensure_images",
    "git",
    "helpers",
    "operators",
    "workload",
]
