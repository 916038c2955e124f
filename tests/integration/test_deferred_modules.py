"""Modules that are imported lazily, and modules that no start imports."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


PROGRAM = """
import json, sys, trainstack.live.client
loaded = [*sys.modules]
from cryptography.x509.oid import NameOID
from cryptography import x509
import cryptography.x509, httpx_ws, jsonpath
used = [
    NameOID.__name__, x509.Name.__name__, cryptography.x509.Name.__name__, httpx_ws.HTTPXWSException.__name__,
    jsonpath.findall("$.a", {"a": 1}),
]
print(json.dumps([loaded, used]))
"""


@cache
def results() -> tuple[list[str], list[Any]]:
    """Return the modules that the client loads in a separate process, and the results of a use of the others there."""
    command = [sys.executable, "-c", PROGRAM]
    loaded, used = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    return loaded, used


def test_the_client_loads_no_module_that_it_does_not_use() -> None:
    """Every command that reads a cluster would load them, which takes a tenth of a second."""
    loaded, _ = results()
    assert "kr8s" in loaded
    assert not {"wsproto", "jsonpath.env", "cryptography.hazmat.bindings._rust"} & set(loaded)


def test_a_deferred_module_is_loaded_when_it_is_used() -> None:
    """All forms of import work as if the module had been loaded before."""
    _, used = results()
    assert used == ["NameOID", "Name", "Name", "HTTPXWSException", [1]]


@cache
def modules() -> tuple[set[str], set[str]]:
    """Return the modules after importing the Pulumi program, and after also importing the command."""
    source = """
import sys, trainstack.stacks.declare_stack, httpx
print(*sys.modules)
import trainstack.stacks.assemble, trainstack.cli.app
print(*sys.modules)
"""
    process = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    program, command = process.stdout.splitlines()
    return {*program.split()}, {*command.split()}


def test_neither_the_program_nor_the_command_loads_what_samples_or_draws() -> None:
    """`pulumi preview` and `trainstack --help` do not wait for samplers, charts and templates."""
    assert {"optuna", "scipy", "matplotlib", "jinja2"} & modules()[1] == set()


def test_the_program_does_not_load_the_command_line_of_a_library() -> None:
    """The console and the highlighter of commands are not loaded either: each `pulumi preview` would wait for them."""
    assert {"rich", "click", "typer", "pygments"} & modules()[0] == set()
