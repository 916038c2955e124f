"""`render` prints objects in the order in which the program declares them to the engine.

An object is declared after all that it depends on, and created after it. Objects that do not depend on each other are
created at the same time, and reach the engine in an order that varies.
"""

import pytest

from tests.unit.environments import COMMITTED, decide
from tests.unit.recorded import CRD, DEFINITION, environment, recorded
from trainstack.components.objects import type_and_name
from trainstack.settings.model import Settings
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects


def rendered(settings: Settings, inputs: Inputs) -> list[tuple[str, str]]:
    """Return type and name of every object that `render` prints, in its order."""
    return [type_and_name(manifest) for manifest in StackObjects(settings, inputs).manifests()]


def guarded(settings: Settings, inputs: Inputs) -> list[tuple[str, str]]:
    """Return type and name of every object that the guards check before the first write, in their order."""
    return [
        type_and_name(manifest)
        for manifest in StackObjects(settings, inputs).manifests(decide(settings, inputs).groups)
    ]


@pytest.mark.parametrize("name", [*COMMITTED, "whole", "platform", "training"])
def test_the_program_declares_in_the_order_of_render(name: str) -> None:
    """This includes Secrets, teams, volumes on hosts, all operators, TrainingRuntimes, and sweeps of both forms.

    The training layer has the Secrets, if it is a separate stack.
    """
    settings, inputs = environment(name)
    registrations, declared = recorded(name)
    registered = {registration.name for registration in registrations}
    assert {name for type_, name in declared if type_ != DEFINITION} <= registered
    assert declared == rendered(settings, inputs) == guarded(settings, inputs)


@pytest.mark.parametrize("stack", [*COMMITTED, "whole"])
def test_the_stream_can_be_applied_in_its_order(stack: str) -> None:
    """`kubectl apply -f -` finds the namespace of each object, and the definition of its kind."""
    objects = StackObjects(*environment(stack)).manifests()
    place = {(manifest["kind"], manifest["metadata"].get("name", "")): index for index, manifest in enumerate(objects)}
    for index, manifest in enumerate(objects):
        assert place.get(("Namespace", manifest["metadata"].get("namespace")), -1) < index
        group = f".{manifest['apiVersion'].partition('/')[0]}"
        assert all(at < index for (kind, name), at in place.items() if kind == CRD and name.endswith(group))
