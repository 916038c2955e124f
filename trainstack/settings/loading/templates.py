"""Parameters in arguments and variables: `--lr=${parameters.lr}`."""

import re
from collections.abc import Mapping

from trainstack.settings.search_space.constraints import Value

# No shell knows `${word.…}`: whoever writes that means a parameter.
_PLACE = re.compile(r"\$\{(?P<first>parameters|\w+(?=\.))(?P<rest>[^}]*)\}?")
_NAME = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)")


def named(text: str) -> tuple[str, ...]:
    """The parameters that a template names; a place that is not written right stands as it is."""
    found = []
    for place in _PLACE.finditer(text):
        right = place["first"] == "parameters" and place[0].endswith("}")
        name = _NAME.fullmatch(place["rest"]) if right else None
        found.append(name[1] if name else place[0])
    return tuple(found)


def filled(text: str, parameters: Mapping[str, Value]) -> str | None:
    """The template with the parameters' values; None where it names one that is not there."""
    if not parameters.keys() >= set(named(text)):
        return None
    return _PLACE.sub(lambda place: worded(parameters[place["rest"][1:]]), text)


def worded(value: Value) -> str:
    """A value as programs read it: `true`, `32`, `1e-05`, text as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
