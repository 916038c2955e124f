"""Families of objects that differ in names, arguments, variables, labels and annotations only: trials of one sweep."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import prod
from typing import Any

from trainstack.onboarding.convert.documents import InputObject
from trainstack.onboarding.convert.texts import Flow
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.hyperparams import format_sets
from trainstack.settings.search_space.space import MAX_INT64, MIN_INT64, Space
from trainstack.settings.search_space.space_rules import MAX_SETS, faults_of_space
from trainstack.settings.search_space.templates import format_value, referenced_parameters
from trainstack.settings.values.paths import child_path, named_element_paths
from trainstack.sweeps.search.expand import expand

_TOKENS = re.compile(r"""[\s=,;:"'|&<>()/]+""")
"""The text between the words of a command or a value."""
_FINE_TOKENS = re.compile("[-_]+")
_FLAG = re.compile(r"--?[A-Za-z]")
_NOT_IN_NAME = re.compile("[^A-Za-z0-9_]+")
_NUMBER = re.compile(r"-?[0-9]+|-?[0-9]*\.[0-9]+([eE][-+]?[0-9]+)?|-?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_LEAST_MEMBERS = 2
_MAX_LISTED_VALUES = 20
_MAX_NAME = 40
"""Characters of a sweep's name: its trials' names have a number after it, and labels contain a hash too."""
_KUEUE_PREFIX = "kueue.x-k8s.io/"
_MASK = "\0"
"""Replaces a value in the text by which objects are compared."""


@dataclass(frozen=True, order=True)
class _Leaf:
    """A text that may differ between the members of a family."""

    path: str
    text: str
    masked: str
    """The text without its values; equal in all members."""
    hint: str = ""
    """The name for the parameter: that of the variable, label or flag."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """Objects that are the trials of one sweep, in the order of their numbers."""

    name: str
    members: tuple[InputObject, ...]
    space: Mapping[str, Any]
    """The content of space.yaml."""
    sets_text: str
    """The text of hyperparams.yml."""


def find_families(sources: Sequence[InputObject], taken_names: Iterable[str]) -> list[Family]:
    """Return the families of at least two objects. An object with the same set as an earlier one is in no family."""
    groups = defaultdict[str, list[tuple[InputObject, list[_Leaf]]]](list)
    for source in sources:
        leaves = list[_Leaf]()
        skeleton = _mask(source.body, "", leaves)
        groups[json.dumps(skeleton, sort_keys=True)].append((source, leaves))
    names = {*taken_names}
    families = []
    for members in groups.values():
        if (
            len(members) >= _LEAST_MEMBERS
            and "name" in members[0][0].metadata
            and (family := _build_family(members, names))
        ):
            families.append(family)
            names.add(family.name)
    return families


def _mask(value: Any, path: str, leaves: list[_Leaf], key: str = "") -> Any:
    """Return a value with masks for what may differ, and add the texts to `leaves`."""
    if isinstance(value, Mapping):
        return {name: _mask_entry(value, str(name), path, leaves, key) for name in value}
    if isinstance(value, list):
        names = [item.get("name") if isinstance(item, Mapping) else None for item in value]
        paths = named_element_paths(path, [name if isinstance(name, str) else None for name in names])
        if key in ("command", "args") and all(isinstance(item, str) for item in value):
            return _mask_program(value, list(paths), leaves)
        return [_mask(item, item_path, leaves, key) for item, item_path in zip(value, paths, strict=True)]
    return value


def _mask_entry(parent: Mapping[str, Any], name: str, path: str, leaves: list[_Leaf], key: str) -> Any:
    value, child = parent[name], child_path(path, name)
    if child == "metadata.name":
        return _MASK
    is_variable = key == "env" and name == "value"
    # Kueue's labels select the queue and the priority, which a sweep has once.
    is_own_key = key in ("labels", "annotations") and not name.startswith(_KUEUE_PREFIX)
    if isinstance(value, str) and (is_variable or is_own_key):
        hint = str(parent.get("name")) if is_variable else name
        leaves.append(_Leaf(child, value, _MASK, hint))
        return _MASK
    # The key of a list remains that of its elements, such as `env`.
    return _mask(value, child, leaves, "" if key == "env" else name)


def _mask_program(words: Sequence[str], paths: Sequence[str], leaves: list[_Leaf]) -> list[str]:
    masked_words = []
    previous = ""
    for word, path in zip(words, paths, strict=True):
        masked = _mask_values(word, previous)
        leaves.append(_Leaf(path, word, masked, previous if _FLAG.match(previous) else ""))
        masked_words.append(masked)
        previous = word
    return masked_words


def _mask_values(text: str, previous: str = "") -> str:
    """Return a text of a program with masks for numbers, and for words after flags and equal signs."""
    masked = []
    for separator, word in _words(text):
        is_value = _FLAG.match(previous) or separator.endswith("=")
        is_masked = not _FLAG.match(word) and (is_value or any(map(str.isdigit, word)))
        masked.append(separator + (_MASK if is_masked else word))
        previous = word
    return "".join(masked)


def _words(text: str, tokens: re.Pattern[str] = _TOKENS) -> Iterator[tuple[str, str]]:
    """Yield the words of a text, each with the separator before it; the last word may be empty."""
    start, separator = 0, ""
    for match in tokens.finditer(text):
        yield separator, text[start : match.start()]
        start, separator = match.end(), match[0]
    yield separator, text[start:]


Column = tuple[str, ...]
"""The texts of all members at one place."""
Parts = list[tuple[str | Column, str]]
"""A text of all members: what is the same, and columns, each with a name for its parameter."""


class _Parameters:
    """The parameters of a family: columns of values, one for each member."""

    def __init__(self) -> None:
        self.columns: dict[str, Column] = {}

    def add_numbers(self, parts: Parts) -> None:
        """Add parameters for the numbers of a text, before texts that contain the same numbers."""
        for column, hint in parts:
            if not isinstance(column, str) and all(map(_NUMBER.fullmatch, column)):
                self._name_of(column, hint)

    def template(self, parts: Parts) -> str:
        """Return the text with references to parameters, which are added."""
        return "".join(part if isinstance(part, str) else self._reference(part, hint) for part, hint in parts)

    def _reference(self, column: Column, hint: str) -> str:
        if column not in self.columns.values() and (composed := self._compose(column)):
            return composed
        return f"${{parameters.{self._name_of(column, hint)}}}"

    def _compose(self, column: Column) -> str:
        """Return a column's text by other columns, such as the path `0.1-32` of a rate and a size; empty if not."""
        parts = _split_columns(column, _FINE_TOKENS)
        if len(parts) < 2 or not all(isinstance(part, str) or part in self.columns.values() for part, _ in parts):
            return ""
        return self.template(parts)

    def _name_of(self, column: Column, hint: str) -> str:
        """Return the name of the parameter with the values of the column; a new one if there is none yet."""
        for name, known_column in self.columns.items():
            if known_column == column:
                return name
        base = _NOT_IN_NAME.sub("_", hint.partition("/")[2] or hint).strip("_").lower() or "value"
        base = f"p_{base}" if base[0].isdigit() else base
        name = next(name for name in _numbered(base) if name not in self.columns)
        self.columns[name] = column
        return name


def _numbered(base: str) -> Iterator[str]:
    yield base
    yield from (f"{base}_{number}" for number in range(2, MAX_SETS))


def _build_family(members: Sequence[tuple[InputObject, list[_Leaf]]], taken_names: set[str]) -> Family | None:
    ordered = _in_order_of_names(members)
    parts_by_path = dict[str, Parts]()
    for leaf_versions in zip(*(leaves for _, leaves in ordered), strict=True):
        texts = tuple(leaf.text for leaf in leaf_versions)
        if len(set(texts)) > 1:
            parts_by_path[leaf_versions[0].path] = _split_columns(texts, _TOKENS, leaf_versions[0].hint)
    parameters = _Parameters()
    for parts in parts_by_path.values():
        parameters.add_numbers(parts)
    fields = {path: parameters.template(parts) for path, parts in parts_by_path.items()}
    sets = _typed_sets(parameters.columns)
    distinct: dict[str, int] = {}
    for index, values in enumerate(sets):
        distinct.setdefault(json.dumps(values), index)
    indices = list(distinct.values())[:MAX_SETS]
    sources = [ordered[index][0] for index in indices]
    if len(indices) < _LEAST_MEMBERS or any(map(referenced_parameters, _literals(ordered))):
        return None
    name = _sweep_name([source.name for source in sources], taken_names, sources[0].kind)
    content = _space_content([sets[index] for index in indices], fields)
    space = Space.model_validate_json(json.dumps(content), by_alias=True, by_name=False)
    if any(faults_of_space(space)):
        return None
    return Family(name=name, members=tuple(sources), space=content, sets_text=format_sets(name, space, expand(space)))


def _literals(members: Sequence[tuple[InputObject, list[_Leaf]]]) -> Iterator[str]:
    """Yield the texts that a template may not be able to contain."""
    return (leaf.text for _, leaves in members for leaf in leaves if "${" in leaf.text)


def _in_order_of_names(
    members: Sequence[tuple[InputObject, list[_Leaf]]],
) -> Sequence[tuple[InputObject, list[_Leaf]]]:
    """Return the members by the numbers at the ends of their names if these count from 1; else in their order."""
    numbers = [re.search("[0-9]+$", source.name) for source, _ in members]
    if all(numbers):
        numbered = sorted(((int(match[0]), index) for index, match in enumerate(numbers) if match))
        if [number for number, _ in numbered] == list(range(1, len(members) + 1)):
            return [members[index] for _, index in numbered]
    return members


def _split_columns(column: Column, tokens: re.Pattern[str], hint: str = "") -> Parts:
    """Return the words of texts that are the same in all members, and columns of the others.

    The whole column if the texts do not have the same separators.
    """
    words_by_member = [list(_words(text, tokens)) for text in column]
    if len({tuple(separator for separator, _ in words) for words in words_by_member}) > 1:
        return [(column, hint)]
    parts: Parts = []
    previous = ""
    for position, (separator, first_word) in enumerate(words_by_member[0]):
        words = tuple(member[position][1] for member in words_by_member)
        is_named = _FLAG.match(previous) or separator.endswith("=")
        parts += [(separator, ""), (first_word if len(set(words)) == 1 else words, previous if is_named else hint)]
        previous = first_word
    return [(part, part_hint) for part, part_hint in parts if part]


def _typed_sets(columns: Mapping[str, tuple[str, ...]]) -> list[dict[str, Value]]:
    """Return the sets with numbers where their texts are the same in every member."""
    typed_columns = {name: _typed_column(column) for name, column in columns.items()}
    count = len(next(iter(columns.values()), ()))
    return [{name: column[index] for name, column in typed_columns.items()} for index in range(count)]


def _typed_column(column: tuple[str, ...]) -> Sequence[Value]:
    for convert in (int, float):
        if all(_NUMBER.fullmatch(text) for text in column):
            values: list[Value] = []
            for text in column:
                try:
                    values.append(convert(text))
                except ValueError:
                    break
            is_exact = [format_value(value) for value in values] == [*column]
            if is_exact and all(MIN_INT64 <= value <= MAX_INT64 for value in values if isinstance(value, int)):
                return values
    return column


def _space_content(sets: Sequence[Mapping[str, Value]], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of space.yaml: a grid if the sets are one in its order, else a list."""
    choices = {name: list(dict.fromkeys(values[name] for values in sets)) for name in sets[0]}
    changes = Counter(name for before, after in pairwise(sets) for name in before if before[name] != after[name])
    names = sorted(choices, key=lambda name: changes[name])
    is_grid = _is_grid(sets, {name: choices[name] for name in names})
    content: dict[str, Any] = {
        "method": "grid" if is_grid else "list",
        "parameters": {name: _range_of(choices[name], is_grid=is_grid) for name in names},
    }
    if not is_grid:
        content["sets"] = [Flow({name: values[name] for name in names}) for values in sets]
    content["objective"] = {"metric": "loss", "direction": "minimize"}
    return {**content, "fields": dict(fields)}


def _range_of(values: Sequence[Value], *, is_grid: bool) -> dict[str, Any]:
    """Return a parameter with these values; with a range around them if the sets list them anyway."""
    if is_grid or len(values) <= _MAX_LISTED_VALUES or not all(type(value) in (int, float) for value in values):
        return Flow({"values": list(values)})
    key = "int" if isinstance(values[0], int) else "float"
    return Flow({key: {"low": min(values), "high": max(values)}})


def _is_grid(sets: Sequence[Mapping[str, Value]], choices: Mapping[str, Sequence[Value]]) -> bool:
    if prod(map(len, choices.values())) != len(sets):
        return False
    for index, values in enumerate(sets):
        rest = index
        for name, column in reversed([*choices.items()]):
            rest, position = divmod(rest, len(column))
            if column[position] != values[name]:
                return False
    return True


def _sweep_name(names: Sequence[str], taken_names: set[str], kind: str) -> str:
    same = takewhile(lambda characters: len(set(characters)) == 1, zip(*names, strict=False))
    prefix = re.sub("[^a-z0-9]+", "-", "".join(characters[0] for characters in same).lower())
    # The digits at the end are the beginning of the numbers that differ.
    base = prefix.rstrip("0123456789")[:_MAX_NAME].strip("-") or kind.lower()
    return next(name for name in (base, *(f"{base}-{number}" for number in range(2, 1000))) if name not in taken_names)
