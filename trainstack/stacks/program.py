"""The Pulumi program, which a project's `__main__.py` runs."""

from pathlib import Path

from trainstack.garbage import suspend_collection
from trainstack.stacks.debug_messages import drop_undisplayed_messages
from trainstack.stacks.engine_state_request import request_engine_state
from trainstack.stacks.event_loop import serve_hooks


def run(root: Path) -> None:
    """Declare the resources of the engine's stack from the files of the project at `root`.

    Raises RunError, with every reason and its remedy, before the first resource is declared.
    """
    drop_undisplayed_messages()
    response = request_engine_state()
    serve_hooks()
    # The slow imports run while the engine reads its state.
    with suspend_collection():
        from trainstack.stacks.declare_stack import declare_stack  # noqa: PLC0415
        from trainstack.stacks.failed_resources import register_dependents_of_failed_resources  # noqa: PLC0415
        from trainstack.stacks.lean_registrations import omit_unused_registration_data  # noqa: PLC0415

    omit_unused_registration_data()
    register_dependents_of_failed_resources()
    declare_stack(root, response)
