"""Drawn sequences of edits, commands, kills, accidents and other people's actions keep all invariants.

TRAINSTACK_SEARCH_SEED draws other sequences, and repeats those of a seed.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.apiserver import ApiServer
from tests.stateful.moves import Search

FEW, MANY = 6, 300
"""Sequences of the tier that CI runs, and of the slow one."""
SHORT, LONG = 8, 12
"""Most steps of a sequence."""
SEED = int(os.environ.get("TRAINSTACK_SEARCH_SEED", "1"))


def search(servers: dict[str, ApiServer], folder: Path, sequences: int, steps: int, *phases: Phase) -> None:
    """Draw sequences, and fail with the first that violates an invariant."""

    class Drawn(Search):
        pass

    Drawn.servers, Drawn.folder = servers, folder
    drawn = settings(
        max_examples=sequences,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=phases,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(SEED)(Drawn), settings=drawn)


def test_few_drawn_sequences_keep_every_promise(servers: dict[str, ApiServer], tmp_path: Path) -> None:
    """The sequences are the same in every run, and failures are not minimized."""
    search(servers, tmp_path, FEW, SHORT, Phase.generate)


@pytest.mark.slow
def test_many_drawn_sequences_keep_every_promise(servers: dict[str, ApiServer], tmp_path: Path) -> None:
    """The sequences are longer, and a failure is minimized."""
    search(servers, tmp_path, MANY, LONG, Phase.generate, Phase.shrink)
