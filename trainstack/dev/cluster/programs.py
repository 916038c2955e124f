"""Where the cluster's programs and the shared registry lie; the toolchain builds and knows them."""

from functools import cache
from pathlib import Path

from trainstack.dev.toolchain import places, tools


@cache
def find(name: str) -> Path:
    """A built program."""
    return tools.program(name)


def registry_root() -> Path:
    """The image registry's folder in the shared cache: images survive a cluster's reset."""
    return places.cache_root() / "registry"
