"""What the engine's state holds of this stack, as the program itself can read it before it declares anything."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

_READ = "pulumi:pulumi:readStackResourceOutputs"
"""A function of the engine's built-in provider: the outputs of every resource of a stack, by URN."""


@dataclass(frozen=True)
class StateResource:
    """A resource as the engine last saw it."""

    type: str
    """The type token, such as `kubernetes:batch/v1:Job`."""
    name: str
    """Its Pulumi name."""
    outputs: Mapping[str, Any]
    """Of a Kubernetes object: the whole live object at the last operation or refresh."""


def read_engine_state() -> tuple[StateResource, ...]:
    """The resources that the state of this stack holds now; none before the first `up`.

    It is the state of the running operation, in every backend, so an `up` that was interrupted shows what it recorded.
    """
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    answer = pulumi.runtime.invoke(_READ, {"stackName": name}).value
    return tuple(_resource(urn, each) for urn, each in answer["outputs"].items())


def _resource(urn: str, answer: Mapping[str, Any]) -> StateResource:
    # urn:pulumi:<stack>::<project>::<parent's type>$<type>::<name>; a name may hold `::`.
    *_, types, name = urn.split("::", 3)
    return StateResource(types.rpartition("$")[2], name, answer.get("outputs") or {})
