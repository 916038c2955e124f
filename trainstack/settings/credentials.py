"""The search of an environment's settings for credentials in plain text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainstack.settings.model import Settings
from trainstack.settings.values.credentials import Credential, in_text, of_field, of_variable
from trainstack.settings.values.paths import child, elements

_SECTIONS = ("environment", "cluster", "storage", "queues", "operators", "tenants", "workloads", "sweeps")
_REFERENCES = ("secretEnv", "manifest")
"""Keys that are not searched: references to Secrets, and addresses of releases, which are used on this machine only."""
_GENERATED = {"sweeps": {"__all__": {"expansion", "sets_text"}}}
"""The fields of sweeps that repeat the values of their spaces."""


def credentials(settings: Settings) -> Iterator[tuple[str, Credential]]:
    """Yield the path of each value that contains a credential, with the most certain of its credentials."""
    for name in _SECTIONS:
        exclude = _GENERATED if name == "sweeps" else None
        section = getattr(settings, name).model_dump(by_alias=True, exclude_defaults=True, exclude=exclude)
        for path, found in _below(name, "", section):
            best = sorted(found, key=lambda credential: (not credential.is_certain, not credential.name))
            if best:
                yield path, best[0]


def _below(path: str, key: str, value: Any) -> Iterator[tuple[str, list[Credential]]]:
    if isinstance(value, str):
        yield path, list(of_field(key, value))
    elif isinstance(value, Mapping) and key == "env":
        yield from _in_variables(path, value)
    elif isinstance(value, Mapping) and key == "parameters" and path.endswith(".space.parameters"):
        yield from _in_parameters(path, value)
    elif isinstance(value, Mapping):
        yield from _in_map(path, value)
    elif isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        yield from _in_words(path, value)
    elif isinstance(value, list | tuple):
        names = [item.get("name") if isinstance(item, Mapping) else None for item in value]
        own_paths = elements(path, [name if isinstance(name, str) else None for name in names])
        for own_path, item in zip(own_paths, value, strict=True):
            yield from _below(own_path, "", item)


def _in_map(path: str, value: Mapping[str, Any]) -> Iterator[tuple[str, list[Credential]]]:
    name, text = value.get("name"), value.get("value")
    not_examined: tuple[str, ...] = _REFERENCES
    if isinstance(name, str) and isinstance(text, str):
        # A variable, or a header, of Kubernetes.
        yield child(path, "value"), list(of_variable(name, text))
        not_examined = (*_REFERENCES, "value")
    for key, item in value.items():
        if key not in not_examined:
            yield from _below(child(path, str(key)), str(key), item)


def _in_variables(path: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, list[Credential]]]:
    for name, value in variables.items():
        own_path = child(path, str(name))
        if isinstance(value, str):
            yield own_path, list(of_variable(str(name), value))
        else:
            yield from _below(own_path, str(name), value)


def _in_parameters(path: str, parameters: Mapping[str, Any]) -> Iterator[tuple[str, list[Credential]]]:
    """Yield the credentials in the values of a sweep's parameters, which programs receive by parameter name."""
    for name, parameter in parameters.items():
        values = [value for way in ("values", "categorical") for value in parameter.get(way) or ()]
        yield child(path, name), [found for value in values for found in of_variable(name, str(value))]


def _in_words(path: str, words: Sequence[str]) -> Iterator[tuple[str, list[Credential]]]:
    """Yield the credentials in a list of arguments, or of values."""
    paths = elements(path, [None] * len(words))
    for own_path, before, word in zip(paths, ("", *words[:-1]), words, strict=True):
        is_value = before.startswith("-") and "=" not in before and not word.startswith("-")
        yield own_path, list(of_variable(before, word) if is_value else in_text(word))
    # The words of a login command are separate arguments, so the whole command is searched too.
    joined = " ".join(words)
    if len(words) > 1 and not any(any(in_text(word)) for word in words):
        yield path, [found for found in in_text(joined) if not found.name]
