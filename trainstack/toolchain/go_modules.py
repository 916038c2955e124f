"""The pinned versions of Go modules, read from go.mod files without a Go toolchain. No other file pins them."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainstack.toolchain.errors import ToolchainError

_DIRECTIVE = re.compile(r"^(?P<verb>module|go|require|replace|tool|exclude|toolchain)\s+(?P<rest>.*)$")


@dataclass(frozen=True, kw_only=True)
class GoModule:
    """A go.mod file."""

    path: str
    """The module's own path."""
    go: tuple[int, int]
    """Minimum Go release, (major, minor)."""
    require: dict[str, str]
    """Module path to version, including indirect requirements."""
    replace: dict[str, str]
    """Module path to `path version` of its replacement."""
    tool: tuple[str, ...]
    """Import paths of the programs that the module lists as tools."""

    def version(self, module: str) -> str:
        """Return the pinned version of a required module, as in `v1.34.4`."""
        try:
            return self.require[module]
        except KeyError:
            raise ToolchainError(f"go.mod of {self.path} does not require {module}: add it with `go get`") from None


def parse(text: str) -> GoModule:
    directives: dict[str, list[str]] = {}
    block = ""
    for raw_line in text.splitlines():
        line = raw_line.split("//", 1)[0].strip()
        if not line:
            continue
        if block:
            if line == ")":
                block = ""
            else:
                directives.setdefault(block, []).append(line)
        elif match := _DIRECTIVE.match(line):
            if match["rest"] == "(":
                block = match["verb"]
            else:
                directives.setdefault(match["verb"], []).append(match["rest"].strip())
    major, minor = directives.get("go", ["1.0"])[0].split(".")[:2]
    return GoModule(
        path=directives.get("module", [""])[0],
        go=(int(major), int(minor)),
        require=dict(_parse_requirement(line) for line in directives.get("require", [])),
        replace={
            old.split()[0]: new.strip() for old, new in (line.split("=>") for line in directives.get("replace", []))
        },
        tool=tuple(directives.get("tool", [])),
    )


@cache
def load(path: Path) -> GoModule:
    try:
        return parse(path.read_text())
    except FileNotFoundError:
        raise ToolchainError(f"{path} is missing: restore it with `git checkout`") from None


def _parse_requirement(line: str) -> tuple[str, str]:
    module, version = line.split()
    return module, version
