"""Builds of a group's programs by `go build`, into the cache."""

import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console

from trainstack.toolchain import digests, go_modules, go_toolchain, groups, progress, provider_sources, python_locks
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.go_toolchain import Go
from trainstack.toolchain.groups import ProgramGroup
from trainstack.toolchain.places import GO_MODULES, cache_root
from trainstack.toolchain.process_lock import hold_lock
from trainstack.toolchain.progress import print_line

_PROVIDER = "github.com/pulumi/pulumi-kubernetes/provider/v4"

_CACHED_REASON = "not installed but available in build cache"
"""Go's reason for a stale package that it need not compile (cmd/go/internal/work, buildID.go)."""

_REMEDIES = {
    "SECURITY ERROR|checksum mismatch": "A module does not match go.sum: compare go.sum with the repository's, and do "
    "not use the download",
    "missing go.sum entry": "The group's go.sum is incomplete: restore it with "
    "`git checkout -- trainstack/toolchain/go`",
    "no space left": "The disk is full: Go's caches need 14 GB (`go env GOCACHE GOMODCACHE` prints their folders)",
    "dial tcp|i/o timeout|connection refused": "The Go module proxy cannot be reached: see `go env GOPROXY`; the build "
    "resumes where it stopped",
}
"""Fragments of Go's errors, separated by `|`, to the remedy."""


def find_build(group: ProgramGroup) -> Path | None:
    """Return the folder of a finished build of a group, with any sufficient version of Go, or None.

    Runs nothing, except a `go` whose folder has no VERSION file if the cache has only builds of unknown versions.
    """
    if next((cache_root() / "tools").glob(f"{group.name}-*"), None) is None:
        return None
    for version in go_toolchain.candidate_versions():
        folder = Builder(Go(Path("go"), version)).folder(group)
        if folder.is_dir():
            return folder
    builder = Builder(go_toolchain.choose_go())
    if not builder.is_built(group):
        return None
    go_toolchain.record_version(builder.go.version)
    return builder.folder(group)


@dataclass(frozen=True)
class Builder:
    """A Go toolchain and the modules that it builds."""

    go: Go
    modules: Path = GO_MODULES
    """The folder with a subfolder for each group's module."""

    def folder(self, group: ProgramGroup) -> Path:
        """Return the folder of a group's build, whose name contains a hash of all inputs."""
        machine = f"{platform.system()}-{platform.machine()}".lower()
        return (
            cache_root() / "tools" / f"{group.name}-{groups.build_key(group, self.go.version, machine, self.modules)}"
        )

    def is_built(self, group: ProgramGroup) -> bool:
        """Return whether the programs exist. The folder is published by a rename, so it is complete or absent."""
        return self.folder(group).is_dir()

    def build(self, group: ProgramGroup, console: Console) -> Path:
        """Build a group unless it is built, and return its folder.

        Go's own cache keeps every compiled package, so an interrupted build resumes.
        """
        target = self.folder(group)
        with hold_lock(cache_root() / "locks" / group.name, console):
            if not target.is_dir():
                expected = f"about {progress.duration(group.seconds)} on 2 cores with empty caches"
                print_line(console, f"{group.name}: building {group.purpose} ({expected})")
                started = time.monotonic()
                staging = target.with_name(f".building-{group.name}")
                shutil.rmtree(staging, ignore_errors=True)
                self._build_programs(group, staging, console)
                digests.record_digests(staging / "out")
                (staging / "out").rename(target)
                shutil.rmtree(staging)
                go_toolchain.record_version(self.go.version)
                print_line(console, f"{group.name}: built in {progress.duration(time.monotonic() - started)}")
        return target

    def module_folder(self, group: ProgramGroup, module: str) -> Path:
        """Return a pinned module's folder in Go's module cache; download it if necessary."""
        with tempfile.TemporaryFile("w+") as stdout:
            for _ in self._run_go(["mod", "download", "-json", module], self.modules / group.module, stdout):
                pass
            stdout.seek(0)
            return Path(str(json.load(stdout)["Dir"]))

    def run_go(self, arguments: list[str], folder: Path) -> None:
        """Run a `go` command in a module's folder. Raises ToolchainError with the end of its output."""
        for _ in self._run_go(arguments, folder):
            pass

    def _build_programs(self, group: ProgramGroup, staging: Path, console: Console) -> None:
        # The build reads a copy: it compiles exactly the files that were hashed, and writes nothing into the checkout.
        source, out = staging / "source", staging / "out" / "bin"
        out.mkdir(parents=True)
        source.mkdir()
        for name, content in groups.source_files(group, self.modules).items():
            (source / name).write_bytes(content)
        if group.name == "provider":
            provider_sources.write(
                self.module_folder(group, _PROVIDER), source, python_locks.version("pulumi-kubernetes")
            )
        packages = [program.package for program in group.programs]
        with progress.bar(console, group.name) as bar:
            bar.set_note("downloading modules")
            bar.set_total(self._packages_to_compile(packages, source, bar))
            bar.set_note("compiling")
            flags = groups.link_flags(group, self.modules)
            for line in self._run_go(["build", "-v", "-o", f"{out}{os.sep}", "-ldflags", flags, *packages], source):
                bar.advance()
                bar.set_note(line.rsplit("/", 1)[-1])
        module = go_modules.load(self.modules / group.module / "go.mod").path.rsplit("/", 1)[-1]
        for program in group.programs:
            (out / (program.binary_name if program.package != "." else module)).rename(out / program.name)
        for name, text in group.scripts:
            (out / name).write_text(text)
            (out / name).chmod(0o755)

    def _packages_to_compile(self, packages: list[str], source: Path, bar: progress.StepProgress) -> int:
        """Download the modules and count the packages that are not in Go's cache.

        Without the field EmbedFiles, Go reports packages that embed files, and their importers, as changed.
        """
        with tempfile.TemporaryFile("w+") as stdout:
            for line in self._run_go(
                ["list", "-deps", "-json=Stale,StaleReason,EmbedFiles", *packages], source, stdout
            ):
                bar.set_note(line.removeprefix("go: "))
            stdout.seek(0)
            text, decoder, position, count = stdout.read().strip(), json.JSONDecoder(), 0, 0
        while position < len(text):
            package, position = decoder.raw_decode(text, position)
            position += 1  # the newline between two packages
            count += bool(package.get("Stale")) and package.get("StaleReason") != _CACHED_REASON
        return count

    def _run_go(self, arguments: list[str], folder: Path, stdout: IO[str] | None = None) -> Iterator[str]:
        """Run a `go` command in a module's folder and yield the lines of its standard error."""
        last_lines: deque[str] = deque(maxlen=15)
        process = subprocess.Popen(
            [str(self.go.executable), *arguments], cwd=folder, env=self.go.environment(), text=True,
            stdin=subprocess.DEVNULL, stdout=stdout or subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            for raw_line in process.stderr or ():
                line = raw_line.rstrip("\n")
                last_lines.append(line)
                yield line
        finally:
            # After an exception or Ctrl-C the compiler must not keep running.
            if process.stderr is not None:
                process.stderr.close()
            if process.poll() is None:
                process.terminate()
            process.wait()
        if process.returncode != 0:
            if not last_lines and stdout is not None:
                # `go mod download -json` writes its errors there.
                stdout.seek(0)
                last_lines.extend(stdout.read().splitlines())
            output = "\n".join(last_lines)
            remedies = (
                text for causes, text in _REMEDIES.items() if any(cause in output for cause in causes.split("|"))
            )
            remedy = next((f"\n{text}" for text in remedies), "")
            raise ToolchainError(f"`go {' '.join(arguments[:2])} …` failed in {folder}:\n{output}{remedy}")
