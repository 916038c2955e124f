"""Building a group's programs with `go build` and putting them into the cache."""

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

from trainstack.dev.toolchain import digests, gomod, groups, lock, progress, provider_sources
from trainstack.dev.toolchain.errors import ToolchainError
from trainstack.dev.toolchain.gotool import Go
from trainstack.dev.toolchain.groups import Group
from trainstack.dev.toolchain.locking import locked
from trainstack.dev.toolchain.places import GO_MODULES, cache_root
from trainstack.dev.toolchain.progress import say

_PROVIDER = "github.com/pulumi/pulumi-kubernetes/provider/v4"

_CACHED = "not installed but available in build cache"
"""Go's reason for calling a package stale that it need not compile (cmd/go/internal/work, buildID.go)."""


@dataclass(frozen=True)
class Builder:
    """Builds groups from their modules with one toolchain."""

    go: Go
    modules: Path = GO_MODULES

    def folder(self, group: Group) -> Path:
        """Where the finished programs of a group lie: its name says everything that they were made from."""
        where = f"{platform.system()}-{platform.machine()}".lower()
        return cache_root() / "tools" / f"{group.name}-{groups.key(group, self.go.version, where, self.modules)}"

    def is_built(self, group: Group) -> bool:
        """Whether the programs are there. The folder appears by one rename, so it is whole or absent."""
        return self.folder(group).is_dir()

    def build(self, group: Group, console: Console) -> Path:
        """Build a group unless that has been done, and return the folder of its programs.

        Go's own cache keeps each package as soon as it is compiled: after an interruption the next build goes on there.

        Raises:
            ToolchainError: the build fails, or a module is not what go.sum says.
        """
        target = self.folder(group)
        with locked(cache_root() / "locks" / group.name, console):
            if not target.is_dir():
                expected = f"about {progress.duration(group.seconds)} on 2 cores with empty caches"
                say(console, f"{group.name}: building {group.purpose} ({expected})")
                started = time.monotonic()
                staging = target.with_name(f".building-{group.name}")
                shutil.rmtree(staging, ignore_errors=True)
                self._build(group, staging, console)
                digests.record(staging / "out")
                (staging / "out").rename(target)
                shutil.rmtree(staging)
                took = progress.duration(time.monotonic() - started)
                say(console, f"{group.name}: built in {took}")
        return target

    def module_folder(self, group: Group, module: str) -> Path:
        """Where a pinned module lies in Go's module cache; downloads it if need be.

        Raises:
            ToolchainError: it cannot be had, or is not what go.sum says.
        """
        with tempfile.TemporaryFile("w+") as answer:
            for _ in self._run(["mod", "download", "-json", module], self.modules / group.module, answer):
                pass
            answer.seek(0)
            return Path(str(json.load(answer)["Dir"]))

    def _build(self, group: Group, staging: Path, console: Console) -> None:
        # The build reads a copy: what was hashed is what is compiled, and generated files stay out of the checkout.
        source, out = staging / "source", staging / "out" / "bin"
        out.mkdir(parents=True)
        source.mkdir()
        for name, content in groups.sources(group, self.modules).items():
            (source / name).write_bytes(content)
        if group.name == "provider":
            provider_sources.write(self.module_folder(group, _PROVIDER), source, lock.version("pulumi-kubernetes"))
        packages = [program.package for program in group.programs]
        with progress.bar(console, group.name) as bar:
            bar.note("downloading modules")
            bar.total(self._packages_to_compile(packages, source, bar))
            bar.note("compiling")
            link = groups.link_flags(group, self.modules)
            for line in self._run(["build", "-v", "-o", f"{out}{os.sep}", "-ldflags", link, *packages], source):
                bar.advance()
                bar.note(line.rsplit("/", 1)[-1])
        for program in group.programs:
            built = program.built_as if program.package != "." else self._module_name(group)
            (out / built).rename(out / program.name)
        for name, text in group.scripts:
            (out / name).write_text(text)
            (out / name).chmod(0o755)

    def _module_name(self, group: Group) -> str:
        return gomod.load(self.modules / group.module / "go.mod").path.rsplit("/", 1)[-1]

    def _packages_to_compile(self, packages: list[str], source: Path, bar: progress.Bar) -> int:
        """How many packages Go's cache does not hold. Downloads the modules on the way.

        Without EmbedFiles among the fields, Go takes each package that embeds a file, and all that use it, for changed.
        """
        with tempfile.TemporaryFile("w+") as answer:
            for line in self._run(["list", "-deps", "-json=Stale,StaleReason,EmbedFiles", *packages], source, answer):
                bar.note(line.removeprefix("go: "))
            answer.seek(0)
            text, decoder, position, count = answer.read().strip(), json.JSONDecoder(), 0, 0
        while position < len(text):
            package, position = decoder.raw_decode(text, position)
            position += 1  # the line's end between two packages
            count += bool(package.get("Stale")) and package.get("StaleReason") != _CACHED
        return count

    def _run(self, arguments: list[str], folder: Path, answer: IO[str] | None = None) -> Iterator[str]:
        """Run a `go` command in a folder and give the lines of its standard error as they come.

        Args:
            arguments: the command's.
            folder: the module that it works in.
            answer: where its standard output goes.

        Raises:
            ToolchainError: it fails; with the last lines of what it said.
        """
        last: deque[str] = deque(maxlen=15)
        process = subprocess.Popen(
            [str(self.go.executable), *arguments], cwd=folder, env=self.go.environment(), text=True,
            stdin=subprocess.DEVNULL, stdout=answer or subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            for raw in process.stderr or ():
                line = raw.rstrip("\n")
                last.append(line)
                yield line
        finally:
            # Left early (an exception, Ctrl-C): the compiler must not go on alone.
            if process.stderr is not None:
                process.stderr.close()
            if process.poll() is None:
                process.terminate()
            process.wait()
        if process.returncode != 0:
            if not last and answer is not None:
                # `go mod download -json` tells its errors there.
                answer.seek(0)
                last.extend(answer.read().splitlines())
            said = "\n".join(last)
            raise ToolchainError(f"`go {' '.join(arguments[:2])} …` for {folder} failed:\n{said}{_remedy(said)}")


def _remedy(said: str) -> str:
    if "SECURITY ERROR" in said or "checksum mismatch" in said:
        return "\nA module is not what go.sum says: compare go.sum with the repository's, and do not use the download"
    if "missing go.sum entry" in said:
        return "\nThe group's go.sum is incomplete: restore it with `git checkout -- trainstack/dev/toolchain/go`"
    if "no space left" in said:
        return "\nThe disk is full: Go's caches need 14 GB (`go env GOCACHE GOMODCACHE` tells where)"
    if "dial tcp" in said or "i/o timeout" in said or "connection refused" in said:
        return "\nThe Go module proxy cannot be reached: see `go env GOPROXY`; the build resumes where it stopped"
    return ""
