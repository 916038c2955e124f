"""The expansion of references to variables in a container's program and environment, as Kubernetes does it.

Source: k8s.io/kubernetes/third_party/forked/golang/expansion, and makeEnvironmentVariables of the kubelet.
"""

import re
from collections.abc import Mapping
from typing import Any

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand_variables(text: str, variables: Mapping[str, str | None]) -> str:
    """Replace `$(NAME)` by the variable's value and `$$` by `$`; keep references to unknown variables."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        variable_value = variables.get(match[1])
        return match[0] if variable_value is None else variable_value

    return _REFERENCE.sub(value, text) if "$" in text else text


def referenced_variables(text: str) -> frozenset[str]:
    """Return the names that a text refers to as `$(NAME)`."""
    return frozenset(match[1] for match in _REFERENCE.finditer(text) if match[1] is not None)


def container_variables(container: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the variables of a container; the value is None for a `valueFrom`.

    A variable may refer to those before it.
    """
    variables: dict[str, str | None] = {}
    for variable in container.get("env") or ():
        value = None if "valueFrom" in variable else expand_variables(variable.get("value") or "", variables)
        variables[variable["name"]] = value
    return variables


def container_program(container: Mapping[str, Any]) -> list[str]:
    """Return the command and arguments of a container; only the arguments if the image's entrypoint is the command."""
    variables = container_variables(container)
    return [
        expand_variables(text, variables)
        for text in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]
