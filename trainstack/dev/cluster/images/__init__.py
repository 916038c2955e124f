"""Container images without a container engine: buildah builds them in our cache, and they are pushed to a registry.

ensure_images([*operators(), *helpers(), workload(Path("workloads/digits"))], cluster.up(state).registry, print)
"""

from trainstack.dev.cluster.images.catalog import base, git, helpers, operators, workload
from trainstack.dev.cluster.images.ensure import ensure_built, ensure_images
from trainstack.dev.cluster.images.recipe import Recipe
from trainstack.dev.cluster.images.registry import Registry
from trainstack.dev.cluster.images.storage import Storage

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
    "workload",
]
