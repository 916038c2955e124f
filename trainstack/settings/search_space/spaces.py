"""The reader of the files in a sweep's folder: `sweeps/<name>/space.yaml` and `hyperparams.yml`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from trainstack.files.project import project_file
from trainstack.files.regular import read_bytes
from trainstack.settings.errors import Finding, Place, SettingsError, nearest
from trainstack.settings.loading.merge import at, element_paths, plain, prune, walk
from trainstack.settings.loading.source import Node, read, read_list
from trainstack.settings.loading.validation_errors import findings_of
from trainstack.settings.search_space.hyperparams import SETS_FILE, SPACE_FILE, Expansion, digest_in, folder
from trainstack.settings.search_space.space import Objective, Parameter, Space
from trainstack.settings.search_space.space_rules import faults
from trainstack.settings.sections.sweeps import FROM_FILES
from trainstack.settings.values.paths import nearest_place

_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
"""A DNS label, since names of objects contain it."""
_LINE_ENDINGS = re.compile(r"\r\n?")
"""Line endings into which Git may convert those of the committed file."""
_NO_SPACE = Space(
    method="grid", parameters={"none": Parameter(values=(0,))}, objective=Objective(metric="none", direction="minimize")
)
"""Replaces a space that does not load, so that the faults of the environment are reported too."""


@dataclass(frozen=True)
class LoadedSpace:
    """A sweep's space, with the place of each value."""

    space: Space
    places: Mapping[str, Place]

    def where(self, path: str) -> Place | None:
        return nearest_place(self.places, path)


def sweeps(root: Path) -> tuple[str, ...]:
    """Return the names of the sweeps with a space in the project at `root`, sorted."""
    return tuple(sorted(file.parent.name for file in root.glob(f"{folder('*')}/{SPACE_FILE}")))


def load_space(root: Path, sweep: str) -> LoadedSpace:
    """Load the space of a sweep. Raises SettingsError with every fault."""
    findings: list[Finding] = []
    loaded = read_space(root, sweep, findings)
    if loaded is None or findings:
        raise SettingsError(sweep, findings, what="sweep")
    return loaded


def read_space(root: Path, sweep: str, findings: list[Finding], named: Node | None = None) -> LoadedSpace | None:
    """Load the space of a sweep and add its faults to `findings`; return None if it cannot be built.

    `name_node`: the sweep's name in an environment's file, the place of the finding if the space does not exist.
    """
    if not _NAME.fullmatch(sweep):
        remedy = "use lower-case letters, digits and '-', with a letter or digit at both ends"
        findings.append(Finding(Place(folder(sweep)), "", "is not a valid name of a sweep's folder", remedy))
        return None
    file = f"{folder(sweep)}/{SPACE_FILE}"
    try:
        tree = prune(read(root, file, findings))
    except FileNotFoundError:
        remedy = f"create it, or use an existing sweep: {nearest(sweep, sweeps(root))}"
        where, message = (named.where, f"{file} does not exist") if named else (Place(file), "the file does not exist")
        findings.append(Finding(where, "", message, remedy))
        return None
    try:
        space = Space.model_validate(plain(tree), by_alias=True, by_name=False)
    except ValidationError as error:
        findings += findings_of(error, tree, {}, Space)
        return None
    for fault in faults(space):
        path, node, _ = at(tree, fault.steps)
        findings.append(Finding(node.where, path, fault.message, fault.remedy))
    return LoadedSpace(space, {path: node.where for path, node in walk(tree)})


def read_sets(root: Path, sweep: str, findings: list[Finding]) -> tuple[Expansion | None, str]:
    """Read the committed sets and the file's text; None and an empty text if the file does not exist.

    Faults are added to `findings`; their remedy is the command that generates the file.
    """
    file = f"{folder(sweep)}/{SETS_FILE}"
    try:
        # `read_list` below reports other encodings and files that are not regular.
        text = _LINE_ENDINGS.sub("\n", read_bytes(project_file(root, file)).decode("utf-8", errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError:
        text = ""
    remedy = f"generate it with `trainstack sweep expand {sweep}`"
    broken: list[Finding] = []
    tree = read_list(root, file, broken)
    try:
        expansion = Expansion.model_validate(
            {"space": digest_in(text) or "", "sets": plain(tree)}, by_alias=True, by_name=False
        )
    except ValidationError:
        broken.append(Finding(tree.where, "", "was not written by `trainstack sweep expand`", remedy))
        expansion = None
    # The file is generated, so the remedy of every fault is the command that writes it.
    findings += (replace(finding, remedy=remedy) for finding in broken)
    return (None if broken else expansion), text


def with_files(
    root: Path, tree: Node, entries: Mapping[str, object], findings: list[Finding], places: dict[str, Place]
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
        {**sweep, **_files(root, node, path, findings, places)} if isinstance(sweep, Mapping) else sweep
        for sweep, node, path in zip(section["sweeps"], nodes, paths, strict=True)
    )
    return {**entries, "sweeps": {**section, "sweeps": sweeps}}


def _files(
    root: Path, sweep: Node, path: str, findings: list[Finding], places: dict[str, Place]
) -> Mapping[str, object]:
    name = sweep.name
    for key in sweep.entries.keys() & {*FROM_FILES}:
        remedy = f"set it in {folder(name or '<name>')}/{SPACE_FILE}, for all environments"
        findings.append(Finding(sweep.entries[key].where, path, f"unknown key {key}", remedy))
    if name is None or not _NAME.fullmatch(name):
        return {"space": _NO_SPACE}  # the models report the name
    loaded = read_space(root, name, findings, sweep.entries["name"])
    if loaded is not None:
        places.update({f"{path}.space.{own_path}": place for own_path, place in loaded.places.items() if own_path})
    expansion, text = read_sets(root, name, findings)
    return {"space": loaded.space if loaded else _NO_SPACE, "expansion": expansion, "setsText": text}
