"""The expansion of a space in another process."""

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.sweeps.search.spaces import MIXED, make
from trainstack.settings.search_space.hyperparams import format_sets
from trainstack.sweeps.search.expand import expand

ROOT = Path(__file__).resolve().parents[3]

HASHED = """
import ast, sys
from trainstack.settings.search_space.hyperparams import format_sets
from trainstack.settings.search_space.space import Space
from trainstack.sweeps.search.expand import expand
for document in ast.literal_eval(sys.stdin.read()):
    space = Space.model_validate(document, by_alias=True, by_name=False)
    print(format_sets("mixed", space, expand(space)))
"""


def test_the_file_does_not_depend_on_the_process() -> None:
    """Another process, with another hash seed of Python, writes the same bytes."""
    other = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    mixed_spaces = [make(method, MIXED, seed=7, trials=6) for method in ("random", "sobol", "halton")]
    written = subprocess.run(
        [sys.executable, "-c", HASHED],
        input=repr([space.model_dump(by_alias=True, exclude_unset=True) for space in mixed_spaces]),
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert written == "".join(format_sets("mixed", space, expand(space)) + "\n" for space in mixed_spaces)
