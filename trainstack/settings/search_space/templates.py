"""Parameters in arguments and variables: `--lr=${parameters.lr}`."""

import re
from collections.abc import Mapping

from trainstack.settings.search_space.constraints import Value

# No shell expands `${word.…}`, so such a text is a reference, perhaps a misspelled one.
_REFERENCE = re.compile(r"\$\{(?P<first>parameters|\w+(?=\.))(?P<rest>[^}]*)\}?")
_NAME = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)")


def referenced_parameters(template: str) -> tuple[str, ...]:
    """Return the names of the parameters in a template; a malformed reference is returned verbatim, with its `$`."""
    references = []
    for reference in _REFERENCE.finditer(template):
        well_formed = reference["first"] == "parameters" and reference[0].endswith("}")
        name = _NAME.fullmatch(reference["rest"]) if well_formed else None
        references.append(name[1] if name else reference[0])
    return tuple(references)


def fill_template(template: str, parameters: Mapping[str, Value]) -> str | None:
    """Return the template with the parameters' values; None if it refers to a missing parameter."""
    if not parameters.keys() >= set(referenced_parameters(template)):
        return None
    return _REFERENCE.sub(lambda reference: format_value(parameters[reference["rest"][1:]]), template)


def format_value(value: Value) -> str:
    """Format a value for a program: `true`, `32`, `1e-05`, strings verbatim."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
