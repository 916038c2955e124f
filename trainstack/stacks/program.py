"""The Pulumi program, which a project's `__main__.py` runs."""

import gc
from pathlib import Path

from trainstack.stacks.debug_messages import drop_undisplayed
from trainstack.stacks.engine_state_request import request_engine_state


def run(root: Path) -> None:
    """Declare the resources of the engine's stack from the files of the project at `root`.

    Raises RunError, with every reason and its remedy, before the first resource is declared.
    """
    drop_undisplayed()
    response = request_engine_state()
    # What modules create lives as long as the program, so no collection needs to examine it.
    gc.disable()
    from trainstack.stacks.declare_stack import declare_stack  # noqa: PLC0415 (slow to load, and the engine reads now)

    gc.freeze()
    gc.enable()
    declare_stack(root, response)
