"""How a command of ours tells the program that it is there to end a stack."""

import os
from typing import Literal

ENDING = "TRAINSTACK_ENDS"
"""Set by `trainstack teardown` and `trainstack destroy` for their engine alone, as `<way>:<stack>`. The program then
declares nothing, so an `up` with it would delete everything."""
Way = Literal["teardown", "destroy"]


def ending(stack: str) -> Way | None:
    """The way in which a command ends this stack; None where the program is to declare it."""
    way, _, named = os.environ.get(ENDING, "").partition(":")
    if named != stack:
        return None
    return "teardown" if way == "teardown" else "destroy" if way == "destroy" else None
