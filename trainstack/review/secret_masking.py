"""The masking of secrets in all output. The engine masks its own secrets; this module masks the others."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainstack.errors import TrainstackError

HIDDEN = "[secret]"
"""The replacement of a secret, the same as in the engine's own output."""
SIGNATURE = "4dabf18193072939515e22adb298388d"
"""The key that marks a special value in the engine's JSON.

Source: https://github.com/pulumi/pulumi/blob/master/sdk/go/common/resource/sig/sig.go
"""

_SECRET_NAMES = re.compile(r"PASSPHRASE|PASSWORD|TOKEN|SECRET|CREDENTIAL|KUBECONFIG|(^|_)KEY($|_)", re.IGNORECASE)
_FILE_NAMES = re.compile(r"_FILE$|^KUBECONFIG$")
"""Variables whose value is a file name, which is not secret."""
_MIN_LENGTH = 6
"""The minimum length of a secret; shorter values are words such as `true`, whose masking would hide other text."""
_SHOWN_PROPERTIES = ("apiVersion", "kind", "metadata", "type", "immutable")
_CREDENTIAL_KEYS = ("token", "password", "client-key-data", "client-certificate-data", "id-token", "refresh-token")
_PROPERTY = re.compile(r"^(?P<lead>[\s+\-~]*)(?P<key>[^\s:]+)\s*: ?(?P<value>.*)$")


class LeakError(TrainstackError):
    """The engine printed a secret in plain text, so its output was discarded."""


def refuse_plaintext(value: object) -> None:
    """Raise LeakError if a value of the engine's JSON contains a decrypted secret."""
    if isinstance(value, Mapping):
        if SIGNATURE in value and "plaintext" in value:
            raise LeakError(
                "the preview's JSON contains a secret in plain text and was discarded; run the preview without "
                "--show-secrets"
            )
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            refuse_plaintext(element)


def environment_secrets(variables: Mapping[str, str]) -> set[str]:
    """Return the values of the variables with secret names, and the credentials in their lines."""
    values = {value for name, value in variables.items() if _SECRET_NAMES.search(name) and not _FILE_NAMES.search(name)}
    lines = {line.strip() for value in values for line in value.splitlines()}
    # In a line `token: abc` of a kubeconfig, only the value is secret.
    pairs = (line.rpartition(": ") for line in lines if line.partition(":")[0].strip(" -") in _CREDENTIAL_KEYS)
    credentials = {value.strip("\"'") for _, colon, value in pairs if colon}
    return {value for value in values | credentials if len(value) >= _MIN_LENGTH}


def config_secrets(stored: object, decrypted: object) -> Iterator[str]:
    """Yield the decrypted secrets of a stack's configuration.

    `stored`: the configuration in the stack's file, in which a secret is a map with `secure` as its only key.
    `decrypted`: the same configuration with plain values.
    """
    if isinstance(stored, Mapping) and set(stored) == {"secure"}:
        yield from _scalars(decrypted)
    elif isinstance(stored, Mapping) and isinstance(decrypted, Mapping):
        for key, value in stored.items():
            yield from config_secrets(value, decrypted.get(key))
    elif isinstance(stored, list) and isinstance(decrypted, list):
        for stored_element, decrypted_element in zip(stored, decrypted, strict=False):
            yield from config_secrets(stored_element, decrypted_element)


def mask(text: str, secrets: Iterable[str]) -> str:
    """Replace each secret in the text; the longest first, since a secret may contain another one."""
    for secret in sorted({value for value in secrets if value.strip()}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def mask_secret_data(lines: list[str]) -> list[str]:
    """Return the lines of a Kubernetes Secret in a diff, with masked values of all properties that may be secret."""
    result: list[str] = []
    masked_column: int | None = None
    top_column = next((_column(line) for line in lines[1:] if _match_property(line)), None)
    for line in lines:
        column = _column(line)
        # Skip the nested lines of a masked property, up to the next line at its column.
        if masked_column is not None:
            if not line.strip() or column > masked_column or line.strip(" +-~") in ("}", "]"):
                continue
            masked_column = None
        match = _match_property(line)
        if match and column == top_column and match["key"] not in _SHOWN_PROPERTIES:
            result.append(f"{match['lead']}{match['key']}: {HIDDEN}")
            masked_column = column
        else:
            result.append(line)
    return result


def _match_property(line: str) -> re.Match[str] | None:
    match = _PROPERTY.match(line)
    return match if match and not match["key"].startswith("[") else None


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" +-~"))


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            yield from _scalars(element)
    elif isinstance(value, str) and value:
        yield value
