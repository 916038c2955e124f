"""Additions to the text of a YAML file, whose comments, order and other lines stay unchanged. Pure."""

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
"""The maximum length of a map on one line, in characters."""
_BYTE_ORDER_MARK = "\ufeff"
"""The byte order mark."""
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_INDENTS = ((4, 2), (2, 0))
"""The usual indents of a list's elements, and of their dashes."""


@dataclass(frozen=True)
class FileAddition:
    """An element for a list of a file, or with `replaces_value` the value of a key."""

    path: tuple[str, ...]
    """The keys, created if missing; for an environment, the first is the section: `("queues", "localQueues")`."""
    value: object
    replaces_value: bool = False
    comment: str = ""
    """A comment for the line above the element; empty for none."""


def add_section_entries(text: str, entries: Iterable[FileAddition]) -> str:
    """Add entries to the text of an environment's file; see `add_entries`."""
    return add_entries(
        text, (replace(entry, path=("config", f"trainstack:{entry.path[0]}", *entry.path[1:])) for entry in entries)
    )


def add_entries(text: str, entries: Iterable[FileAddition]) -> str:
    """Add entries to the text of a file.

    A file whose maps are not indented by two spaces is rewritten with two spaces. Line endings, a byte order mark and a
    missing end of the last line stay unchanged.

    Raises TrainstackError if the text is not valid YAML, or if a value is not the list or map that the path requires.
    """
    additions = list(entries)
    if not additions:
        return text
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    body = text.removeprefix(mark)
    return mark + _restore_line_ends(body, _edit_text(_LINE_ENDS.sub("\n", body), additions))


def _restore_line_ends(original: str, edited: str) -> str:
    """Return the edited text with the line endings of the original; new lines get the most frequent one."""
    line_ends = _LINE_ENDS.findall(original)
    usual_end = Counter(line_ends).most_common(1)[0][0] if line_ends else "\n"
    old_lines, new_lines = _LINE_ENDS.split(original), edited.split("\n")
    ends_by_line = dict.fromkeys(range(len(new_lines)), usual_end)
    if len(set(line_ends)) > 1:
        for block in SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_matching_blocks():
            ends_by_line.update(enumerate(line_ends[block.a : block.a + block.size], block.b))
    text = "".join(line + ends_by_line[index] for index, line in enumerate(new_lines[:-1])) + new_lines[-1]
    return text if not original or _LINE_ENDS.search(original[-1]) else text.removesuffix(usual_end)


def _edit_text(text: str, entries: list[FileAddition]) -> str:
    """Add entries to a text whose line ending is a line feed.

    The library changes the style of lines that no entry concerns. So the text is dumped before and after the additions,
    and only the differences between both dumps are applied to the original lines.
    """
    if text and not text.endswith("\n"):
        text += "\n"
    lines = text.splitlines(keepends=True)
    tree = _parse(text)
    dumps_by_indent = {indent: _dump(tree, indent).splitlines(keepends=True) for indent in _INDENTS}
    indent = min(_INDENTS, key=lambda candidate: _count_differing_lines(lines, dumps_by_indent[candidate]))
    untouched_lines = dumps_by_indent[indent]
    for entry in entries:
        _add_to_tree(tree, entry, sum(indent))
    edited_lines = _dump(tree, indent).splitlines(keepends=True)
    edited_text = "".join(edited_lines)
    # A mix of lines with the file's indent and with the library's may be other data: then use the library's lines only.
    for original_lines in (lines, untouched_lines):
        if len(original_lines) == len(untouched_lines) and _is_equal(
            restored_text := _restore_style(original_lines, untouched_lines, edited_lines), _parse(edited_text)
        ):
            return restored_text
    return edited_text


def _restore_style(original_lines: Sequence[str], untouched_lines: Sequence[str], edited_lines: Sequence[str]) -> str:
    """Return the edited lines, but with the original text of lines in which only the library's style differs."""
    restored_lines: list[str] = []
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(
        None, untouched_lines, edited_lines, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            restored_lines += original_lines[old_start:old_end]
        else:
            comments = _following_comments(restored_lines, edited_lines[new_start]) if tag == "insert" else []
            restored_lines += [*edited_lines[new_start:new_end], *comments]
    return "".join(restored_lines)


def _is_equal(text: str, tree: CommentedMap) -> bool:
    try:
        return _parse(text) == tree
    except TrainstackError:
        return False


def _following_comments(preceding_lines: list[str], added_line: str) -> list[str]:
    """Remove and return the last comments and empty lines, which belong to the key after the added line.

    The library attaches a comment to the preceding value, so that an added key would separate it from its key.
    """
    comments: list[str] = []
    while preceding_lines and (
        not preceding_lines[-1].strip()
        or (preceding_lines[-1].lstrip().startswith("#") and _column(preceding_lines[-1]) < _column(added_line))
    ):
        comments.insert(0, preceding_lines.pop())
    return comments


def _column(line: str) -> int:
    return len(line) - len(line.lstrip())


def _count_differing_lines(old_lines: Sequence[str], new_lines: Sequence[str]) -> int:
    return sum(
        max(old_end - old_start, new_end - new_start)
        for tag, old_start, old_end, new_start, new_end in SequenceMatcher(
            None, old_lines, new_lines, autojunk=False
        ).get_opcodes()
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


def _parse(text: str) -> CommentedMap:
    try:
        tree = _yaml(_INDENTS[0]).load(text)
    except YAMLError as error:
        raise TrainstackError(f"not YAML: {error}") from error
    if tree is None:
        tree = CommentedMap()
    if not isinstance(tree, CommentedMap):
        raise TrainstackError("the file is not a map; write `key: value` lines")
    return tree


def _dump(tree: CommentedMap, indent: tuple[int, int]) -> str:
    stream = StringIO()
    _yaml(indent).dump(tree, stream)
    return stream.getvalue()


def _add_to_tree(tree: CommentedMap, entry: FileAddition, step: int) -> None:
    parent, path = tree, entry.path
    for key in path[:-1]:
        parent = _get_or_create_child(parent, key, CommentedMap)
    last_key, value, column = path[-1], _with_style(entry.value), 2 * (len(path) - 1)
    if entry.replaces_value:
        parent[last_key] = value
        if entry.comment:
            parent.yaml_set_comment_before_after_key(last_key, before=entry.comment, indent=column)
        return
    elements = _get_or_create_child(parent, last_key, CommentedSeq)
    if not elements and isinstance(value, CommentedMap):
        elements.fa.set_block_style()
    elif not elements:
        elements.fa.set_flow_style()
    elements.append(value)
    if entry.comment:
        elements.yaml_set_comment_before_after_key(len(elements) - 1, before=entry.comment, indent=column + step - 4)


def _get_or_create_child(parent: CommentedMap, key: str, container_type: type[Any]) -> Any:
    if parent.get(key) is None:
        parent[key] = container_type()
    if not isinstance(parent[key], container_type):
        raise TrainstackError(f"{key} is not a {'list' if container_type is CommentedSeq else 'map'}")
    return parent[key]


def _with_style(value: object) -> Any:
    """Return a value with its style: short maps and lists of scalars on one line, all others in block style."""
    if isinstance(value, Mapping):
        styled_map = CommentedMap({key: _with_style(element) for key, element in value.items()})
        is_flat = not any(isinstance(element, Mapping) or _has_maps(element) for element in value.values())
        if value and is_flat and len(str(dict(value))) <= _WIDTH:
            styled_map.fa.set_flow_style()
        return styled_map
    if isinstance(value, list | tuple):
        elements = CommentedSeq(_with_style(element) for element in value)
        if not _has_maps(value):
            elements.fa.set_flow_style()
        return elements
    return value


def _has_maps(value: object) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(element, Mapping) for element in value)
