"""Read Kubernetes objects from YAML as kubectl does, keeping file, line and column of every value.

kubectl converts YAML 1.1 to JSON (sigs.k8s.io/yaml with go-yaml v2): `yes` and `on` are booleans, `0755` is an octal
number, dates are strings, merge keys (`<<`) are applied, and keys that are numbers or booleans become strings.
Duplicate keys are errors, and the limits of `yaml_reader` hold.
"""

import base64
import math
import re
from pathlib import Path

import yaml

from trainstack.settings.errors import SettingsFinding
from trainstack.settings.loading.yaml_reader import UNTAGGED, Loader, Node, Reader, Scalar, located_errors, read_text

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INTEGERS = tuple(
    (base, re.compile(rf"[-+]?{digits}"))
    for base, digits in ((10, "0|[1-9][0-9]*"), (16, "0[xX][0-9A-Fa-f]+"), (2, "0[bB][01]+"), (8, "0[oO]?[0-7]+"))
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_MAX_DIGITS = 400
"""The greatest float has 309 digits; the expressions take quadratic time."""
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_TAG + name for name in ("int", "float", "bool", "null", "timestamp"))


def read_documents(root: Path, file: str, findings: list[SettingsFinding]) -> tuple[Node, ...]:
    """Read the documents of a file of the project, except for empty ones.

    The faults of the file are added to `findings`. Raises FileNotFoundError.
    """
    text = read_text(root, file, findings)
    return () if text is None else parse_documents(text, file, findings)


def parse_documents(text: str, file: str, findings: list[SettingsFinding]) -> tuple[Node, ...]:
    """Parse the documents of a YAML or JSON text, as `read_documents` does. `file`: its name in places and findings."""
    nodes = list[Node]()
    with located_errors(file, findings):
        for document in yaml.compose_all(text, Loader=Loader):
            nodes.append(_KubernetesReader(file, findings).convert(document))
    return tuple(node for node in nodes if node.data is not None)


class _KubernetesReader(Reader):
    def _convert_map(self, node: yaml.MappingNode) -> dict[str, Node]:
        own_entries = [(key, value) for key, value in node.value if not _is_merge_key(key)]
        converted = super()._convert_map(yaml.MappingNode(node.tag, own_entries, node.start_mark))
        if len(own_entries) == len(node.value):
            return converted
        entries = dict[str, Node]()
        for key, value in node.value:
            if _is_merge_key(key):
                entries |= self._convert_merged_maps(key, value)
            elif (name := self._key_text(key)) is not None:
                entries[name] = converted[name]
        return entries

    def _convert_merged_maps(self, key: yaml.Node, value: yaml.Node) -> dict[str, Node]:
        """Return the entries of a merge key, which replace those before it; a list's first map takes precedence."""
        entries = dict[str, Node]()
        for source in reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]:
            if isinstance(source, yaml.MappingNode):
                entries |= self.convert(source).entries
            else:
                self._add_finding(key, "the merge key `<<` has a value that is not a map", "merge maps only")
        return entries

    def _key_text(self, key: yaml.Node) -> str | None:
        """Return a key as in JSON, where it is a string."""
        value = self._convert_scalar(key) if isinstance(key, yaml.ScalarNode) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return None if value is None else str(value)

    def _convert_scalar(self, node: yaml.ScalarNode) -> Scalar:
        text = str(node.value)
        if node.tag == f"{_TAG}str":
            return text
        if node.tag == f"{_TAG}binary":
            return self._decode_binary(node, text)
        if node.tag in _PLAIN_TAGS or (node.tag == UNTAGGED and not node.style):
            return self._convert_plain(node, text)
        return super()._convert_scalar(node)

    def _convert_plain(self, node: yaml.ScalarNode, text: str) -> Scalar:
        if text in _NULLS:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if len(text) > _MAX_DIGITS or text[0] not in "0123456789+-.":
            return text
        if _NOT_JSON.fullmatch(text):
            self._add_finding(node, f"{text} has no form in JSON", "write another number, or put it in quotes")
            return text
        return _parse_number(text.replace("_", ""), text)

    def _decode_binary(self, node: yaml.ScalarNode, text: str) -> str:
        try:
            return base64.b64decode(text, validate=False).decode("utf-8")
        except ValueError:
            self._add_finding(node, "the tag !!binary has a value that is not base64 of UTF-8", "correct the value")
            return text


def _is_merge_key(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and not key.style


def _parse_number(digits: str, text: str) -> int | float | str:
    """Return the number of a plain scalar, as go-yaml v2 reads it; the text if it is none."""
    for base, pattern in _INTEGERS:
        if pattern.fullmatch(digits):
            sign, number = ("-", digits[1:]) if digits[0] == "-" else ("", digits.removeprefix("+"))
            integer = int(sign + (number.lstrip("0oO") or "0" if base == 8 else number), base)
            if -(1 << 63) <= integer < 1 << 64:
                return integer
    if not _FLOAT.fullmatch(digits):
        return text
    value = float(digits)
    # JSON has no difference between 1 and 1.0. An infinite value has no form in JSON, and is no number of a field.
    return text if math.isinf(value) else int(value) if value.is_integer() else value
