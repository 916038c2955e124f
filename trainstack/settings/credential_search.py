"""The search of an environment's settings for credentials in plain text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainstack.settings.model import Settings
from trainstack.settings.values.credential_text import CredentialMatch, find_in_field, find_in_text, find_in_variable
from trainstack.settings.values.paths import child_path, named_element_paths

_SECTIONS = ("environment", "cluster", "storage", "queues", "operators", "tenants", "objects", "workloads", "sweeps")
_REFERENCES = ("secretEnv", "manifest")
"""Keys that are not searched: references to Secrets, and addresses of releases, which are used on this machine only."""
_GENERATED_FIELDS = {"sweeps": {"__all__": {"expansion", "sets_text"}}}
"""The fields of sweeps that repeat the values of their spaces."""


def find_credentials(settings: Settings) -> Iterator[tuple[str, CredentialMatch]]:
    """Yield the path of each value that contains a credential, with the most certain of its credentials."""
    for name in _SECTIONS:
        exclude = _GENERATED_FIELDS if name == "sweeps" else None
        section = getattr(settings, name).model_dump(by_alias=True, exclude_defaults=True, exclude=exclude)
        for path, candidates in _find_in_value(name, "", section):
            by_certainty = sorted(candidates, key=lambda credential: (not credential.is_certain, not credential.name))
            if by_certainty:
                yield path, by_certainty[0]


def _find_in_value(path: str, key: str, value: Any) -> Iterator[tuple[str, list[CredentialMatch]]]:
    if isinstance(value, str):
        yield path, list(find_in_field(key, value))
    elif isinstance(value, Mapping) and key == "env":
        yield from _find_in_variables(path, value)
    elif isinstance(value, Mapping) and key == "parameters" and path.endswith(".space.parameters"):
        yield from _find_in_parameters(path, value)
    elif isinstance(value, Mapping):
        yield from _find_in_map(path, value)
    elif isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        yield from _find_in_words(path, value)
    elif isinstance(value, list | tuple):
        names = [item.get("name") if isinstance(item, Mapping) else None for item in value]
        own_paths = named_element_paths(path, [name if isinstance(name, str) else None for name in names])
        for own_path, item in zip(own_paths, value, strict=True):
            yield from _find_in_value(own_path, "", item)


def _find_in_map(path: str, value: Mapping[str, Any]) -> Iterator[tuple[str, list[CredentialMatch]]]:
    name, text = value.get("name"), value.get("value")
    not_examined: tuple[str, ...] = _REFERENCES
    if isinstance(name, str) and isinstance(text, str):
        # A variable, or a header, of Kubernetes.
        yield child_path(path, "value"), list(find_in_variable(name, text))
        not_examined = (*_REFERENCES, "value")
    for key, item in value.items():
        if key not in not_examined:
            yield from _find_in_value(child_path(path, str(key)), str(key), item)


def _find_in_variables(path: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, list[CredentialMatch]]]:
    for name, value in variables.items():
        own_path = child_path(path, str(name))
        if isinstance(value, str):
            yield own_path, list(find_in_variable(str(name), value))
        else:
            yield from _find_in_value(own_path, str(name), value)


def _find_in_parameters(path: str, parameters: Mapping[str, Any]) -> Iterator[tuple[str, list[CredentialMatch]]]:
    """Yield the credentials in the values of a sweep's parameters, which programs receive by parameter name."""
    for name, parameter in parameters.items():
        values = [value for key in ("values", "categorical") for value in parameter.get(key) or ()]
        yield (
            child_path(path, name),
            [credential for value in values for credential in find_in_variable(name, str(value))],
        )


def _find_in_words(path: str, words: Sequence[str]) -> Iterator[tuple[str, list[CredentialMatch]]]:
    """Yield the credentials in a list of arguments, or of values."""
    paths = named_element_paths(path, [None] * len(words))
    for own_path, previous_word, word in zip(paths, ("", *words[:-1]), words, strict=True):
        is_value = previous_word.startswith("-") and "=" not in previous_word and not word.startswith("-")
        yield own_path, list(find_in_variable(previous_word, word) if is_value else find_in_text(word))
    # The words of a login command are separate arguments, so the whole command is searched too.
    joined = " ".join(words)
    if len(words) > 1 and not any(any(find_in_text(word)) for word in words):
        yield path, [credential for credential in find_in_text(joined) if not credential.name]
