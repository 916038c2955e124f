"""What Kubernetes makes of references to variables in a container's program and environment.

Source: k8s.io/kubernetes/third_party/forked/golang/expansion, and makeEnvironmentVariables of the kubelet.
"""

import re
from collections.abc import Mapping
from typing import Any

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expanded(text: str, variables: Mapping[str, str | None]) -> str:
    """Replace `$(NAME)` by a variable's value, and `$$` by `$`; other texts, and unknown values, stay."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        known = variables.get(match[1])
        return match[0] if known is None else known

    return _REFERENCE.sub(value, text) if "$" in text else text


def environment(container: Mapping[str, Any]) -> dict[str, str | None]:
    """The variables of a container, each of which may refer to those before it; None for a value from elsewhere."""
    variables: dict[str, str | None] = {}
    for variable in container.get("env") or ():
        own = None if "valueFrom" in variable else expanded(variable.get("value") or "", variables)
        variables[variable["name"]] = own
    return variables


def program(container: Mapping[str, Any]) -> list[str]:
    """The command and arguments of a container; without a command, those after the image's entrypoint."""
    variables = environment(container)
    return [expanded(text, variables) for text in (*(container.get("command") or ()), *(container.get("args") or ()))]
