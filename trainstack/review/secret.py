"""Keeping secrets out of what is shown: the engine says `[secret]`, and this is for where it would not."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HIDDEN = "[secret]"
"""What stands for a secret, as in the engine's own output."""
SIGNATURE = "4dabf18193072939515e22adb298388d"
"""The key that marks a special value in the engine's JSON.

Source: https://github.com/pulumi/pulumi/blob/master/sdk/go/common/resource/sig/sig.go
"""

_NAMES = re.compile(r"PASSPHRASE|PASSWORD|TOKEN|SECRET|CREDENTIAL|KUBECONFIG|(^|_)KEY($|_)", re.IGNORECASE)
_FILES = re.compile(r"_FILE$|^KUBECONFIG$")
"""Variables that name a file, which is no secret."""
_SHORTEST = 6
"""Characters: a shorter value of a variable is a word like `true`, and hiding it would black out innocent text."""
_KEPT = ("apiVersion", "kind", "metadata", "type", "immutable")
_PROPERTY = re.compile(r"^(?P<lead>[\s+\-~]*)(?P<key>[^\s:]+)\s*: ?(?P<value>.*)$")


class LeakError(Exception):
    """The engine gave a secret in plain text. Nothing of its output is kept."""


def refuse_plaintext(value: object) -> None:
    """Raise LeakError where a value of the engine's JSON holds a decrypted secret."""
    if isinstance(value, Mapping):
        if SIGNATURE in value and "plaintext" in value:
            raise LeakError(
                "the preview's JSON holds a secret in plain text, so nothing of it is kept: run the preview without "
                "--show-secrets"
            )
        for each in value.values():
            refuse_plaintext(each)
    elif isinstance(value, list):
        for each in value:
            refuse_plaintext(each)


def of_environment(variables: Mapping[str, str]) -> set[str]:
    """The values of variables that are secrets by their name, and each line of those that have several."""
    values = {value for name, value in variables.items() if _NAMES.search(name) and not _FILES.search(name)}
    lines = {line.strip() for value in values for line in value.splitlines()}
    # The lines of a kubeconfig: of `token: abc` it is the value that must not be seen.
    words = {line.rpartition(": ")[2].strip("\"'") for line in lines if ": " in line and _is_credential(line)}
    return {value for value in values | words if len(value) >= _SHORTEST}


def of_config(stored: object, shown: object) -> Iterator[str]:
    """The decrypted values of a stack's configuration.

    Args:
        stored: the stack file's `config`, where a secret is a map with the one key `secure`.
        shown: the same with secrets decrypted.

    """
    if isinstance(stored, Mapping) and set(stored) == {"secure"}:
        yield from _scalars(shown)
    elif isinstance(stored, Mapping) and isinstance(shown, Mapping):
        for key, value in stored.items():
            yield from of_config(value, shown.get(key))
    elif isinstance(stored, list) and isinstance(shown, list):
        for one, other in zip(stored, shown, strict=False):
            yield from of_config(one, other)


def mask(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret hidden, the longest first."""
    for secret in sorted({each for each in secrets if each.strip()}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def without_secret_data(lines: list[str]) -> list[str]:
    """The lines of a Kubernetes Secret in a diff, of which only what is no secret by its place is kept."""
    result: list[str] = []
    depth: int | None = None
    top = next((_column(line) for line in lines[1:] if _is_property(line)), None)
    for line in lines:
        column = _column(line)
        if depth is not None:
            if not line.strip() or column > depth or line.strip(" +-~") in ("}", "]"):
                continue
            depth = None
        match = _PROPERTY.match(line)
        if match and column == top and match["key"] not in _KEPT and _is_property(line):
            result.append(f"{match['lead']}{match['key']}: {HIDDEN}")
            depth = column
        else:
            result.append(line)
    return result


def _is_property(line: str) -> bool:
    match = _PROPERTY.match(line)
    return match is not None and not match["key"].startswith("[")


def _is_credential(line: str) -> bool:
    key = line.partition(":")[0].strip(" -")
    return key in ("token", "password", "client-key-data", "client-certificate-data", "id-token", "refresh-token")


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" +-~"))


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _scalars(each)
    elif isinstance(value, list):
        for each in value:
            yield from _scalars(each)
    elif isinstance(value, str) and value:
        yield value
