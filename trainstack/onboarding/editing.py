"""Additions to a YAML file that keep comments, order and all other lines. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from trainstack.errors import TrainstackError

_WIDTH = 110
"""The greatest length of a map on one line."""
_MARK = "\ufeff"
"""The byte order mark."""
_ENDS = re.compile(r"\r\n|\r|\n")
_INDENTS = ((4, 2), (2, 0))
"""The usual indents of a list's elements, and of their dashes."""


@dataclass(frozen=True)
class Entry:
    """One element for one list of a file, or with `whole` the value of one key."""

    path: tuple[str, ...]
    """The keys, created if missing; for an environment, the first is the section: `("queues", "localQueues")`."""
    value: object
    whole: bool = False
    comment: str = ""
    """A comment for the line above."""


def with_entries(text: str, entries: Iterable[Entry]) -> str:
    """Add entries to the text of an environment's file; see `with_added`."""
    return with_added(
        text, (replace(entry, path=("config", f"trainstack:{entry.path[0]}", *entry.path[1:])) for entry in entries)
    )


def with_added(text: str, entries: Iterable[Entry]) -> str:
    """Add entries to the text of a file.

    A file whose maps are not indented by two spaces is rewritten with two spaces. Line endings, a byte order mark and a
    missing end of the last line are kept. Raises TrainstackError if the text is not valid YAML, or if a value is not
    the list or map that the path requires.
    """
    added = list(entries)
    if not added:
        return text
    mark = _MARK if text.startswith(_MARK) else ""
    body = text.removeprefix(mark)
    return mark + _with_ends(body, _edited(_ENDS.sub("\n", body), added))


def _with_ends(before: str, after: str) -> str:
    """Restore the line endings; new lines have the most frequent one."""
    ends = _ENDS.findall(before)
    usual = Counter(ends).most_common(1)[0][0] if ends else "\n"
    old, new = _ENDS.split(before), after.split("\n")
    kept = dict.fromkeys(range(len(new)), usual)
    if len(set(ends)) > 1:
        for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
            kept.update(enumerate(ends[block.a : block.a + block.size], block.b))
    written = "".join(line + kept[index] for index, line in enumerate(new[:-1])) + new[-1]
    return written if not before or _ENDS.search(before[-1]) else written.removesuffix(usual)


def _edited(text: str, entries: list[Entry]) -> str:
    if text and not text.endswith("\n"):
        text += "\n"
    lines = text.splitlines(keepends=True)
    tree = _parsed(text)
    dumped = {indent: _dumped(tree, indent).splitlines(keepends=True) for indent in _INDENTS}
    indent = min(_INDENTS, key=lambda candidate: _differing(lines, dumped[candidate]))
    untouched = dumped[indent]
    for entry in entries:
        _add(tree, entry, sum(indent))
    edited = _dumped(tree, indent).splitlines(keepends=True)
    whole = "".join(edited)
    # Lines with the file's own indent and with the library's may not be combined to the same data.
    for kept in (lines, untouched):
        if len(kept) == len(untouched) and _is_equal(mixed := _mixed(kept, untouched, edited), _parsed(whole)):
            return mixed
    return whole


def _mixed(kept: Sequence[str], untouched: Sequence[str], edited: Sequence[str]) -> str:
    """Return the edited lines, with the original text of lines that only the library's style changed."""
    result: list[str] = []
    for tag, start, end, first, last in SequenceMatcher(None, untouched, edited, autojunk=False).get_opcodes():
        if tag == "equal":
            result += kept[start:end]
        else:
            comments = _following_comments(result, edited[first]) if tag == "insert" else []
            result += [*edited[first:last], *comments]
    return "".join(result)


def _is_equal(text: str, tree: CommentedMap) -> bool:
    try:
        return _parsed(text) == tree
    except TrainstackError:
        return False


def _following_comments(above: list[str], added: str) -> list[str]:
    """Remove and return the last comments and empty lines, which belong to the key after the added line.

    The library attaches a comment to the value before it, so that a new key would separate it from its own.
    """
    following: list[str] = []
    while above and (
        not above[-1].strip() or (above[-1].lstrip().startswith("#") and _column(above[-1]) < _column(added))
    ):
        following.insert(0, above.pop())
    return following


def _column(line: str) -> int:
    return len(line) - len(line.lstrip())


def _differing(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(
        max(end - start, last - first)
        for tag, start, end, first, last in SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
        if tag != "equal"
    )


def _yaml(indent: tuple[int, int]) -> YAML:
    yaml = YAML()
    yaml.width = 4096
    yaml.preserve_quotes = True
    yaml.indent(mapping=2, sequence=indent[0], offset=indent[1])
    yaml.representer.add_representer(
        type(None), lambda representer, _: representer.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml


def _parsed(text: str) -> CommentedMap:
    try:
        tree = _yaml(_INDENTS[0]).load(text)
    except YAMLError as error:
        raise TrainstackError(f"not YAML: {error}") from error
    if tree is None:
        tree = CommentedMap()
    if not isinstance(tree, CommentedMap):
        raise TrainstackError("the file is not a map; write `key: value` lines")
    return tree


def _dumped(tree: CommentedMap, indent: tuple[int, int]) -> str:
    stream = StringIO()
    _yaml(indent).dump(tree, stream)
    return stream.getvalue()


def _add(tree: CommentedMap, entry: Entry, step: int) -> None:
    parent, path = tree, entry.path
    for key in path[:-1]:
        parent = _child(parent, key, CommentedMap)
    last, value, column = path[-1], _styled(entry.value), 2 * (len(path) - 1)
    if entry.whole:
        parent[last] = value
        if entry.comment:
            parent.yaml_set_comment_before_after_key(last, before=entry.comment, indent=column)
        return
    elements = _child(parent, last, CommentedSeq)
    if not elements and isinstance(value, CommentedMap):
        elements.fa.set_block_style()
    elif not elements:
        elements.fa.set_flow_style()
    elements.append(value)
    if entry.comment:
        elements.yaml_set_comment_before_after_key(len(elements) - 1, before=entry.comment, indent=column + step - 4)


def _child(parent: CommentedMap, key: str, kind: type[Any]) -> Any:
    if parent.get(key) is None:
        parent[key] = kind()
    if not isinstance(parent[key], kind):
        raise TrainstackError(f"{key} is not a {'list' if kind is CommentedSeq else 'map'}")
    return parent[key]


def _styled(value: object) -> Any:
    """Write short maps and lists of scalars on one line, and all other values in block style."""
    if isinstance(value, Mapping):
        styled = CommentedMap({key: _styled(item) for key, item in value.items()})
        flat = not any(isinstance(item, Mapping) or _has_maps(item) for item in value.values())
        if value and flat and len(str(dict(value))) <= _WIDTH:
            styled.fa.set_flow_style()
        return styled
    if isinstance(value, list | tuple):
        elements = CommentedSeq(_styled(item) for item in value)
        if not _has_maps(value):
            elements.fa.set_flow_style()
        return elements
    return value


def _has_maps(value: object) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)
