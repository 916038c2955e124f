"""A page of docs/systems as a test: its table, its block of commands, and the commands that the test has run."""

import os
import pty
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.project import CommandResult, Project

HEAD = "| by hand | here |"
_COMMAND = re.compile(r"`((?:trainstack|pulumi|kubectl) [^`]+)`")
_BLOCK = re.compile(r"^## Try it\n.*?^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"<[^>]+>")
_SHELL = """
if [ -f "$EXPORTED" ]; then . "$EXPORTED"; fi
trainstack() {
  if [ "$1" = cluster ]; then command trainstack "$@" --state "$CLUSTER_STATE"; else command trainstack "$@"; fi
}
eval "$1"
code=$?
if [ -n "$EXPORTED" ]; then export -p > "$EXPORTED"; fi
exit $code
"""
"""Runs a line in a shell with the exported variables of earlier lines. `trainstack cluster` uses the running cluster
of the tests; every other command runs unchanged."""


@dataclass(frozen=True)
class Row:
    """A row of a page's table."""

    line: int
    commands: tuple[str, ...]
    """The commands in its right cell, all of which the test must run."""


def rows(text: str) -> list[Row]:
    """Return the rows of a page's table. Fails if there is no table, or if a row has no command."""
    lines = text.splitlines()
    assert HEAD in lines, f"the page has no table that begins with {HEAD}"
    found = []
    for number, line in enumerate(lines[lines.index(HEAD) + 2 :], lines.index(HEAD) + 3):
        if not line.startswith("|"):
            break
        _, _, right_cell = line.strip("| ").partition(" | ")
        commands = tuple(_COMMAND.findall(right_cell))
        assert commands, f"line {number}: the row has no command: {line}"
        found.append(Row(number, commands))
    assert found, "the table has no row"
    return found


def block(text: str) -> list[str]:
    """Return the lines that a reader copies to try the system."""
    found = _BLOCK.search(text)
    assert found, "the page has no block of lines under `Try it`"
    return found[1].splitlines()


def matches(command: str, typed: str) -> bool:
    """Return whether a typed line matches a page's command, whose placeholders `<…>` match a part of one word."""
    parts = [r"\S+".join(map(re.escape, _PLACEHOLDER.split(word))) for word in command.split()]
    return re.fullmatch(" ".join(parts), " ".join(typed.split())) is not None


def unexecuted(found: Iterable[Row], typed: Sequence[str]) -> list[str]:
    """Return the commands of rows that were not typed, with their lines in the page."""
    return [
        f"line {row.line}: {command}"
        for row in found
        for command in row.commands
        if not any(matches(command, line) for line in typed)
    ]


@dataclass
class Page:
    """The page of a system, whose commands run on its environment."""

    project: Project
    cluster: Path
    """The state folder of the tests' cluster."""
    typed: list[str] = field(default_factory=list)
    """The lines that succeeded, in order."""
    copied: int = 0
    """The number of completed lines of the block."""

    @property
    def text(self) -> str:
        """The page."""
        return (self.project.root / "docs" / "systems" / f"{self.project.stack}.md").read_text(encoding="utf-8")

    def type(self, line: str, *, variables: Mapping[str, str] | None = None, seconds: float = 600) -> CommandResult:
        """Run a line in a shell at the project's root, answer prompts with yes, and assert that it succeeds.

        With `variables` the line runs in a separate shell with these and those of `trainstack env`.
        """
        aside = {"EXPORTED": "", **self.project.variables, **variables} if variables else {}
        ours, terminal = pty.openpty()
        try:
            os.write(ours, b"y\n")
            done = subprocess.run(
                ["bash", "-c", _SHELL, "bash", line],
                cwd=self.project.root,
                env={**os.environ, **self._variables(), **aside},
                stdin=terminal,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        finally:
            os.close(ours)
            os.close(terminal)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        self.typed.append(line)
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def copy(self, end: str) -> CommandResult:
        """Run the next lines of the block up to the one that begins with `end`, and return its output."""
        while True:
            line = block(self.text)[self.copied]
            done = self.type(line)
            self.copied += 1
            if line.startswith(end):
                return done

    def assert_completed(self) -> None:
        """Assert that every line of the block and every command of the table has run."""
        left = block(self.text)[self.copied :]
        assert not left, f"lines of the block are left: {left}"
        missing = unexecuted(rows(self.text), self.typed)
        assert not missing, "commands of the page that the test has not executed:\n" + "\n".join(missing)

    def _variables(self) -> dict[str, str]:
        state = self.project.root / ".trainstack" / f"exported-{self.project.stack}"
        return {
            "KUBECONFIG": str(self.project.kubeconfig),
            # The copy's code, not the checkout's that is installed in the virtual environment.
            "PYTHONPATH": str(self.project.root),
            # Pulumi prompts only if its output is a terminal too.
            "PULUMI_SKIP_CONFIRMATIONS": "true",
            "CLUSTER_STATE": str(self.cluster),
            "EXPORTED": str(state),
        }
