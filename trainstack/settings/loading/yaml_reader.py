"""Read YAML, keeping file, line and column of every value.

YAML parsers disagree about unquoted words and numbers, and the Pulumi engine reads these files too. So only `true` and
`false` are booleans (`no`, `on`, `y` are strings, as for the engine), plain decimals are numbers, `1:30` is a string,
and other ambiguous values (`0777`, `0x1F`, `1_000`, `True`, `2024-01-01`) are errors until they are quoted. Duplicate
keys, merge keys (`<<`) and tags are errors, and so are values that a short file can make too large to read: deep
nesting, aliases of aliases, numbers of thousands of digits, hundreds of thousands of values. A file must be regular and
at most `files.regular.MAX_BYTES` long. The engine rewrites the files of stacks, whose texts of several lines
must not begin with white space: its YAML library (yaml.v3) drops a first line break, or writes an invalid file.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import yaml

from trainstack.files.project import project_file
from trainstack.files.regular import read_bytes
from trainstack.settings.errors import Place, SettingsFinding

Scalar = None | bool | int | float | str

_NULLS = ("", "~", "null", "Null", "NULL")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_AMBIGUOUS = re.compile(
    r"True|TRUE|False|FALSE"
    r"|[-+]?0[0-9_]+|[-+]?0[xob][0-9A-Fa-f_]+|[-+]?[0-9][0-9_]*_[0-9_.]*|\+[0-9.][0-9.eE+-]*"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"
)
_NUMERIC = "0123456789eE+-._"
UNTAGGED = ""
"""The tag of a plain scalar without an explicit tag."""
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_RESOLVER = yaml.resolver.Resolver()
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster where PyYAML was built with it
_MAX_LEVELS = 50
"""The models have 12 levels; a thousand would overflow Python's stack."""
_MAX_ALIASED = 10_000
"""Values that aliases repeat in one file: nested aliases can expand a few lines to billions of values."""
_MAX_VALUES = 250_000
"""PyYAML needs about 1 kB for a value. A sweep's sets of 1 MiB, a ConfigMap's limit, have 140,000 values."""
_MAX_DIGITS = 1_000
"""The greatest float has 309 digits, and Python parses integers of up to 4,300."""
_PLAIN_TEXT = "use plain UTF-8 text"


class Loader(_BASE):  # type: ignore[misc]  # the base depends on PyYAML's build
    """PyYAML's loader with limits on nesting, which it parses by recursion, and on the number of values.

    The replaced methods would resolve tags by the path of a value, a feature that is not used here.
    """

    levels = 0
    values = 0

    def descend_resolver(self, parent: yaml.Node | None, _index: object) -> None:
        self.levels += 1
        self.values += 1
        if self.levels > _MAX_LEVELS:
            problem = f"values are nested more than {_MAX_LEVELS} deep"
        elif self.values > _MAX_VALUES:
            problem = f"the file has more than {_MAX_VALUES} values"
        else:
            problem = ""
        if problem and parent is not None:
            raise yaml.composer.ComposerError(None, None, problem, parent.start_mark)

    def ascend_resolver(self) -> None:
        self.levels -= 1

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Any) -> str:
        """Return the implicit tag of a value; none for plain scalars, which `Reader` resolves faster."""
        if kind is yaml.ScalarNode and implicit[0]:
            return UNTAGGED
        tag: str = super().resolve(kind, value, implicit)
        return tag


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a file. The place of a map's entry is that of its key."""

    data: "Scalar | tuple[Node, ...] | Mapping[str, Node]"
    where: Place
    text: str = ""
    """The source text of a scalar."""

    @property
    def entries(self) -> "Mapping[str, Node]":
        return self.data if isinstance(self.data, Mapping) else {}

    @property
    def items(self) -> "tuple[Node, ...]":
        return self.data if isinstance(self.data, tuple) else ()

    @property
    def name(self) -> str | None:
        entry = self.entries.get("name")
        return entry.data if entry is not None and isinstance(entry.data, str) else None


def read_map(root: Path, file: str, findings: list[SettingsFinding]) -> Node:
    """Read a file that is a map; an empty file is an empty map.

    Invalid values are left out, and their faults are added to `findings`. Raises FileNotFoundError.
    """
    text = read_text(root, file, findings)
    return Node({}, Place(file, 1, 1)) if text is None else parse_map(text, file, findings)


def parse_map(text: str, file: str, findings: list[SettingsFinding]) -> Node:
    """Parse the text of a file, as `read_map` does."""
    document = parse_text(text, file, findings)
    if document.data is None:
        return Node({}, document.where)
    if not isinstance(document.data, Mapping):
        findings.append(file_finding(Place(file, 1, 1), "the file is not a map", "write `key: value` lines"))
        return Node({}, Place(file, 1, 1))
    return document


def read_list(root: Path, file: str, findings: list[SettingsFinding]) -> Node:
    """Read a file that is a list, as `read_map` reads a map; an empty file is an empty list."""
    document = _read(root, file, findings)
    if document.data is not None and not isinstance(document.data, tuple):
        findings.append(file_finding(Place(file, 1, 1), "the file is not a list", "write elements, each after a dash"))
    return document if isinstance(document.data, tuple) else Node((), Place(file, 1, 1))


def _read(root: Path, file: str, findings: list[SettingsFinding]) -> Node:
    text = read_text(root, file, findings)
    return Node(None, Place(file, 1, 1)) if text is None else parse_text(text, file, findings)


def read_text(root: Path, file: str, findings: list[SettingsFinding]) -> str | None:
    """Return the text of a file of the project; None if it cannot be read, which is then among the findings.

    Raises FileNotFoundError.
    """
    start = Place(file, 1, 1)
    try:
        return read_bytes(project_file(root, file)).decode("utf-8")
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(*error.args) from error
    except OSError as error:
        remedy = "replace it with a readable, regular file that contains only settings"
        findings.append(file_finding(start, f"the file cannot be read: {error.strerror or error}", remedy))
    except UnicodeDecodeError as error:
        findings.append(file_finding(start, f"invalid YAML: {error}", _PLAIN_TEXT))
    return None


def parse_text(text: str, name: str, findings: list[SettingsFinding]) -> Node:
    """Parse a YAML text; return a null node if it is invalid. Faults are added to `findings`, in the file `name`."""
    with located_errors(name, findings):
        node = yaml.compose(text, Loader=Loader)
        if node is not None:
            return Reader(name, findings).convert(node)
    return Node(None, Place(name, 1, 1))


@contextmanager
def located_errors(file: str, findings: list[SettingsFinding]) -> Iterator[None]:
    """Add a syntax error of PyYAML to the findings, with its place in the file."""
    start = Place(file, 1, 1)
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = Place(file, mark.line + 1, mark.column + 1) if mark else start
        findings.append(file_finding(where, f"invalid YAML: {error.problem}", "correct the syntax"))
    except yaml.YAMLError as error:
        findings.append(file_finding(start, f"invalid YAML: {error}", _PLAIN_TEXT))


def file_finding(where: Place, message: str, remedy: str) -> SettingsFinding:
    return SettingsFinding(where, "", message, remedy, is_of_whole_file=True)


class Reader:
    """The conversion of one file's PyYAML nodes to `Node`s."""

    def __init__(self, file: str, findings: list[SettingsFinding]) -> None:
        self.file = file
        self.is_stack_file = PurePath(file).match("Pulumi.*.yaml")
        self.findings = findings
        self.open_nodes: set[int] = set()
        self.read_nodes: set[int] = set()
        self.aliased_values = 0

    def convert(self, node: yaml.Node, where: Place | None = None) -> Node:
        """Convert a node; its place is `where`, by default its start."""
        where = where or self._place_of(node)
        if id(node) in self.open_nodes:
            self._add_finding(node, "the alias refers to itself", "write the value out")
            return Node(None, where)
        # An alias refers to the node of a value that was read before.
        self.aliased_values += id(node) in self.read_nodes
        self.read_nodes.add(id(node))
        if self.aliased_values > _MAX_ALIASED:
            if self.aliased_values == _MAX_ALIASED + 1:
                self._add_finding(node, f"aliases repeat more than {_MAX_ALIASED} values", "write the values out")
            return Node(None, where)
        self.open_nodes.add(id(node))
        try:
            if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
                self._add_finding(node, f"the tag {node.tag} is not supported", "write plain values")
            if isinstance(node, yaml.MappingNode):
                return Node(self._convert_map(node), where)
            if isinstance(node, yaml.SequenceNode):
                return Node(tuple(map(self.convert, node.value)), where)
            if isinstance(node, yaml.ScalarNode):
                return Node(self._convert_scalar(node), where, str(node.value))
            raise TypeError(f"YAML has no {type(node).__name__}")
        finally:
            self.open_nodes.discard(id(node))

    def _convert_map(self, node: yaml.MappingNode) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for key, value in node.value:
            key_text = self._key_text(key)
            if key_text is None:
                shown = key.value if isinstance(key, yaml.ScalarNode) else "here"
                self._add_finding(key, f"the key {shown} is not a string", "put it in quotes")
            elif key_text == "<<":
                remedy = "put shared values into defaults.yaml or workload.yaml"
                self._add_finding(key, "merge keys (`<<`) are not supported", remedy)
            elif key_text in entries:
                first_place = entries[key_text].where
                self._add_finding(
                    key, f"duplicate key {key_text}, first set on line {first_place.line}", "keep one of them"
                )
            else:
                entries[key_text] = self.convert(value, self._place_of(key))
        return entries

    def _key_text(self, key: yaml.Node) -> str | None:
        """Return a key that is a string; None for another value."""
        return key.value if isinstance(key, yaml.ScalarNode) and isinstance(self._convert_scalar(key), str) else None

    def _convert_scalar(self, node: yaml.ScalarNode) -> Scalar:
        text, is_plain = str(node.value), not node.style
        if node.tag != UNTAGGED:
            implied = _RESOLVER.resolve(yaml.ScalarNode, text, (is_plain, not is_plain))  # type: ignore[no-untyped-call]
            if node.tag != implied:
                remedy = "write the plain value, in quotes if it is a string"
                self._add_finding(node, f"the tag before {text} is not supported", remedy)
        if "\n" in text and text[0].isspace() and self.is_stack_file:
            message = "a text of several lines begins with white space, which the engine cannot keep"
            self._add_finding(node, message, "begin the text with its first word, or move it to a file of its own")
        return self._convert_plain(node, text) if is_plain else text

    def _convert_plain(self, node: yaml.ScalarNode, text: str) -> Scalar:
        if text in _NULLS:
            return None
        if text in ("true", "false"):
            return text == "true"
        # The expressions below take quadratic time.
        if len(text) > _MAX_DIGITS:
            is_number = not text.strip(_NUMERIC)
            if is_number:
                remedy = "shorten it, or put it in quotes if it is a string"
                self._add_finding(node, f"the number has {len(text)} characters", remedy)
            return None if is_number else text
        if _AMBIGUOUS.fullmatch(text):
            remedy = f'write "{text}" for a string, else a plain decimal, true or false'
            self._add_finding(node, f"YAML parsers disagree about {text}", remedy)
            return text
        if _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) else text

    def _place_of(self, node: yaml.Node) -> Place:
        return Place(self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def _add_finding(self, node: yaml.Node, message: str, remedy: str) -> None:
        self.findings.append(SettingsFinding(self._place_of(node), "", message, remedy))
