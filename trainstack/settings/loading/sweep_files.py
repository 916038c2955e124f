"""The reader of the files in a sweep's folder: `sweeps/<name>/space.yaml` and `hyperparams.yml`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from trainstack.files.project import project_file
from trainstack.files.regular import read_bytes
from trainstack.settings.errors import Place, SettingsError, SettingsFinding, suggest_name
from trainstack.settings.loading.merge import element_paths, locate, prune, to_plain, walk
from trainstack.settings.loading.validation_errors import findings_of
from trainstack.settings.loading.yaml_reader import Node, read_list, read_map
from trainstack.settings.search_space.hyperparams import (
    SETS_FILE,
    SPACE_FILE,
    Expansion,
    parse_space_digest,
    sweep_folder,
)
from trainstack.settings.search_space.space import Objective, Parameter, Space
from trainstack.settings.search_space.space_rules import faults_of_space
from trainstack.settings.sections.sweeps import FROM_FILES
from trainstack.settings.values.paths import nearest_place

_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
"""A DNS label, since names of objects contain it."""
_LINE_ENDINGS = re.compile(r"\r\n?")
"""Line endings into which Git may convert those of the committed file."""
_PLACEHOLDER_SPACE = Space(
    method="grid", parameters={"none": Parameter(values=(0,))}, objective=Objective(metric="none", direction="minimize")
)
"""Replaces a space that does not load, so that the faults of the environment are reported too."""


@dataclass(frozen=True)
class LoadedSpace:
    """A sweep's space, with the place of each value."""

    space: Space
    places: Mapping[str, Place]

    def place_of(self, path: str) -> Place | None:
        return nearest_place(self.places, path)


def list_sweeps(root: Path) -> tuple[str, ...]:
    """Return the names of the sweeps with a space in the project at `root`, sorted."""
    return tuple(sorted(file.parent.name for file in root.glob(f"{sweep_folder('*')}/{SPACE_FILE}")))


def load_space(root: Path, sweep: str) -> LoadedSpace:
    """Load the space of a sweep. Raises SettingsError with every fault."""
    findings: list[SettingsFinding] = []
    loaded = read_space(root, sweep, findings)
    if loaded is None or findings:
        raise SettingsError(sweep, findings, subject="sweep")
    return loaded


def read_space(
    root: Path, sweep: str, findings: list[SettingsFinding], name_node: Node | None = None
) -> LoadedSpace | None:
    """Load the space of a sweep and add its faults to `findings`; return None if it cannot be built.

    `name_node`: the sweep's name in an environment's file, the place of the finding if the space does not exist.
    """
    if not _NAME.fullmatch(sweep):
        remedy = "use lower-case letters, digits and '-', with a letter or digit at both ends"
        findings.append(
            SettingsFinding(Place(sweep_folder(sweep)), "", "is not a valid name of a sweep's folder", remedy)
        )
        return None
    file = f"{sweep_folder(sweep)}/{SPACE_FILE}"
    try:
        tree = prune(read_map(root, file, findings))
    except FileNotFoundError:
        remedy = f"create it, or use an existing sweep: {suggest_name(sweep, list_sweeps(root))}"
        where, message = (
            (name_node.where, f"{file} does not exist") if name_node else (Place(file), "the file does not exist")
        )
        findings.append(SettingsFinding(where, "", message, remedy))
        return None
    if any(finding.is_of_whole_file and finding.where.file == file for finding in findings):
        return None
    try:
        space = Space.model_validate(to_plain(tree), by_alias=True, by_name=False)
    except ValidationError as error:
        findings += findings_of(error, tree, {}, Space)
        return None
    for fault in faults_of_space(space):
        path, node, _ = locate(tree, fault.steps)
        findings.append(SettingsFinding(node.where, path, fault.message, fault.remedy))
    return LoadedSpace(space, {path: node.where for path, node in walk(tree)})


def read_sets(root: Path, sweep: str, findings: list[SettingsFinding]) -> tuple[Expansion | None, str]:
    """Read the committed sets and the file's text; None and an empty text if the file does not exist.

    Faults are added to `findings`; their remedy is the command that generates the file.
    """
    file = f"{sweep_folder(sweep)}/{SETS_FILE}"
    try:
        # `read_list` below reports other encodings and files that are not regular.
        text = _LINE_ENDINGS.sub("\n", read_bytes(project_file(root, file)).decode("utf-8", errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError:
        text = ""
    remedy = f"generate it with `trainstack sweep expand {sweep}`"
    file_findings: list[SettingsFinding] = []
    tree = read_list(root, file, file_findings)
    try:
        expansion = Expansion.model_validate(
            {"space": parse_space_digest(text) or "", "sets": to_plain(tree)}, by_alias=True, by_name=False
        )
    except ValidationError:
        file_findings.append(SettingsFinding(tree.where, "", "was not written by `trainstack sweep expand`", remedy))
        expansion = None
    # The file is generated, so the remedy of every fault is the command that writes it.
    findings += (replace(finding, remedy=remedy) for finding in file_findings)
    return (None if file_findings else expansion), text


def add_sweep_files(
    root: Path, tree: Node, entries: Mapping[str, object], findings: list[SettingsFinding], places: dict[str, Place]
) -> Mapping[str, object]:
    """Return `entries`, the plain values of the sections in `tree`, with the content of the sweeps' folders.

    Faults are added to `findings`, and the places of the spaces' values to `places`.
    """
    section = entries.get("sweeps")
    if not isinstance(section, Mapping) or not isinstance(section.get("sweeps"), tuple):
        return entries
    nodes = tree.entries["sweeps"].entries["sweeps"].items
    paths = element_paths(tree.entries["sweeps"].entries["sweeps"], "sweeps.sweeps")
    sweeps = tuple(
        {**sweep, **_read_sweep_files(root, node, path, findings, places)} if isinstance(sweep, Mapping) else sweep
        for sweep, node, path in zip(section["sweeps"], nodes, paths, strict=True)
    )
    return {**entries, "sweeps": {**section, "sweeps": sweeps}}


def _read_sweep_files(
    root: Path, sweep: Node, path: str, findings: list[SettingsFinding], places: dict[str, Place]
) -> Mapping[str, object]:
    name = sweep.name
    for key in sweep.entries.keys() & {*FROM_FILES}:
        remedy = f"set it in {sweep_folder(name or '<name>')}/{SPACE_FILE}, for all environments"
        findings.append(SettingsFinding(sweep.entries[key].where, path, f"unknown key {key}", remedy))
    if name is None or not _NAME.fullmatch(name):
        return {"space": _PLACEHOLDER_SPACE}  # the models report the name
    loaded = read_space(root, name, findings, sweep.entries["name"])
    if loaded is not None:
        places.update({f"{path}.space.{own_path}": place for own_path, place in loaded.places.items() if own_path})
    expansion, text = read_sets(root, name, findings)
    return {"space": loaded.space if loaded else _PLACEHOLDER_SPACE, "expansion": expansion, "setsText": text}
