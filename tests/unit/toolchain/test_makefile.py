"""The steps of `make up` before `trainstack up`."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


OUTSIDE = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
"""The environment without the settings of `make unit` for a nested make: options, variables, names of folders."""


def make(*words: str) -> list[str]:
    """Return the commands of a dry run."""
    command = ["make", "--dry-run", *words]
    process = subprocess.run(command, cwd=ROOT, env=OUTSIDE, capture_output=True, text=True, check=True)
    return [line for line in process.stdout.splitlines() if "trainstack " in line]


UP = ".venv/bin/trainstack up -s {} --yes"
MACHINE = ".venv/bin/trainstack dev machine --install"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), [MACHINE, UP.format("dev")]),
        (("STACK=sweeps",), [MACHINE, UP.format("sweeps")]),
        (("STACK=prod",), [UP.format("prod")]),
        (("STACK=quickstart",), [UP.format("quickstart")]),
        (("STACK=missing",), [UP.format("missing")]),
        (("KUBECONFIG=some/file",), [UP.format("dev")]),
    ],
    ids=lambda value: " ".join(value) or "make up" if isinstance(value, tuple) else "",
)
def test_only_the_local_cluster_needs_this_machine(words: tuple[str, ...], expected: list[str]) -> None:
    """`trainstack up` builds tools after another cluster has answered."""
    assert make("up", *words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [((), ""), (("STACK=prod",), "/exported"), (("KUBECONFIG=some/file",), str(ROOT / "some/file"))],
    ids=["local", "other", "named"],
)
def test_an_exported_kubeconfig_counts_only_for_other_clusters(words: tuple[str, ...], expected: str) -> None:
    """The local cluster's environments use another cluster only if the command line selects it."""
    file = 'include Makefile\nshow:\n\t@printf %s "$$KUBECONFIG"\n'
    environment = {**OUTSIDE, "KUBECONFIG": "/exported"}
    process = subprocess.run(
        ["make", "-f-", "show", *words],
        cwd=ROOT,
        env=environment,
        input=file,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == expected
