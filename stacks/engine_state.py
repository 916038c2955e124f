"""What the engine's state holds of this stack, as the program itself can read it before it declares anything."""

import pulumi

from checks.recorded import StateResource, state_resource

_READ = "pulumi:pulumi:readStackResourceOutputs"
"""A function of the engine's built-in provider: the outputs of every resource of a stack, by URN."""


def read_engine_state() -> tuple[StateResource, ...]:
    """The resources that the state of this stack holds now; none before the first `up`.

    It is the state of the running operation, in every backend, so an `up` that was interrupted shows what it recorded.
    """
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    answer = pulumi.runtime.invoke(_READ, {"stackName": name}).value
    return tuple(state_resource(urn, found.get("outputs")) for urn, found in answer["outputs"].items())
