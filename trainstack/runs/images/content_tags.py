"""Names of the images that are built from this repository: pure functions of the input files.

An image's name is `registry.local/trainstack/<name>:<tag>`. The tag is a digest of the Dockerfile, the files of the
build context and the build arguments, so settings can name an image before it is built, and an edit yields a new name.
"""

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trainstack.files.regular import FileError, open_regular, read_bytes
from trainstack.files.replacement import LEFTOVER_PATTERN

REGISTRY = "registry.local"
"""A placeholder host: the local cluster pulls every image from its own registry, whatever the host in its name is."""
PROJECT = "trainstack"
BASE_RECIPE = Path(__file__).resolve().parents[3] / "trainstack" / "local_cluster" / "containerfiles" / "base"
"""The build context of the base image: Debian with CPU PyTorch."""

MAX_CONTEXT_BYTES = 64 << 30
"""The maximum total size of a build context. Reading that much takes about a minute."""
_MAX_DATA_MANIFEST_BYTES = 256 << 20
_BLOCK_BYTES = 1 << 20
_TAG_DIGITS = 16
_HEAD_BYTES = 1024
_SETTINGS_FILE = PurePosixPath("workload.yaml")
"""The workload's settings, which images exclude: a run's identity contains those that affect its result."""


def base_reference() -> str:
    """Return the name of the base image, the value of `ARG BASE` in a workload's Dockerfile."""
    return image_reference("base", content_tag(BASE_RECIPE))


def workload_reference(folder: Path, registry: str = REGISTRY) -> str:
    """Return the name of the image that is built from a workload's folder.

    Raises FileNotFoundError if the folder has no Dockerfile.
    """
    dockerfile = folder / "Dockerfile"
    if not dockerfile.is_file():
        raise FileNotFoundError(f"{dockerfile}: no such file; the folder of an image must contain a Dockerfile")
    return image_reference(folder.resolve().name, content_tag(folder, {"BASE": base_reference()}), registry)


def image_reference(name: str, tag: str, registry: str = REGISTRY) -> str:
    return f"{registry}/{PROJECT}/{name}:{tag}"


def content_tag(
    context: Path,
    build_args: Mapping[str, str] | None = None,
    *,
    programs: Mapping[str, Path] | None = None,
) -> str:
    """Return the tag of an image that is built from these inputs: 16 hexadecimal digits.

    `programs` are additional files by their names in the context. Times, owners and modes are ignored, except for the
    executable bit. Raises FileError if the context exceeds MAX_CONTEXT_BYTES.
    """
    digest = hashlib.sha256()
    inputs = {path.as_posix(): context / path for path in context_files(context)}
    if sum(path.lstat().st_size for path in inputs.values()) > MAX_CONTEXT_BYTES:
        raise FileError(context, f"is a build context of more than {MAX_CONTEXT_BYTES >> 30} GiB; ignore some of it")
    for name, path in sorted((inputs | dict(programs or {})).items()):
        _add_to_digest(digest, "file", name, _mode(path))
        _add_file_content(digest, path)
    for key, value in sorted((build_args or {}).items()):
        _add_to_digest(digest, "argument", key, "", value.encode())
    return digest.hexdigest()[:_TAG_DIGITS]


def context_files(context: Path) -> list[PurePosixPath]:
    """Return the files of a build context, relative to it and sorted, without ignored files.

    Symbolic links are not followed. The Dockerfile is always included. The folder's `workload.yaml`, data manifests and
    leftovers of killed commands are always excluded, even if `.dockerignore` includes them. A run's identity already
    contains the digest of the data, and an edit of the memory or of the data must not yield a new image.
    """
    ignore_rules = _IgnoreRules(_read_ignore_rules(context))
    paths = (
        PurePosixPath(path.relative_to(context).as_posix())
        for path in context.rglob("*")
        if path.is_symlink() or path.is_file()
    )
    return sorted(
        path
        for path in paths
        if path.as_posix() == "Dockerfile"
        or not (
            path == _SETTINGS_FILE
            or path.match(LEFTOVER_PATTERN)
            or ignore_rules.is_ignored(path.as_posix())
            or _is_data_manifest(context / path)
        )
    )


def _is_data_manifest(path: Path) -> bool:
    """Return whether a file is a data manifest: JSON whose `files` map names to entries with `sha256` and `size`.

    A manifest is identified by content, not by name. Each environment can name its own manifest, and the same folder
    must yield the same image in all environments.
    """
    if path.is_symlink():
        return False
    with open_regular(path) as file:
        if not file.read(_HEAD_BYTES).lstrip().startswith(b"{"):
            return False
    try:
        content = read_bytes(path, _MAX_DATA_MANIFEST_BYTES)
    except FileError:
        return False
    if b'"sha256"' not in content:
        return False
    try:
        files = json.loads(content).get("files")
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(files, dict)
        and bool(files)
        and all(isinstance(entry, dict) and {"sha256", "size"} <= entry.keys() for entry in files.values())
    )


def _mode(path: Path) -> str:
    if path.is_symlink():
        return "link"
    return "executable" if path.stat().st_mode & 0o100 else "plain"


def _add_to_digest(digest: "hashlib._Hash", *parts: str | bytes) -> None:
    """Add parts to a digest, with their lengths so that different inputs never yield the same bytes."""
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)


def _add_file_content(digest: "hashlib._Hash", path: Path) -> None:
    if path.is_symlink():
        _add_to_digest(digest, str(path.readlink()))
        return
    with open_regular(path) as file:
        digest.update(f"{os.fstat(file.fileno()).st_size}:".encode())
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)


@dataclass(frozen=True)
class _IgnoreRule:
    """A pattern of `.dockerignore`."""

    is_exception: bool
    """Whether the pattern starts with `!`, and so includes what it matches."""
    matches: Callable[[str], bool]
    """Return whether the pattern matches a path; the rule then also applies to all files below it."""


class _IgnoreRules:
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


def _read_ignore_rules(context: Path) -> list[_IgnoreRule]:
    """Return the rules of a build context's `.dockerignore`.

    This and the functions below do what Docker does: `ReadAll`, `New`, `compile` and `match` in
    https://github.com/moby/patternmatcher
    """
    file = context / ".dockerignore"
    if not file.is_file():
        return []
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
    return rules


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
