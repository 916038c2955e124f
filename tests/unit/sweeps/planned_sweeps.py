"""A planned sweep for the tests of its launches."""

from dataclasses import replace
from typing import Any

from tests.unit.make import make_settings, make_sweeps
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.sweeps.planned_sweep import PlannedSweep


def make_planned(*, dispatches: bool = False, **changes: Any) -> PlannedSweep:
    """Return the sweep of `make_sweep` in the stack `test`."""
    settings = make_settings(sweeps=make_sweeps(**changes))
    (planned,) = StackObjects(settings, Inputs(wrapper="print()", commit="abc")).sweeps
    return replace(planned, dispatches=dispatches)


def make_indexed(**changes: Any) -> PlannedSweep:
    """Return the same sweep as one Indexed Job with two trials at once."""
    return make_planned(**{"form": "indexed", "parallelism": 2, **changes})
