"""Modules whose import is deferred until something uses them."""

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
