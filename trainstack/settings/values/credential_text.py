"""The definition of a credential in plain text. Every check of the settings for credentials uses this module.

A value is certainly a credential if it has the form of a known token, or belongs to a well-known variable; it probably
is one if its name suggests it. References such as `$(HF_TOKEN)`, placeholders, paths and words such as `true` are not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trainstack.settings.values.credential_names import (
    CredentialKind,
    credential_kind,
    is_well_known,
    refers_to_secret,
    word_set,
)

HIDDEN = "[credential]"
"""Replaces a credential in messages."""
_CERTAIN_LENGTH = 8
"""The least length, in characters, at which the value of a well-known variable is certainly a credential."""
_SIGNIFICANT = re.compile(r"[A-Za-z0-9]")

_TOKEN_FORMATS = {
    "an AWS access key id": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    "a private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[^-]*|\bAGE-SECRET-KEY-1[A-Z0-9]{20,}",
    "a JSON Web Token": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}",
    "a Hugging Face token": r"\b(?:hf_|api_org_)[A-Za-z0-9]{12,}",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}",
    "a GitLab token": r"\bgl(?:pat|dt|rt|cbt|ptt|ft|agent|oas|soat)-[\w-]{16,}",
    "an API key": r"\bsk-(?=[\w-]{0,60}?[A-Za-z0-9]{12})[\w-]{16,}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,}",
    "a Slack token": r"\bxox[abeoprs]-[\w-]{10,}|\bxapp-[\w-]{10,}|hooks\.slack\.com/services/\w+/\w+/\w+",
    "a Google credential": r"\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}",
    "an NVIDIA API key": r"\bnvapi-[\w-]{20,}",
    "a Weights & Biases API key": r"\bwandb_v\d_\w{20,}",
    "a Pulumi access token": r"\bpul-[a-f0-9]{40}\b",
    "a registry token": r"\bdckr_(?:pat|oat)_[\w-]{16,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-AgE[\w-]{20,}",
    "a Vault token": r"\bhv[sbr]\.[\w-]{20,}",
    "an API token": r"\br8_[A-Za-z0-9]{20,}|\bgsk_[A-Za-z0-9]{20,}|\bdop_v1_[a-f0-9]{40,}|\bSG\.[\w-]{16,}\.[\w-]{16,}",
    "a signed address": r"[?&](?:sig|X-Amz-Signature|X-Goog-Signature)=[\w%+/=-]{20,}",
}
"""Regular expressions of known tokens, by the token's description."""
_TOKEN_PATTERNS = {what: re.compile(pattern) for what, pattern in _TOKEN_FORMATS.items()}
_HINTS = re.compile(
    r"AKIA|ASIA|ABIA|ACCA|-----BEGIN|AGE-SECRET|eyJ|hf_|api_org_|gh[pousr]_|github_pat_|gl[a-z]+-|sk-|k_live_|k_test_"
    r"|xox|xapp-|hooks\.slack|AIza|ya29|GOCSPX|nvapi-|wandb_v|pul-|dckr_|npm_|pypi-|hv[sbr]\.|r8_|gsk_|dop_v1_|SG\.|[?&]"
)
_URL = re.compile(r"\b(?P<scheme>[a-z][a-z0-9+.-]{0,30})://(?P<user>[^\s/?#@\"'<>]{0,2000})@", re.IGNORECASE)
_SCP = re.compile(r"[^/@]*:[^/@]+@")
"""User information with a password in the form `user:password@host:path`."""
_HEADER = re.compile(
    r"authorization[\"'\\]*\s*[:=]\s*[\"'\\]*(?:bearer|basic|token)\s+(?P<value>[^\s\"'\\]{4,4000})"
    r"|\bbearer\s+(?P<bare>(?=[^\s\"'\\]*[0-9$])[^\s\"'\\]{12,4000})",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"\bwandb\s+login\s+(?:--?[\w-]+\s+)*(?P<wandb>[A-Za-z0-9_]{20,})"
    r"|\bwandb\.login\([^)\n]{0,200}?key\s?=\s?[\"'](?P<key>[^\"'\n]{4,200})"
    r"|\bcurl\b[^|;\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?(?P<user>[^\s:\"']+:[^\s\"']+)"
    r"|\b(?:docker|podman|buildah|skopeo)\s+login\b[^|;\n]{0,300}?\s-p[ =]?[\"']?(?P<registry>[^\s\"']+)"
    r"|\bsshpass\s+-p\s*(?P<ssh>\S+)"
    r"|\baws\s+configure\s+set\s+[\w.]{0,60}(?:secret_access_key|session_token)\s+(?P<aws>\S+)"
    r"|\bmachine\s+\S{1,200}\s+login\s+\S{1,200}\s+password\s+(?P<netrc>[^\s\"']+)"
)
"""Credentials in login commands and in lines of ~/.netrc."""
_CERTAIN_LOGINS = ("wandb", "key", "aws")

_PLACEHOLDER_WORDS = word_set(
    """
    any auto bool bytes default disabled dummy empty enabled fake false float hidden int n/a na nil no none null object
    off on optional placeholder redacted required str string true undefined unset yes
    """
)
"""Values that are never credentials, whatever their names."""
_NAME = re.compile(r"-*[A-Za-z_][\w.-]*")
_VALUE = re.compile(
    r"\\?\"(?P<double>[^\"\n]{0,4000}?)\\?\"|\\?'(?P<single>[^'\n]{0,4000}?)\\?'"
    r"|(?P<bare>(?![{\[]\w*[ :,])[^\s\"'`,;|<>\\&]{1,4000})"
)
_ASSIGNMENT = re.compile(r"(?P<quoted>\\?[\"']\]?)?(?P<separator>[ \t]{0,20}[=:][ \t]{0,20})")
_SPACE = re.compile(r"(?P<quoted>[\"'])?(?:\s|\\\n){1,20}(?![\"']?-)")
"""The space between an argument and its value."""
_OPENING = {")": "(", "]": "[", "}": "{"}
_DEFAULT = re.compile(r"\$\{\w+:?[-=](?P<text>[^}$]*)\}")
_REFERENCE = re.compile(
    r"\$?\$\([^)]*\)?|\$\{[^}]*\}?|\$[\w*@#?!]+|%[A-Za-z_]\w*%|%\(\w+\)s|\{\{.*?\}\}|\{\w+\}|<[^>]*>|`[^`]*`|\[\w+\]"
)
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[\w./@+-]*|\w+://.*|[\w./-]+\.(?:cfg|conf|crt|csv|env|json|key|pem|py|sh|toml|txt|ya?ml)"
)
_EXPRESSION = re.compile(r"[A-Z][A-Za-z]*|[A-Za-z_]\w*[.(\[].*")
"""A type, a call or an attribute in a program."""
_BLANK = re.compile(r"(?i)[x*._-]+|your[ _-].*|.*[ _-]here|\.\.\.")


@dataclass(frozen=True)
class CredentialMatch:
    """A credential in a text, without its value."""

    description: str
    """`a GitHub token`, or `the value of HF_TOKEN`."""
    start: int
    end: int
    """The position of the credential in the text: its first character, and the one behind its last."""
    is_certain: bool = True
    name: str = ""
    """The variable, argument or key whose value it is; empty if the form alone identifies it."""


def find_in_text(text: str) -> Iterator[CredentialMatch]:
    """Yield the credentials in a text: tokens, user information in addresses, headers, logins, and values of names."""
    yield from _find_tokens(text)
    yield from _find_in_addresses(text)
    for header in _HEADER.finditer(text):
        group = "value" if header["value"] is not None else "bare"
        if _literal_part(header[group]):
            yield CredentialMatch("a token in an authorization header", *header.span(group))
    for login in _LOGIN.finditer(text):
        group = login.lastgroup or ""
        value = login[group]
        if _literal_part(value) and not re.fullmatch(r"\d+:\d+", value):
            yield CredentialMatch("the credential of a login", *login.span(group), is_certain=group in _CERTAIN_LOGINS)
    yield from _find_assigned_values(text)


def find_in_variable(name: str, value: str) -> Iterator[CredentialMatch]:
    """Yield the credentials in the value of a variable, an argument or a key."""
    yield from find_in_text(value)
    kind = credential_kind(name)
    if kind and _is_credential(kind, value):
        yield _make_named_match(name, value, 0, len(value))


def find_in_field(name: str, value: str) -> Iterator[CredentialMatch]:
    """Yield the credentials in a field of an object, where the value of `key` or `…Secret` refers to a Secret."""
    yield from find_in_text(value) if refers_to_secret(name) else find_in_variable(name, value)


def address_has_credential(address: str) -> bool:
    """Return whether the address of a repository contains a password or a token.

    User information in an https address is either; in an ssh address, only the part after a colon.
    """
    if any(_find_tokens(address)):
        return True
    url = re.match(r"(?P<scheme>[A-Za-z]+)://(?P<user>[^/]*)@", address)
    if url is None:
        return _SCP.match(address) is not None and "://" not in address
    return url["scheme"].lower() in ("http", "https") or ":" in url["user"]


def conceal_credentials(text: str) -> str:
    """Return the text with each credential replaced by HIDDEN; overlapping credentials are replaced together."""
    output, end = "", 0
    for match in sorted(find_in_text(text), key=lambda credential: credential.start):
        if match.end > end:
            output += text[end : match.start] + HIDDEN if match.start >= end else ""
            end = match.end
    return output + text[end:]


def _find_tokens(text: str) -> Iterator[CredentialMatch]:
    if _HINTS.search(text):
        for what, pattern in _TOKEN_PATTERNS.items():
            yield from (CredentialMatch(what, *match.span()) for match in pattern.finditer(text))


def _find_in_addresses(text: str) -> Iterator[CredentialMatch]:
    for url in _URL.finditer(text) if "://" in text else ():
        user, colon, password = url["user"].partition(":")
        if colon and password and _literal_part(password):
            yield CredentialMatch("a password in an address", *url.span("user"))
        elif not colon and url["scheme"].lower() in ("http", "https") and user != "git" and _literal_part(user):
            yield CredentialMatch("user information in an address", *url.span("user"), is_certain=False)


def _find_assigned_values(text: str) -> Iterator[CredentialMatch]:
    """Yield the values of names: `--api-key x`, `API_KEY=x`, `api_key: x`, `"api_key": "x"`."""
    for word in _NAME.finditer(text):
        name, flag = word[0].lstrip("-"), word[0].startswith("-")
        if not (kind := credential_kind(name)):
            continue
        separator = _ASSIGNMENT.match(text, word.end()) or (_SPACE.match(text, word.end()) if flag else None)
        value = _VALUE.match(text, separator.end()) if separator else None
        if separator is None or value is None or (":" in separator[0] and refers_to_secret(name)):
            continue
        group = value.lastgroup or "bare"
        content = _strip_closing_brackets(value[group]) if group == "bare" else value[group]
        # In a script, an unquoted word is often an expression; a flag's value, or a text of one assignment, is not.
        is_whole = word.start() == 0 and value.end() == len(text)
        if group == "bare" and not flag and not is_whole and not _is_literal_assignment(text, word, separator, content):
            continue
        if _is_credential(kind, content):
            start = value.start(group)
            yield _make_named_match(word[0], content, start, start + len(content))


def _strip_closing_brackets(value: str) -> str:
    """Return an unquoted value without closing brackets at its end that belong to the text around it."""
    while value[-1:] in _OPENING and _OPENING[value[-1]] not in value:
        value = value[:-1]
    return value


def _is_literal_assignment(text: str, name: re.Match[str], separator: re.Match[str], value: str) -> bool:
    """Return whether an unquoted value in a script is a literal of a shell or of YAML, and not an expression."""
    if separator["quoted"]:
        return False
    if separator[0] == "=" and name[0].upper() == name[0]:
        return True
    line = text[text.rfind("\n", 0, name.start()) + 1 : name.start()].strip(" -")
    if ":" in separator[0] and not line and not _EXPRESSION.fullmatch(value.lstrip()):
        return True
    has_both = re.search("[0-9]", value) and re.search("[A-Za-z]", value)
    return bool(has_both) and len(value) >= _CERTAIN_LENGTH and not re.search(r"[(\[]", value)


def _make_named_match(name: str, value: str, start: int, end: int) -> CredentialMatch:
    is_key = "wandb" in name.lower() and re.fullmatch("[0-9a-f]{40}", value)
    is_certain = bool(is_key) or (is_well_known(name.lstrip("-")) and len(value.strip()) >= _CERTAIN_LENGTH)
    return CredentialMatch(f"the value of {name}", start, end, is_certain, name)


def _is_credential(kind: CredentialKind, value: str) -> bool:
    literal = _literal_part(value)
    if _NUMBER.fullmatch(literal):
        return kind == "password" and len(literal) >= 4
    min_length = {"password": 1, "key": 4, "token": 6}[kind]
    return len(literal) >= min_length


def _literal_part(value: str) -> str:
    """Return the part of a value that is neither a reference to a variable nor a placeholder; it may be empty."""
    text = _SCHEME.sub("", value.strip().strip("\"'\\").strip(), count=1)
    text = _DEFAULT.sub(lambda default: default["text"], text)
    literal = _REFERENCE.sub("", text).strip(" \"':@/")
    if literal != text and len(literal) < _CERTAIN_LENGTH and _REFERENCE.search(text):
        return ""
    if (
        not _SIGNIFICANT.search(literal)
        or literal.lower() in _PLACEHOLDER_WORDS
        or _BLANK.fullmatch(literal)
        or _PATH.fullmatch(text)
    ):
        return ""
    return literal
