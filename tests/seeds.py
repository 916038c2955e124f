"""The seeds of drawn tests."""

import os
import random


def chosen_seed(variable: str) -> int:
    """The seed in an environment variable; 1 where it is not set, and a fresh one where it is `random`.

    The CI tier draws the same cases in every run, so that a change is never refused for a fault that was there before.
    """
    value = os.environ.get(variable, "") or "1"
    return random.SystemRandom().randrange(10**6) if value == "random" else int(value)
