"""The files of a sweep's folder: `sweeps/<name>/space.yaml` and `hyperparams.yml`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from trainstack.settings.errors import Finding, Place, SettingsError, nearest
from trainstack.settings.loading.files import read_bytes
from trainstack.settings.loading.merge import at, plain, prune, walk
from trainstack.settings.loading.source import Node, read, read_list
from trainstack.settings.loading.validation_errors import findings_of
from trainstack.settings.search_space.hyperparams import SETS_FILE, SPACE_FILE, Expansion, digest_in, folder
from trainstack.settings.search_space.space import Objective, Parameter, Space
from trainstack.settings.search_space.space_rules import faults
from trainstack.settings.sections.sweeps import FROM_FILES
from trainstack.settings.values.paths import elements, nearest_place

_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
"""A DNS label, which a sweep's name becomes a part of."""
_ENDS = re.compile(r"\r\n?")
"""Ends of lines that a checkout may have been given; programs read the same sets."""
_NO_SPACE = Space(
    method="grid", parameters={"none": Parameter(values=(0,))}, objective=Objective(metric="none", direction="minimize")
)
"""Stands for a space that does not load, so that the faults of the rest are told too."""


@dataclass(frozen=True)
class LoadedSpace:
    """A space and where each of its values was set."""

    space: Space
    places: Mapping[str, Place]

    def where(self, path: str) -> Place | None:
        """Where the value at the path, or what encloses it, was set."""
        return nearest_place(self.places, path)


def sweeps(root: Path) -> tuple[str, ...]:
    """The sweeps of the project at `root` that have a space, sorted."""
    return tuple(sorted(file.parent.name for file in root.glob(f"{folder('*')}/{SPACE_FILE}")))


def load_space(root: Path, sweep: str) -> LoadedSpace:
    """The space of a sweep. Raises SettingsError with every fault."""
    findings: list[Finding] = []
    loaded = read_space(root, sweep, findings)
    if loaded is None or findings:
        raise SettingsError(sweep, findings, what="sweep")
    return loaded


def read_space(root: Path, sweep: str, findings: list[Finding], named: Node | None = None) -> LoadedSpace | None:
    """The same; faults are added to `findings`, and None is given where they leave no space.

    `named`: what names the sweep in an environment's file, to be told where it has no space.
    """
    if not _NAME.fullmatch(sweep):
        remedy = "name it by lower-case letters, digits and '-', with a letter or digit at both ends"
        findings.append(Finding(Place(folder(sweep)), "", "is no name for a sweep's folder", remedy))
        return None
    file = f"{folder(sweep)}/{SPACE_FILE}"
    try:
        tree = prune(read(root, file, findings))
    except FileNotFoundError:
        remedy = f"write it, or name a sweep that there is: {nearest(sweep, sweeps(root))}"
        if named is None:
            findings.append(Finding(Place(file), "", "the sweep's space is not there", remedy))
        else:
            findings.append(Finding(named.where, "", f"there is no {file}", remedy))
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
    """The committed sets and the file's text; None and nothing where there is no such file.

    Faults are added to `findings`: the file is made by a command, and the command mends it.
    """
    file = f"{folder(sweep)}/{SETS_FILE}"
    try:
        # What is no UTF-8, or no regular file, is told below, where it is read as YAML.
        text = _ENDS.sub("\n", read_bytes(root / file).decode("utf-8", errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError:
        text = ""
    remedy = f"make it anew with `trainstack sweep expand {sweep}`"
    broken: list[Finding] = []
    tree = read_list(root, file, broken)
    try:
        expansion = Expansion.model_validate(
            {"space": digest_in(text) or "", "sets": plain(tree)}, by_alias=True, by_name=False
        )
    except ValidationError:
        broken.append(Finding(tree.where, "", "is not as `trainstack sweep expand` writes it", remedy))
        expansion = None
    findings += (Finding(each.where, each.path, each.message, remedy) for each in broken)
    return (None if broken else expansion), text


def with_files(root: Path, tree: Node, entries: Mapping[str, object], findings: list[Finding]) -> Mapping[str, object]:
    """The sections `entries`, whose values are those of `tree`, with what the folders of the sweeps hold."""
    section = entries.get("sweeps")
    if not isinstance(section, Mapping) or not isinstance(section.get("sweeps"), tuple):
        return entries
    nodes = tree.entries["sweeps"].entries["sweeps"].items
    paths = elements("sweeps.sweeps", [each.name for each in nodes])
    made = tuple(
        {**each, **_files(root, node, path, findings)} if isinstance(each, Mapping) else each
        for each, node, path in zip(section["sweeps"], nodes, paths, strict=True)
    )
    return {**entries, "sweeps": {**section, "sweeps": made}}


def _files(root: Path, sweep: Node, path: str, findings: list[Finding]) -> Mapping[str, object]:
    name = sweep.name
    for key in sweep.entries.keys() & {*FROM_FILES}:
        remedy = f"write it into {folder(name or '<name>')}/{SPACE_FILE}, for all environments"
        findings.append(Finding(sweep.entries[key].where, path, f"unknown key {key}", remedy))
    if name is None or not _NAME.fullmatch(name):
        return {"space": _NO_SPACE}  # the models tell of the name
    loaded = read_space(root, name, findings, sweep.entries["name"])
    expansion, text = read_sets(root, name, findings)
    return {"space": loaded.space if loaded else _NO_SPACE, "expansion": expansion, "setsText": text}
