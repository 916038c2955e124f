"""Adding to a file of settings as a person would: comments, order and every other line stay as they are.

Pure: from a file's text to the text that it would have.
"""

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

_WIDTH = 110
"""Characters of a map that still stands on one line."""
_MARK = "\ufeff"
"""The byte order mark, with which some editors begin a file."""
_ENDS = re.compile(r"\r\n|\r|\n")
_INDENTS = ((4, 2), (2, 0))
"""How far the elements of a list are indented, and their dashes: the two ways in which people write them."""


@dataclass(frozen=True)
class Entry:
    """One element for one list of a file, or with `whole` the value of one key."""

    path: tuple[str, ...]
    """The keys that lead there, of an environment from its section on: `("queues", "localQueues")`. Maps and lists on
    the way are made."""
    value: object
    whole: bool = False
    comment: str = ""
    """What to say in the line above."""


def with_entries(text: str, entries: Iterable[Entry]) -> str:
    """The text of an environment's file with these added; see `with_added`."""
    return with_added(
        text, (replace(each, path=("config", f"trainstack:{each.path[0]}", *each.path[1:])) for each in entries)
    )


def with_added(text: str, entries: Iterable[Entry]) -> str:
    """The text of a file with these added.

    A file in which maps are not indented by two spaces is written anew as a whole: same data and comments, two spaces.
    Line endings, a byte order mark and a missing end of the last line are kept.

    Raises ValueError when the text is no YAML, or has another value where a list or a map is to be.
    """
    wanted = list(entries)
    if not wanted:
        return text
    mark = _MARK if text.startswith(_MARK) else ""
    body = text.removeprefix(mark)
    return mark + _with_ends(body, _edited(_ENDS.sub("\n", body), wanted))


def _with_ends(before: str, after: str) -> str:
    """The edited text with the line endings of the one before: of each line its own, of new ones the most frequent."""
    ends = _ENDS.findall(before)
    usual = Counter(ends).most_common(1)[0][0] if ends else "\n"
    old, new = _ENDS.split(before), after.split("\n")
    kept = dict.fromkeys(range(len(new)), usual)
    if len(set(ends)) > 1:
        for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
            kept.update(enumerate(ends[block.a : block.a + block.size], block.b))
    written = "".join(line + kept[index] for index, line in enumerate(new[:-1])) + new[-1]
    return written if not before or _ENDS.search(before[-1]) else written.removesuffix(usual)


def _edited(text: str, wanted: list[Entry]) -> str:
    if text and not text.endswith("\n"):
        text += "\n"
    lines = text.splitlines(keepends=True)
    tree = _parsed(text)
    written = {indent: _dumped(tree, indent).splitlines(keepends=True) for indent in _INDENTS}
    indent = min(_INDENTS, key=lambda each: _differing(lines, written[each]))
    untouched = written[indent]
    for entry in wanted:
        _add(tree, entry, sum(indent))
    edited = _dumped(tree, indent).splitlines(keepends=True)
    whole = "".join(edited)
    # Lines of people's own indent and of the library's do not fit together everywhere.
    for kept in (lines, untouched):
        if len(kept) == len(untouched) and _says(mixed := _mixed(kept, untouched, edited), _parsed(whole)):
            return mixed
    return whole


def _mixed(kept: Sequence[str], untouched: Sequence[str], edited: Sequence[str]) -> str:
    """The edited lines, but for those that the edit did not touch, which are kept.

    The library writes a few things in its own way (spaces in brackets, `null`): such lines are taken as they were.
    """
    result: list[str] = []
    for tag, start, end, first, last in SequenceMatcher(None, untouched, edited, autojunk=False).get_opcodes():
        if tag == "equal":
            result += kept[start:end]
        else:
            below = _of_what_follows(result, edited[first]) if tag == "insert" else []
            result += [*edited[first:last], *below]
    return "".join(result)


def _says(text: str, tree: CommentedMap) -> bool:
    try:
        return _parsed(text) == tree
    except ValueError:
        return False


def _of_what_follows(above: list[str], added: str) -> list[str]:
    """Take away, and return, the comments and empty lines at the end that belong to what comes after the added line.

    The library keeps a comment with the value before it, so that a new key would come between it and its own.
    """
    taken: list[str] = []
    while above and (not above[-1].strip() or (_is_comment(above[-1]) and _column(above[-1]) < _column(added))):
        taken.insert(0, above.pop())
    return taken


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


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
        raise ValueError(f"not YAML: {error}") from error
    if tree is None:
        tree = CommentedMap()
    if not isinstance(tree, CommentedMap):
        raise ValueError("the file is not a map; write `key: value` lines")  # noqa: TRY004 (a fault of the file)
    return tree


def _dumped(tree: CommentedMap, indent: tuple[int, int]) -> str:
    stream = StringIO()
    _yaml(indent).dump(tree, stream)
    return stream.getvalue()


def _add(tree: CommentedMap, entry: Entry, step: int) -> None:
    place, path = tree, entry.path
    for key in path[:-1]:
        place = _child(place, key, CommentedMap)
    last, value, column = path[-1], _styled(entry.value), 2 * (len(path) - 1)
    if entry.whole:
        place[last] = value
        if entry.comment:
            place.yaml_set_comment_before_after_key(last, before=entry.comment, indent=column)
        return
    elements = _child(place, last, CommentedSeq)
    if not elements and isinstance(value, CommentedMap):
        elements.fa.set_block_style()
    elif not elements:
        elements.fa.set_flow_style()
    elements.append(value)
    if entry.comment:
        elements.yaml_set_comment_before_after_key(len(elements) - 1, before=entry.comment, indent=column + step - 4)


def _child(place: CommentedMap, key: str, kind: type[Any]) -> Any:
    """What stands under the key, made where it is missing or null."""
    if place.get(key) is None:
        place[key] = kind()
    if not isinstance(place[key], kind):
        raise ValueError(f"{key} is not a {'list' if kind is CommentedSeq else 'map'}")  # noqa: TRY004 (as above)
    return place[key]


def _styled(value: object) -> Any:
    """The value as people write it: short maps and lists of words on one line, everything else below each other."""
    if isinstance(value, Mapping):
        made = CommentedMap({key: _styled(each) for key, each in value.items()})
        flat = not any(isinstance(each, Mapping) or _of_maps(each) for each in value.values())
        if value and flat and len(str(dict(value))) <= _WIDTH:
            made.fa.set_flow_style()
        return made
    if isinstance(value, list | tuple):
        listed = CommentedSeq(_styled(each) for each in value)
        if not _of_maps(value):
            listed.fa.set_flow_style()
        return listed
    return value


def _of_maps(value: object) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value)
