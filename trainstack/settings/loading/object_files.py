"""The objects that section `objects` takes from files, merged into its `manifests` with the places of their files."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from trainstack.files.project import project_file
from trainstack.files.regular import read_bytes
from trainstack.settings.errors import Place, SettingsFinding
from trainstack.settings.loading.kubernetes_yaml import read_documents
from trainstack.settings.loading.yaml_reader import Node
from trainstack.settings.sections.objects import split_entry

_SECTION = "objects"


def add_objects(root: Path, tree: Node, findings: list[SettingsFinding]) -> Node:
    """Return the tree with the objects of `files` and `configMaps` added to `objects.manifests`.

    Each item of a List is an object. The faults of the files are added to `findings`.
    """
    section = tree.entries.get(_SECTION)
    if section is None or not section.entries:
        return tree
    inline = section.entries.get("manifests", Node((), section.where))
    if not isinstance(inline.data, tuple):
        return tree  # The models report it.
    documents = [
        *inline.items,
        *_documents_of_files(root, section.entries.get("files"), findings),
        *_config_maps(root, section.entries.get("configMaps"), findings),
    ]
    manifests = replace(inline, data=tuple(_expand_lists(documents)))
    section = replace(section, data={**section.entries, "manifests": manifests})
    return replace(tree, data={**tree.entries, _SECTION: section})


def _documents_of_files(root: Path, files: Node | None, findings: list[SettingsFinding]) -> Iterator[Node]:
    for index, node in enumerate(files.items if files else ()):
        if not isinstance(node.data, str):
            continue  # The models report it.
        known_findings, documents = len(findings), tuple[Node, ...]()
        try:
            documents = read_documents(root, node.data, findings)
        except FileNotFoundError:
            findings.append(_missing_file(node, f"{_SECTION}.files[{index}]", node.data))
        if not documents and len(findings) == known_findings:
            message = "the file has no objects"
            findings.append(SettingsFinding(Place(node.data, 1, 1), "", message, "add one, or leave the file out"))
        yield from documents


def _config_maps(root: Path, config_maps: Node | None, findings: list[SettingsFinding]) -> Iterator[Node]:
    for map_index, config_map in enumerate(config_maps.items if config_maps else ()):
        where, files = config_map.where, config_map.entries.get("files")
        contents: dict[str, dict[str, Node]] = {"data": {}, "binaryData": {}}
        for index, node in enumerate(files.items if files else ()):
            if not isinstance(node.data, str) or not node.data:
                continue  # The models report it.
            key, file = split_entry(node.data)
            path = f"{_SECTION}.configMaps[{config_map.name or map_index}].files[{index}]"
            content = _read_content(root, file, node, path, findings)
            if content is not None:
                contents[content[0]][key] = Node(content[1], Place(file, 1, 1), content[1])
        if config_map.name is not None:
            metadata = {
                key: config_map.entries[key] for key in ("name", "namespace", "labels") if key in config_map.entries
            }
            yield Node(
                {
                    "apiVersion": Node("v1", where, "v1"),
                    "kind": Node("ConfigMap", where, "ConfigMap"),
                    "metadata": Node(metadata, where),
                    **{field: Node(values, where) for field, values in contents.items() if values},
                },
                where,
            )


def _read_content(
    root: Path, file: str, node: Node, path: str, findings: list[SettingsFinding]
) -> tuple[str, str] | None:
    """Return the field of a ConfigMap for a file, and its value; None if the file cannot be read."""
    try:
        content = read_bytes(project_file(root, file))
    except (FileNotFoundError, NotADirectoryError):
        findings.append(_missing_file(node, path, file))
        return None
    except OSError as error:
        message = f"cannot be read: {error.strerror or error} (value {file})"
        findings.append(SettingsFinding(node.where, path, message, "name a readable, regular file of the project"))
        return None
    try:
        return "data", content.decode("utf-8")
    except UnicodeDecodeError:
        return "binaryData", base64.b64encode(content).decode()


def _missing_file(node: Node, path: str, file: str) -> SettingsFinding:
    remedy = "create it, or correct the path, which begins in the folder of the project"
    return SettingsFinding(node.where, path, f"the file does not exist (value {file})", remedy)


def _expand_lists(documents: Iterable[Node]) -> Iterator[Node]:
    for document in documents:
        kind, items = document.entries.get("kind"), document.entries.get("items")
        if kind is not None and items is not None and isinstance(items.data, tuple) and str(kind.data).endswith("List"):
            yield from _expand_lists(items.items)
        else:
            yield document
