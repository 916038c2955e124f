"""Seeds for randomized tests."""

import os
import random


def chosen_seed(variable: str) -> int:
    """Return the seed in an environment variable: 1 if it is not set, a new seed if it is `random`.

    CI uses the same cases in every run, so that no change fails because of an older bug.
    """
    value = os.environ.get(variable, "") or "1"
    return random.SystemRandom().randrange(10**6) if value == "random" else int(value)
