"""The registrations of an `up` of an environment on an empty cluster, recorded once for all tests."""

from functools import cache
from typing import Any

import pulumi
import pytest

from tests.registrations.recorder import Echo, Registration, record
from tests.unit.environments import COMMITTED, committed, decrypted, make_program, of_one_layer, whole
from trainstack.components import operators
from trainstack.components.definitions import Definitions
from trainstack.settings.model import Settings
from trainstack.stack_objects.inputs import Inputs
from trainstack.stacks.assemble import assemble

CRD = "CustomResourceDefinition"
DEFINITION = f"kubernetes:core/v1:{CRD}"
"""The type of definitions in the releases."""


def environment(name: str) -> tuple[Settings, Inputs]:
    """Return a committed environment, the one with everything (`whole`), or one layer of it."""
    if name in COMMITTED:
        return committed(name)
    return whole() if name == "whole" else of_one_layer(name)


@cache
def recorded(name: str) -> tuple[list[Registration], list[tuple[str, str]]]:
    """Return all registrations, and type and name of every object in the order in which the program declares them.

    Operators respond at once.
    """
    settings, inputs = environment(name)
    program, sealed = make_program(settings, inputs), decrypted(settings)
    objects: list[tuple[str, str]] = []

    def keep(args: pulumi.ResourceTransformationArgs) -> None:
        # A resource with an id is only read.
        if args.type_.startswith("kubernetes:") and args.opts.id is None:
            objects.append((args.type_, args.name))
        # One resource has all definitions of a release.
        if isinstance(args.opts.parent, Definitions):
            definitions: Any = args.props["input"]
            objects.extend((DEFINITION, name) for name in definitions["definitions"])

    def declare() -> None:
        pulumi.runtime.register_stack_transformation(keep)
        assemble(program, pulumi.Output.from_input(sealed) if sealed["secrets"] else None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "wait_until_accepted", lambda *_: None)
        patch.setattr(operators, "migrate_stored_objects", lambda *_: [])
        patch.setattr(operators, "add_runtime_patches", lambda *_: [])
        registrations = record(declare, settings.stack, Echo({"kube-system": "here"}))
    return registrations, objects
