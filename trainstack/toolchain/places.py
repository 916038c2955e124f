"""Paths that the toolchain reads and writes."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The checkout that this package was imported from."""

GO_MODULES = Path(__file__).with_name("go").resolve()
"""One folder for each group: go.mod, go.sum and, if upstream's main is unsuitable, a main.go."""

REQUIREMENTS_LOCK = GO_MODULES.with_name("requirements.lock")
"""The lock of the Python packages."""
GO_LOCK = GO_MODULES.with_name("go.lock")
"""The lock of the Go toolchain, which is a Python package too."""


def cache_root() -> Path:
    """Return the cache shared by the user's checkouts: `$XDG_CACHE_HOME/trainstack`, by default `~/.cache/trainstack`.

    A relative XDG_CACHE_HOME is ignored, as required by the XDG base directory specification.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (folder if folder.is_absolute() else Path.home() / ".cache") / "trainstack"


def state_root(checkout: Path) -> Path:
    """Return the git-ignored state folder of a checkout."""
    return checkout / ".trainstack"
