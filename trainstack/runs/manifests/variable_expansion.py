"""The expansion of references to variables in a container's program and environment, as Kubernetes does it.

Source: k8s.io/kubernetes/third_party/forked/golang/expansion, and makeEnvironmentVariables of the kubelet.
"""

import re
from collections.abc import Mapping
from typing import Any

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expanded(text: str, variables: Mapping[str, str | None]) -> str:
    """Replace `$(NAME)` by the variable's value and `$$` by `$`; keep references to unknown variables."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        known = variables.get(match[1])
        return match[0] if known is None else known

    return _REFERENCE.sub(value, text) if "$" in text else text


def environment(container: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the variables of a container; the value is None for a `valueFrom`.

    A variable may refer to those before it.
    """
    variables: dict[str, str | None] = {}
    for variable in container.get("env") or ():
        own = None if "valueFrom" in variable else expanded(variable.get("value") or "", variables)
        variables[variable["name"]] = own
    return variables


def program(container: Mapping[str, Any]) -> list[str]:
    """Return the command and arguments of a container; only the arguments if the image's entrypoint is the command."""
    variables = environment(container)
    return [expanded(text, variables) for text in (*(container.get("command") or ()), *(container.get("args") or ()))]
