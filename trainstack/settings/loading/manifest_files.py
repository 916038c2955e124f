"""The manifests of workloads, which the files of settings name."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from trainstack.settings.errors import Place, SettingsFinding
from trainstack.settings.loading.kubernetes_yaml import parse_documents, read_documents
from trainstack.settings.loading.merge import to_node, to_plain
from trainstack.settings.loading.yaml_reader import Node, parse_map, read_text
from trainstack.settings.sections.workload_manifest import with_settings_of_manifest as settings_with_manifest
from trainstack.settings.sections.workloads import API_VERSIONS

_KEY = "manifest"
_API_VERSION = re.compile(r"^[\"']?apiVersion[\"']?\s*:", re.MULTILINE)
_JSON_OR_FLOW = re.compile(r"\s*\{")


class ManifestFiles:
    """The files of a project that contain manifests of workloads, each read at most once."""

    def __init__(self, root: Path, findings: list[SettingsFinding]) -> None:
        self._root = root
        self._findings = findings
        self._read_manifest = cache(self._read_manifest_uncached)

    def read_base(self, file: str) -> Node:
        """Return the values of a `workload.yaml`: settings, or an object, which is then their `manifest`."""
        text = read_text(self._root, file, self._findings)
        if text is None:
            return Node({}, Place(file, 1, 1))
        if _API_VERSION.search(text) or _JSON_OR_FLOW.match(text):
            documents = parse_documents(text, file, findings := list[SettingsFinding]())
            if any({"apiVersion", "kind"} <= document.entries.keys() for document in documents):
                self._findings += findings
                return Node({_KEY: self._single(documents, file)}, Place(file, 1, 1))
        return self.insert_manifest(parse_map(text, file, self._findings))

    def insert_manifest(self, run: Node) -> Node:
        """Return a run with the object of the file that its `manifest` names, if it names one."""
        if not names_manifest(run):
            return run
        return replace(run, data={**run.entries, _KEY: self._read_manifest(run.entries[_KEY])})

    def _read_manifest_uncached(self, name: Node) -> Node:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(name.where.file), str(name.data)))
        try:
            return self._single(read_documents(self._root, file, self._findings), file)
        except FileNotFoundError:
            self._add_finding(name.where, f"manifest {file} does not exist", "correct the name, or add the file")
        return Node({}, name.where)

    def _single(self, documents: tuple[Node, ...], file: str) -> Node:
        if len(documents) != 1:
            number = f"has {len(documents)} documents" if documents else "is empty"
            where = documents[1].where if documents else Place(file, 1, 1)
            if not any(finding.where.file == file for finding in self._findings):
                self._add_finding(where, f"a manifest is one object, but this file {number}", "keep one object in it")
            return Node({}, Place(file, 1, 1))
        return documents[0]

    def _add_finding(self, where: Place, message: str, remedy: str) -> None:
        self._findings.append(SettingsFinding(where, "", message, remedy, is_of_whole_file=True))


def with_settings_of_manifest(run: Node) -> Node:
    """Return a run with the settings that its manifest has, such as its kind, as far as the run does not set them."""
    manifest = run.entries.get(_KEY)
    if manifest is None or not isinstance(manifest.data, Mapping):
        return run
    if "status" in manifest.entries and not manifest.entries["status"].entries:
        # `kubectl create --dry-run=client -o yaml` prints an empty one.
        manifest = replace(manifest, data={key: node for key, node in manifest.entries.items() if key != "status"})
        run = replace(run, data={**run.entries, _KEY: manifest})
    settings = settings_with_manifest({key: to_plain(node) for key, node in run.entries.items()}, API_VERSIONS)
    new_entries = {key: to_node(value, manifest.where) for key, value in settings.items() if key not in run.entries}
    if "object" in run.entries and run.entries["object"].entries:
        section, new_section = run.entries["object"], settings["object"]
        new_values = {
            key: to_node(value, manifest.where) for key, value in new_section.items() if key not in section.entries
        }
        new_entries["object"] = replace(section, data={**section.entries, **new_values})
    return replace(run, data={**run.entries, **new_entries})


def names_manifest(run: Node) -> bool:
    """Return whether the manifest of a run is the name of a file."""
    manifest = run.entries.get(_KEY)
    return manifest is not None and isinstance(manifest.data, str)


def without_manifest(run: Node) -> Node:
    return replace(run, data={key: value for key, value in run.entries.items() if key != _KEY})
