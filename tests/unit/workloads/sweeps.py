"""A planned sweep for the tests of what is launched of it."""

from typing import Any

from tests.unit.make import make_settings, make_sweeps
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import Inputs
from trainstack.sweeps.launches import PlannedSweep


def make_planned(**changes: Any) -> PlannedSweep:
    """The sweep of `make_sweep` in the stack `test`."""
    settings = make_settings(sweeps=make_sweeps(**changes))
    (planned,) = Declared(settings, Inputs(wrapper="print()", commit="abc")).sweeps
    return planned


def make_indexed(**changes: Any) -> PlannedSweep:
    """The same as one Indexed Job, two trials at once."""
    return make_planned(**{"form": "indexed", "parallelism": 2, **changes})
