"""`render` prints objects in the order in which the program declares them to the engine.

An object is declared after all that it depends on, and created after it. Objects that do not depend on each other are
created at the same time, and reach the engine in an order that varies.
"""

from typing import Any

import pulumi
import pytest

from tests.registrations.recorder import Echo, record
from tests.unit.environments import COMMITTED, committed, decide, decrypted, make_program, of_one_layer, whole
from trainstack.components import operators
from trainstack.components.definitions import Definitions
from trainstack.components.objects import type_and_name
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import Inputs
from trainstack.settings.model import Settings
from trainstack.stacks.assemble import assemble

CRD = "CustomResourceDefinition"
DEFINITION = f"kubernetes:core/v1:{CRD}"
"""The type of definitions in the releases of these environments."""


@pytest.fixture(autouse=True)
def _operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators answer at once."""
    monkeypatch.setattr(operators, "wait_until_accepted", lambda *_: None)


def declared(settings: Settings, inputs: Inputs) -> list[tuple[str, str]]:
    """Type and name of every object that the program declares on an empty cluster, in its order."""
    program, sealed = make_program(settings, inputs), decrypted(settings)
    objects: list[tuple[str, str]] = []

    def keep(args: pulumi.ResourceTransformationArgs) -> None:
        # What has an id is only read.
        if args.type_.startswith("kubernetes:") and args.opts.id is None:
            objects.append((args.type_, args.name))
        # One resource has all definitions of a release.
        if isinstance(args.opts.parent, Definitions):
            recorded: Any = args.props["input"]
            objects.extend((DEFINITION, name) for name in recorded["definitions"])

    def declare() -> None:
        pulumi.runtime.register_stack_transformation(keep)
        assemble(program, pulumi.Output.from_input(sealed) if sealed["secrets"] else None)

    registrations = record(declare, settings.stack, Echo({"kube-system": "here"}))
    registered = {registration.name for registration in registrations}
    assert {name for type_, name in objects if type_ != DEFINITION} <= registered
    return objects


def rendered(settings: Settings, inputs: Inputs) -> list[tuple[str, str]]:
    """Type and name of every object that `render` prints, in its order."""
    return [type_and_name(each) for each in Declared(settings, inputs).manifests()]


def guarded(settings: Settings, inputs: Inputs) -> list[tuple[str, str]]:
    """Type and name of every object that the guards look at before the first write, in their order."""
    return [type_and_name(each) for each in Declared(settings, inputs).manifests(decide(settings, inputs).groups)]


@pytest.mark.parametrize("stack", COMMITTED)
def test_a_committed_environment(stack: str) -> None:
    """The program declares what `render` prints, in its order."""
    settings, inputs = committed(stack)
    assert declared(settings, inputs) == rendered(settings, inputs) == guarded(settings, inputs)


def test_an_environment_with_everything() -> None:
    """Also Secrets, teams, volumes on hosts, all operators, TrainingRuntimes, and sweeps of both forms."""
    settings, inputs = whole()
    assert declared(settings, inputs) == rendered(settings, inputs) == guarded(settings, inputs)


@pytest.mark.parametrize("layer", ["platform", "training"])
def test_a_stack_of_one_layer(layer: str) -> None:
    """The training layer has the Secrets, where it stands alone."""
    settings, inputs = of_one_layer(layer)
    assert declared(settings, inputs) == rendered(settings, inputs) == guarded(settings, inputs)


@pytest.mark.parametrize("stack", [*COMMITTED, "whole"])
def test_the_stream_can_be_applied_in_its_order(stack: str) -> None:
    """`kubectl apply -f -` finds the namespace of each object, and the definition of its kind."""
    objects = Declared(*(whole() if stack == "whole" else committed(stack))).manifests()
    place = {(each["kind"], each["metadata"].get("name", "")): index for index, each in enumerate(objects)}
    for index, each in enumerate(objects):
        assert place.get(("Namespace", each["metadata"].get("namespace")), -1) < index
        group = f".{each['apiVersion'].partition('/')[0]}"
        assert all(at < index for (kind, name), at in place.items() if kind == CRD and name.endswith(group))
