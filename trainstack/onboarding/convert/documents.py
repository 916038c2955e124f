"""Read the Kubernetes objects of YAML and JSON texts: several documents, lists, and output of kubectl."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainstack.errors import TrainstackError
from trainstack.objects.labels import Manifest
from trainstack.objects.ownership import format_identity
from trainstack.onboarding.convert.server_fields import drop_server_fields
from trainstack.settings.base import tuples_to_lists
from trainstack.settings.errors import Place, SettingsFinding
from trainstack.settings.loading.kubernetes_yaml import parse_documents
from trainstack.settings.loading.merge import prune, to_plain
from trainstack.settings.loading.yaml_reader import Node

_SEPARATOR = re.compile(r"^(---|\.\.\.)(?=\s|$)", re.MULTILINE)
"""A line between documents. YAML allows no such line inside of a value."""
_OBJECT_REMEDY = "convert files of objects with apiVersion, kind and metadata"
_KUSTOMIZE_GROUP = "kustomize.config.k8s.io/"


@dataclass(frozen=True, kw_only=True)
class SourceText:
    """A text to convert."""

    name: str
    """The file as the user has named it, or `stdin`."""
    text: str


@dataclass(frozen=True, kw_only=True)
class InputObject:
    """An object of a file, without what the cluster has set."""

    body: Manifest
    where: Place
    text: str = ""
    """The text of the object's document; empty if the document has other objects or cannot be copied."""
    dropped: tuple[str, ...] = ()
    """The fields of the file that `body` lacks, since the cluster sets them."""
    is_live: bool = False
    """Whether the object was read from a cluster, as by `kubectl get -o yaml`."""
    controller: str = ""
    """The object that controls this one, as `Kind name`; empty if there is none."""

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return str(self.body["apiVersion"]).rpartition("/")[0]

    @property
    def metadata(self) -> Mapping[str, Any]:
        return dict(self.body["metadata"])

    @property
    def name(self) -> str:
        """The object's name, or the prefix of a generated one without its last `-`."""
        return str(self.metadata.get("name") or str(self.metadata["generateName"]).rstrip("-"))

    @property
    def namespace(self) -> str | None:
        namespace = self.metadata.get("namespace")
        return None if namespace is None else str(namespace)

    @property
    def identity(self) -> str:
        return format_identity((self.kind, self.namespace or "", self.name))


def read_objects(sources: Iterable[SourceText]) -> tuple[InputObject, ...]:
    """Return the objects of all texts in their order. Raises TrainstackError with every fault."""
    findings: list[SettingsFinding] = []
    objects: list[InputObject] = []
    for source in sources:
        objects += _read_source(source, findings)
    if findings:
        raise TrainstackError("\n".join(map(str, sorted(findings))))
    return tuple(objects)


def _read_source(source: SourceText, findings: list[SettingsFinding]) -> Iterator[InputObject]:
    for offset, text in _split_documents(source.text):
        document_findings: list[SettingsFinding] = []
        nodes = parse_documents(text, source.name, document_findings)
        if document_findings and "{{" in text:
            place = Place(source.name, offset + 1)
            remedy = "render the chart first: helm template NAME CHART | trainstack convert -"
            findings.append(SettingsFinding(place, "", "is a template of Helm", remedy))
            continue
        findings += (replace(finding, where=_shift(finding.where, offset)) for finding in document_findings)
        for node in () if document_findings else nodes:
            yield from _read_node(prune(node), text, offset, findings)


def _split_documents(text: str) -> Iterator[tuple[int, str]]:
    """Yield each document with the number of lines before it."""
    start = 0
    for separator in _SEPARATOR.finditer(text):
        line_end = text.find("\n", separator.end())
        line = text[separator.end() : line_end if line_end >= 0 else None].strip()
        yield text.count("\n", 0, start), text[start : separator.start()]
        # The rest of the line is a comment, a tag, or the document itself, which then has another column.
        is_content = line and not line.startswith("#")
        start = separator.end() if is_content or line_end < 0 else line_end + 1
    yield text.count("\n", 0, start), text[start:]


def _shift(place: Place, lines: int) -> Place:
    return replace(place, line=place.line + lines) if place.line else place


def _read_node(node: Node, text: str, offset: int, findings: list[SettingsFinding]) -> Iterator[InputObject]:
    """Yield the object of a node, or the objects of a list."""
    kind = node.entries["kind"].data if "kind" in node.entries else None
    if isinstance(kind, str) and kind.endswith("List") and "items" in node.entries:
        for item in node.entries["items"].items:
            yield from _read_node(_with_kind(item, node, kind), "", offset, findings)
        return
    where = _shift(node.where, offset)
    if fault := _fault_of_object(node):
        findings.append(SettingsFinding(where, "", *fault))
        return
    body: Manifest = tuples_to_lists(to_plain(node))
    cleaned = drop_server_fields(body)
    yield InputObject(
        body=cleaned.body,
        where=where,
        text=text,
        dropped=cleaned.dropped,
        is_live=cleaned.is_live,
        controller=cleaned.controller,
    )


def _with_kind(item: Node, parent: Node, list_kind: str) -> Node:
    """Return an element of a typed list, which the API server sends without its kind."""
    if "kind" in item.entries or not item.entries or list_kind == "List" or "apiVersion" not in parent.entries:
        return item
    kind = Node(list_kind.removesuffix("List"), item.where)
    return replace(item, data={"apiVersion": parent.entries["apiVersion"], "kind": kind, **item.entries})


def _fault_of_object(node: Node) -> tuple[str, str] | None:
    """Return why a node is not an object, with the remedy; None if it is one."""
    entries = node.entries
    if not isinstance(node.data, Mapping):
        return "is not a Kubernetes object", _OBJECT_REMEDY
    api_version = entries["apiVersion"].data if "apiVersion" in entries else None
    if isinstance(api_version, str) and api_version.startswith(_KUSTOMIZE_GROUP):
        return "is a file of kustomize", "build it first: kubectl kustomize FOLDER | trainstack convert -"
    if missing := [key for key in ("apiVersion", "kind") if not _is_text(entries.get(key))]:
        return f"is not a Kubernetes object: it has no {' and no '.join(missing)}", _OBJECT_REMEDY
    metadata = entries.get("metadata")
    names = [metadata.entries.get(key) for key in ("name", "generateName")] if metadata else []
    if not any(map(_is_text, names)):
        return "has no metadata.name", "add it"
    return None


def _is_text(node: Node | None) -> bool:
    return node is not None and isinstance(node.data, str) and bool(node.data)
