"""Parameters in arguments and variables: `--lr=${parameters.lr}`."""

import re
from collections.abc import Mapping

from trainstack.settings.search_space.constraints import Value

# No shell expands `${word.…}`, so such a text is a reference, perhaps a misspelled one.
_PLACE = re.compile(r"\$\{(?P<first>parameters|\w+(?=\.))(?P<rest>[^}]*)\}?")
_NAME = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)")


def named(text: str) -> tuple[str, ...]:
    """Return the names of the parameters in a template; a malformed reference is returned verbatim, with its `$`."""
    found = []
    for place in _PLACE.finditer(text):
        well_formed = place["first"] == "parameters" and place[0].endswith("}")
        name = _NAME.fullmatch(place["rest"]) if well_formed else None
        found.append(name[1] if name else place[0])
    return tuple(found)


def filled(text: str, parameters: Mapping[str, Value]) -> str | None:
    """Return the template with the parameters' values; None if it refers to a missing parameter."""
    if not parameters.keys() >= set(named(text)):
        return None
    return _PLACE.sub(lambda place: format_value(parameters[place["rest"][1:]]), text)


def format_value(value: Value) -> str:
    """Format a value for a program: `true`, `32`, `1e-05`, strings verbatim."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
