"""YAML of which every value keeps its file, line and column.

Readers of YAML disagree about plain words and numbers, and the Pulumi engine reads these files too. So: `true` and
`false` alone are booleans (`no`, `on`, `y` are text, as for the engine), plain decimals are numbers, `1:30` is text,
and what readers disagree about (`0777`, `0x1F`, `1_000`, `True`, `2024-01-01`) is an error until it is quoted. Twice
the same key, merge keys (`<<`) and tags are errors. So is what a few lines can make too large to read: values nested
too deep, aliases of aliases, numbers of thousands of digits, hundreds of thousands of values. A file is regular and has
at most `settings.loading.files.MOST_BYTES`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainstack.settings.errors import Finding, Place
from trainstack.settings.loading.files import read_bytes

Scalar = None | bool | int | float | str

_NULLS = ("", "~", "null", "Null", "NULL")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_DISPUTED = re.compile(
    r"True|TRUE|False|FALSE"
    r"|[-+]?0[0-9_]+|[-+]?0[xob][0-9A-Fa-f_]+|[-+]?[0-9][0-9_]*_[0-9_.]*|\+[0-9.][0-9.eE+-]*"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"
)
_NUMERIC = "0123456789eE+-._"
"""All the characters of decimal numbers."""
_UNTAGGED = ""
"""The tag of a plain scalar before which none stands."""
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_RESOLVER = yaml.resolver.Resolver()
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster where PyYAML was built with it
_MOST_LEVELS = 50
"""Values within values. The models have 12 levels; a thousand would be more than Python's stack holds."""
_MOST_ALIASED = 10_000
"""Values that aliases repeat in one file: nine aliases of nine aliases of … make billions of a few lines."""
_MOST_VALUES = 250_000
"""Of one file. PyYAML takes about 1 kB for a value. A sweep's sets of 1 MiB, which a ConfigMap holds, are 140,000."""
_MOST_DIGITS = 1_000
"""Of a number. The greatest float has 309, and Python reads no whole number of more than 4,300."""


class _Loader(_BASE):  # type: ignore[misc]  # which of the two it is, PyYAML's build decides
    """PyYAML's, which calls these two for each value, but with an end to the levels: it reads them by recursion."""

    levels = 0
    values = 0

    def descend_resolver(self, parent: yaml.Node | None, index: object) -> None:
        """Before the values in a value are read."""
        self.levels += 1
        if self.levels > _MOST_LEVELS and parent is not None:
            problem = f"values are nested more than {_MOST_LEVELS} deep"
            raise yaml.composer.ComposerError(None, None, problem, parent.start_mark)
        self.values += 1
        if self.values > _MOST_VALUES and parent is not None:
            problem = f"the file has more than {_MOST_VALUES} values"
            raise yaml.composer.ComposerError(None, None, problem, parent.start_mark)
        super().descend_resolver(parent, index)

    def ascend_resolver(self) -> None:
        """After them."""
        self.levels -= 1
        super().ascend_resolver()

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Any) -> str:
        """The tag of a value that has none. What a plain scalar is, `_Reader` finds out: to do it here takes long."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _UNTAGGED
        tag: str = super().resolve(kind, value, implicit)
        return tag


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a file. A map's entry stands where its key does, a list's element where it begins."""

    data: "Scalar | tuple[Node, ...] | Mapping[str, Node]"
    where: Place
    text: str = ""
    """A scalar as it is written."""

    @property
    def entries(self) -> "Mapping[str, Node]":
        """The entries of a map; none for anything else."""
        return self.data if isinstance(self.data, Mapping) else {}

    @property
    def items(self) -> "tuple[Node, ...]":
        """The elements of a list; none for anything else."""
        return self.data if isinstance(self.data, tuple) else ()

    @property
    def name(self) -> str | None:
        """The `name` of a named thing."""
        entry = self.entries.get("name")
        return entry.data if entry is not None and isinstance(entry.data, str) else None


def read(root: Path, file: str, findings: list[Finding]) -> Node:
    """The content of a file of the project; faults are added to `findings` and what they concern is left out.

    An empty file is an empty map. Raises FileNotFoundError when there is no such file.
    """
    top = _read(root, file, findings)
    if top.data is None:
        return Node({}, top.where)
    if not isinstance(top.data, Mapping):
        findings.append(Finding(Place(file, 1, 1), "", "the file is not a map", "write `key: value` lines"))
        return Node({}, Place(file, 1, 1))
    return top


def read_list(root: Path, file: str, findings: list[Finding]) -> Node:
    """The same of a file that is a list; an empty one has no elements."""
    top = _read(root, file, findings)
    if top.data is not None and not isinstance(top.data, tuple):
        findings.append(Finding(Place(file, 1, 1), "", "the file is not a list", "write elements, each after a dash"))
    return top if isinstance(top.data, tuple) else Node((), Place(file, 1, 1))


def _read(root: Path, file: str, findings: list[Finding]) -> Node:
    start = Place(file, 1, 1)
    try:
        root_node = yaml.compose(read_bytes(root / file).decode("utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(*error.args) from error
    except OSError as error:
        remedy = "replace it with a readable, regular file that contains only settings"
        findings.append(Finding(start, "", f"the file cannot be read: {error.strerror or error}", remedy))
        return Node(None, start)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = Place(file, mark.line + 1, mark.column + 1) if mark else start
        findings.append(Finding(where, "", f"not YAML: {error.problem}", "mend the syntax"))
        return Node(None, start)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        findings.append(Finding(start, "", f"not YAML: {error}", "write the file as plain UTF-8 text"))
        return Node(None, start)
    return Node(None, start) if root_node is None else _Reader(file, findings).node(root_node)


def read_text(text: str, name: str, findings: list[Finding]) -> Node:
    """A single value as a person writes it on a line; faults are added to `findings`, and it is then null."""
    start = Place(name, 1, 1)
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        findings.append(Finding(start, "", f"not YAML: {getattr(error, 'problem', error)}", "mend the syntax"))
        return Node(None, start)
    return Node(None, start) if node is None else _Reader(name, findings).node(node)


class _Reader:
    """Turns PyYAML's nodes into ours."""

    def __init__(self, file: str, findings: list[Finding]) -> None:
        self.file = file
        self.findings = findings
        self.open: set[int] = set()
        self.read: set[int] = set()
        self.aliased = 0

    def node(self, node: yaml.Node, where: Place | None = None) -> Node:
        """The value at `where`, by default at its own beginning."""
        where = where or self._place(node)
        if id(node) in self.open:
            self._fault(node, "an alias that holds itself", "write the value out")
            return Node(None, where)
        # A value that was read before is here by an alias.
        self.aliased += id(node) in self.read
        self.read.add(id(node))
        if self.aliased > _MOST_ALIASED:
            if self.aliased == _MOST_ALIASED + 1:
                self._fault(node, f"aliases repeat more than {_MOST_ALIASED} values", "write out what is meant")
            return Node(None, where)
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
                self._fault(node, f"the tag {node.tag} is not taken", "write plain values")
            if isinstance(node, yaml.MappingNode):
                return Node(self._map(node), where)
            if isinstance(node, yaml.SequenceNode):
                return Node(tuple(self.node(each) for each in node.value), where)
            if isinstance(node, yaml.ScalarNode):
                return Node(self._scalar(node), where, str(node.value))
            raise TypeError(f"YAML has no {type(node).__name__}")
        finally:
            self.open.discard(id(node))

    def _map(self, node: yaml.MappingNode) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for key, value in node.value:
            word = key.value if isinstance(key, yaml.ScalarNode) else None
            if not isinstance(word, str) or not isinstance(self._scalar(key), str):
                self._fault(key, f"the key {word or 'here'} is not text", "put it in quotes")
            elif word == "<<":
                self._fault(
                    key, "merge keys (`<<`) are not taken", "use defaults.yaml or workload.yaml for what is shared"
                )
            elif word in entries:
                first = entries[word].where
                self._fault(key, f"the key {word} is given twice, first in line {first.line}", "keep one of them")
            else:
                entries[word] = self.node(value, self._place(key))
        return entries

    def _scalar(self, node: yaml.ScalarNode) -> Scalar:
        text, plain = str(node.value), not node.style
        if node.tag != _UNTAGGED:
            implied = _RESOLVER.resolve(yaml.ScalarNode, text, (plain, not plain))  # type: ignore[no-untyped-call]
            if node.tag != implied:
                self._fault(node, f"a tag before {text}", "write the plain value, in quotes if it is text")
        return self._plain(node, text) if plain else text

    def _plain(self, node: yaml.ScalarNode, text: str) -> Scalar:
        if text in _NULLS:
            return None
        if text in ("true", "false"):
            return text == "true"
        # The expressions below take time that grows with the square of the length.
        if len(text) > _MOST_DIGITS:
            return self._long(node, text)
        if _DISPUTED.fullmatch(text):
            remedy = f'write "{text}" for text, else a plain decimal, true or false'
            self._fault(node, f"readers of YAML disagree about {text}", remedy)
            return text
        if _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) else text

    def _long(self, node: yaml.ScalarNode, text: str) -> str | None:
        """A plain scalar of more characters than numbers may have."""
        if text.strip(_NUMERIC):
            return text
        self._fault(node, f"the number has {len(text)} characters", "write fewer, or put it in quotes if it is text")
        return None

    def _place(self, node: yaml.Node) -> Place:
        return Place(self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def _fault(self, node: yaml.Node, message: str, remedy: str) -> None:
        self.findings.append(Finding(self._place(node), "", message, remedy))
