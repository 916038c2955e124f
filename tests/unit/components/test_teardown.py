"""Guard: a destroy deletes it first."""

import pulumi

from tests.unit.components.declare import declare, hooks
from tests.unit.make import make_storage
from trainstack.components.storage import StorageClasses
from trainstack.components.teardown import TeardownGuard


def test_the_guard_depends_on_everything_and_has_every_hook() -> None:
    """The engine deletes in reverse order, so it calls the guard's hook before it deletes anything."""

    def component(opts: pulumi.ResourceOptions) -> TeardownGuard:
        classes = StorageClasses("storage", make_storage(), opts)
        return TeardownGuard("guard", hooks(), [classes])

    guard = declare(component)["Guard guard"]
    assert guard.type == "trainstack:teardown:Guard"
    # The SDK replaces a component by its children.
    assert guard.dependencies == ["shared"]
    names = ("guard", "deletion", "queue", "controller", "definition", "namespace")
    assert guard.hooks == {"before_delete": [f"teardown-{name}" for name in names]}
