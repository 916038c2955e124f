"""Paths of the cluster's programs, from the toolchain, and of the shared registry."""

from functools import cache
from pathlib import Path

from trainstack.dev.toolchain import places, tools


@cache
def find(name: str) -> Path:
    return tools.program(name)


def registry_root() -> Path:
    """The image registry's folder in the shared cache: images survive a cluster's reset."""
    return places.cache_root() / "registry"
