"""Where the toolchain reads and writes."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
"""The checkout that this package was imported from."""

GO_MODULES = CHECKOUT / "trainstack" / "dev" / "toolchain" / "go"
"""One folder for each group: go.mod, go.sum and, where upstream's main does not serve, our own main.go."""

REQUIREMENTS_LOCK = CHECKOUT / "trainstack" / "dev" / "toolchain" / "requirements.lock"
GO_LOCK = CHECKOUT / "trainstack" / "dev" / "toolchain" / "go.lock"


def cache_root() -> Path:
    """The folder that all checkouts of this user share: `$XDG_CACHE_HOME/trainstack`, by default `~/.cache/trainstack`.

    A relative XDG_CACHE_HOME is ignored, as the XDG base directory specification asks.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "trainstack"


def state_root(checkout: Path) -> Path:
    """The git-ignored folder with everything that belongs to one checkout alone."""
    return checkout / ".trainstack"
