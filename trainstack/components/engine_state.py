"""The state of the running operation, which a program reads before it declares resources."""

import pulumi

from trainstack.runs.recorded import StateResource, state_resource

_READ = "pulumi:pulumi:readStackResourceOutputs"
"""A function of the engine's built-in provider: the outputs of every resource of a stack, by URN."""


def read_engine_state() -> tuple[StateResource, ...]:
    """Return the resources of the running operation's state, which has what an interrupted `up` recorded."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    outputs = pulumi.runtime.invoke(_READ, {"stackName": name}).value["outputs"]
    return tuple(state_resource(urn, found.get("outputs")) for urn, found in outputs.items())
