"""The rules of a `.dockerignore`, as Docker applies them.

The functions follow `ReadAll`, `New`, `compile` and `match` in https://github.com/moby/patternmatcher.
"""

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainstack.files.regular import FileError, read_bytes


@dataclass(frozen=True)
class _IgnoreRule:
    """A pattern of `.dockerignore`."""

    is_exception: bool
    """Whether the pattern starts with `!`, and so includes what it matches."""
    matches: Callable[[str], bool]
    """Return whether the pattern matches a path; the rule then also applies to all files below it."""


class IgnoreRules:
    """The rules of one `.dockerignore`, in their order."""

    def __init__(self, rules: Sequence[_IgnoreRule]) -> None:
        self._rules = rules
        self._applicable_rules_by_folder: dict[str, frozenset[int]] = {"": frozenset()}

    def is_ignored(self, path: str) -> bool:
        """Return whether the last rule that matches a path or one of its parent folders ignores it.

        Without such a rule, the files that Python creates when a program runs are ignored.
        """
        applicable_rules = self._applicable_rules(posixpath.dirname(path))
        for index in reversed(range(len(self._rules))):
            if index in applicable_rules or self._rules[index].matches(path):
                return not self._rules[index].is_exception
        return any(name == "__pycache__" or name.endswith(".pyc") for name in path.split("/"))

    def _applicable_rules(self, folder: str) -> frozenset[int]:
        """Return the indexes of the rules that match a folder or one of its parents. Each folder is matched once."""
        known_rules, new_folders = self._applicable_rules_by_folder, []
        while folder not in known_rules:
            new_folders.append(folder)
            folder = posixpath.dirname(folder)
        rules = known_rules[folder]
        for new_folder in reversed(new_folders):
            rules |= {index for index, rule in enumerate(self._rules) if rule.matches(new_folder)}
            known_rules[new_folder] = rules
        return rules


def read_ignore_rules(context: Path) -> IgnoreRules:
    """Return the rules of a build context's `.dockerignore`. Raises FileError for an invalid one."""
    file = context / ".dockerignore"
    if not file.is_file():
        return IgnoreRules([])
    try:
        text = read_bytes(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(file, f"is not UTF-8 text: {error}; save it as UTF-8") from None
    rules = []
    # `splitlines` would also split at characters that a name may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            rules.append(_parse_rule(line.strip()))
        except ValueError as error:
            problem = f"has an invalid pattern in line {number}, {line.strip()!r}: {error}; correct or remove it"
            raise FileError(file, problem) from None
    return IgnoreRules(rules)


def _parse_rule(line: str) -> _IgnoreRule:
    """Return the rule of a line. Raises ValueError for an invalid pattern."""
    marker = "!" if line.startswith("!") else ""
    pattern = line.removeprefix("!").strip()
    if pattern not in ("", "/"):
        pattern = _clean_path(pattern).removeprefix("/")
    # Docker parses the result again: `./!a` is an exception, too, and `!/` has no pattern.
    pattern = _clean_path(f"{marker}{pattern}".strip())
    if pattern == "!":
        raise ValueError("no name follows `!`")
    return _IgnoreRule(pattern.startswith("!"), _compile_pattern(pattern.removeprefix("!")))


def _clean_path(path: str) -> str:
    """Return a path without `.`, inner `..` and repeated slashes; `normpath` keeps two at the start."""
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path


_WELL_FORMED_START = re.compile(r"(?s)\**+(?:[^*\[\\]|\\.|\[\^?+(?:(?:[^]\\-]|\\.)(?:-(?:[^]\\-]|\\.))?)+\])*(?:\*|\Z)")
"""A pattern up to a `*` behind other characters, as `filepath.Match` of Go accepts it.

Docker checks it with the path `.`, and so reads more only if the first part of the pattern matches this path.
"""
_SPECIAL_CHARACTERS = frozenset("*?[]\\")
_TOKEN = re.compile(r"(?s)(?P<folders>\*\*/?)|(?P<text>\*)|(?P<character>\?)|(?P<escaped>\\.)|(?P<ordinary>[.+()$])")
"""The parts of a pattern that a regular expression has in another form. Docker does not escape `|`, `{` and `}`."""


def _compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return the function that matches a path. Raises ValueError for an invalid pattern.

    `**` matches any number of folders. If the remaining pattern is literal, `**` matches any text at its start or end.
    """
    if not _WELL_FORMED_START.match(pattern):
        raise ValueError("a `[` or a backslash is incomplete, or a `-` or `]` in `[…]` needs a backslash")
    if _is_literal(pattern):
        return lambda path: path == pattern
    if pattern.startswith("**") and _is_literal(suffix := pattern[2:]):
        # `**/name` matches `name`, too.
        return lambda path: path.endswith(suffix) or f"/{path}" == suffix
    if pattern.endswith("**") and _is_literal(prefix := pattern[:-2]):
        return lambda path: path.startswith(prefix)
    return _compile_expression(_translate_pattern(pattern))


def _is_literal(pattern: str) -> bool:
    return _SPECIAL_CHARACTERS.isdisjoint(pattern)


def _translate_pattern(pattern: str) -> str:
    """Return the regular expression of a pattern. As in Docker, the characters in `[…]` are translated, too."""

    def translate(token: re.Match[str]) -> str:
        if token["folders"]:
            return ".*" if token.end() == len(pattern) else "(.*/)?"
        if token["text"]:
            return "[^/]*"
        if token["character"]:
            return "[^/]"
        return token["escaped"] or f"\\{token['ordinary']}"

    return f"^{_TOKEN.sub(translate, pattern)}$"


def _compile_expression(expression: str) -> Callable[[str], bool]:
    """Return the function that searches a path in linear time. Raises ValueError for an invalid expression."""
    import re2  # noqa: PLC0415 (slow to load, and only some folders have a `.dockerignore` with such patterns)

    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    try:
        compiled_expression = re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else reason) from None
    # The bytes of a name that are no UTF-8 are one character each.
    return lambda path: compiled_expression.search(path.encode(errors="replace")) is not None
