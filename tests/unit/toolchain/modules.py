"""A Go module of one small program and one dependency, served from a folder: real builds without a network."""

import base64
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from trainstack.toolchain.groups import GoProgram, ProgramGroup, Stamp

DEPENDENCY = "example.test/greeting"
VERSION = "v1.2.3"

_GO_MOD = f"module {DEPENDENCY}\n\ngo 1.26\n"
_LIBRARY = 'package greeting\n\nvar Release string\n\nfunc Text() string { return "hello from " + Release }\n'
_MAIN = f"""package main

import (
	"fmt"

	"{DEPENDENCY}"
)

func main() {{ fmt.Println(greeting.Text()) }}
"""


@dataclass(frozen=True)
class Fixture:
    """A group to build."""

    modules: Path
    """The folder that holds the group's module, as trainstack/toolchain/go does."""
    proxy: str
    """The value of GOPROXY."""
    group: ProgramGroup

    @property
    def go_sum(self) -> Path:
        """Return the group's go.sum."""
        return self.modules / self.group.module / "go.sum"


def make_fixture(folder: Path) -> Fixture:
    """Create a proxy and a group below an empty folder."""
    served = folder / "proxy" / DEPENDENCY / "@v"
    served.mkdir(parents=True)
    files = {f"{DEPENDENCY}@{VERSION}/{name}": text for name, text in (("go.mod", _GO_MOD), ("greeting.go", _LIBRARY))}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    (served / f"{VERSION}.zip").write_bytes(archive.getvalue())
    (served / f"{VERSION}.mod").write_text(_GO_MOD)
    (served / f"{VERSION}.info").write_text(f'{{"Version": "{VERSION}"}}')
    module = folder / "modules" / "greeter"
    module.mkdir(parents=True)
    (module / "go.mod").write_text(
        f"module trainstack/toolchain/greeter\n\ngo 1.26\n\nrequire {DEPENDENCY} {VERSION}\n"
    )
    (module / "go.sum").write_text(
        f"{DEPENDENCY} {VERSION} {_h1(files)}\n{DEPENDENCY} {VERSION}/go.mod {_h1({'go.mod': _GO_MOD})}\n"
    )
    (module / "main.go").write_text(_MAIN)
    group = ProgramGroup(
        name="greeter",
        module="greeter",
        purpose="a greeting",
        programs=(GoProgram("greet", "."),),
        seconds=5,
        stamps=(Stamp(f"{DEPENDENCY}.Release", DEPENDENCY, "bare"),),
        scripts=(("helper", "#!/bin/sh\nexit 0\n"),),
    )
    return Fixture(folder / "modules", (folder / "proxy").as_uri(), group)


def _h1(files: dict[str, str]) -> str:
    """Return Go's hash of a file tree (golang.org/x/mod/sumdb/dirhash, Hash1)."""
    lines = (f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(files.items()))
    return "h1:" + base64.b64encode(hashlib.sha256("".join(lines).encode()).digest()).decode()
