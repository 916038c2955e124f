"""An environment's files, as one `Settings`.

`Pulumi.<stack>.yaml` holds the sections under `config:` as `trainstack:<section>`; what environments share stands in
`defaults.yaml` (a section each at the top level) and, for a run, in `workloads/<base>/workload.yaml`, where the base is
the run's `from`, or else its name. They are laid over each other by the rule of `settings.loading.merge`, the
environment last.
`pins/<stack>.yaml`, where there is one, holds the digests of the environment's images, and the commits of the branches
and tags of its `code`, which take the place of those. Each sweep has its space and its sets in `sweeps/<name>/`.

One exception: an entry under `operators` of `defaults.yaml` is a template, taken only where the environment's own
`operators` names it (`kueue: {}` will do), since an environment that lists no operator wants none installed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from trainstack.settings.errors import ENGINE, Finding, Place, SettingsError, nearest
from trainstack.settings.loading.bases import Steps, with_bases
from trainstack.settings.loading.code_pins import is_code, with_commits
from trainstack.settings.loading.merge import merge, overlay, plain, prune, walk
from trainstack.settings.loading.source import Node, Scalar, read
from trainstack.settings.loading.validation_errors import findings_of
from trainstack.settings.model import Settings
from trainstack.settings.search_space.spaces import with_files
from trainstack.settings.sections.what_if import changed
from trainstack.settings.values.paths import nearest_place
from trainstack.settings.values.stack_name import fault, file_of, stacks

PROJECT = "trainstack:"
SECTIONS = (
    "environment",
    "cluster",
    "storage",
    "queues",
    "operators",
    "tenants",
    "secrets",
    "workloads",
    "sweeps",
    "checks",
    "plan",
)
SECRETS = "secrets"
"""The section of which the engine alone sees the values: it is read from the stack's file, as encrypted."""
DEFAULTS = "defaults.yaml"
PINS, CODE_PINS = "pins", "codePins"
"""The folder of the files with pins; also the places that their entries have beside the sections: images, code."""
STACK_FILE_KEYS = ("config", "environment", "secretsprovider", "encryptedkey", "encryptionsalt")
"""What the Pulumi engine itself takes at the top of a stack's file."""


@dataclass(frozen=True)
class Loaded:
    """An environment and where each of its values was set."""

    settings: Settings
    places: Mapping[str, Place]

    def where(self, path: str) -> Place | None:
        """Where the value at the path, or what encloses it, was set."""
        return nearest_place(self.places, path)


def load(root: Path, stack: str, engine: Mapping[str, str] | None = None) -> Settings:
    """The environment `stack` of the project at `root`.

    `engine`: the configuration as the Pulumi engine hands it to the program (`trainstack:<section>` to JSON text); it
    wins where it differs from the file. Raises SettingsError with every fault.
    """
    return load_with_places(root, stack, engine).settings


def load_with_places(
    root: Path,
    stack: str,
    engine: Mapping[str, str] | None = None,
    changes: Sequence[str] = (),
    *,
    to_run: bool = True,
) -> Loaded:
    """As `load`, and where each value was set. `changes`: what is tried beside the files, see
    `settings.sections.what_if`.

    `to_run`: False leaves the branches and tags of `code`, pinned or not, and the runs that `workloads.exclude` names,
    for the command that pins what they need.
    """
    if misnamed := fault(stack):
        raise SettingsError(stack, [misnamed])
    findings: list[Finding] = []
    tree, bases = _tree(root, stack, engine, findings)
    tree = prune(changed(tree, changes, findings))
    try:
        entries = with_files(root, tree, {key: plain(each) for key, each in tree.entries.items()}, findings)
        settings = Settings.model_validate({"stack": stack, **entries}, by_alias=True, by_name=False)
    except ValidationError as error:
        findings += findings_of(error, tree, bases)
    else:
        places = {path: node.where for path, node in walk(tree)}
        if to_run:
            settings = with_commits(settings.without_excluded(), places, pins_file(stack), findings)
        if not findings:
            return Loaded(settings, places)
    raise SettingsError(stack, findings)


def explain(root: Path, stack: str) -> list[tuple[str, Scalar, Place]]:
    """Every single value that the files set, by path, with the place that won. Raises SettingsError as `load` does."""
    load(root, stack)
    tree, _ = _tree(root, stack, None, [])
    return [(path, node.data, node.where) for path, node in walk(tree) if not isinstance(node.data, Mapping | tuple)]


def pins_file(stack: str) -> str:
    """The file with the digests of an environment's images and the commits of its code, relative to the project."""
    return f"{PINS}/{stack}.yaml"


def _tree(
    root: Path, stack: str, engine: Mapping[str, str] | None, findings: list[Finding]
) -> tuple[Node, Mapping[Steps, Finding]]:
    """The merged sections, and for each run without a base what to say about that."""
    own = _environment(root, stack, engine, findings)
    shared = _defaults(root, own, findings)
    merged = merge(shared, own)
    tree, bases = with_bases(root, merged, findings)
    pins = _pins(root, stack, findings)
    return prune(Node({**tree.entries, **pins}, tree.where)), bases


def _pins(root: Path, stack: str, findings: list[Finding]) -> dict[str, Node]:
    try:
        pins = read(root, pins_file(stack), findings)
    except FileNotFoundError:
        return {}
    images = {key: node for key, node in pins.entries.items() if not is_code(key)}
    code = {key: node for key, node in pins.entries.items() if is_code(key)}
    return {PINS: Node(images, pins.where), CODE_PINS: Node(code, pins.where)}


def _environment(root: Path, stack: str, engine: Mapping[str, str] | None, findings: list[Finding]) -> Node:
    file = file_of(stack)
    try:
        top = read(root, file, findings)
    except FileNotFoundError:
        there = ", ".join(stacks(root)) or "none"
        remedy = f"write {file}, or name one of the environments of this project: {there}"
        raise SettingsError(stack, [Finding(Place(file), "", "the environment's file is not there", remedy)]) from None
    strange = top.entries.keys() - set(STACK_FILE_KEYS)
    for key in strange:
        found = _unknown(top.entries[key], "", key, STACK_FILE_KEYS)
        findings.append(replace(found, remedy="put it under `config:`") if key.startswith(PROJECT) else found)
    config = top.entries.get("config", Node({}, top.where))
    sections = dict(_sections(config.entries, findings))
    if not isinstance(config.data, Mapping | None):
        findings.append(Finding(config.where, "config", "is not a map", f"write `{PROJECT}<section>:` lines under it"))
    if engine is not None:
        sections = _engine_sections(sections, engine, findings)
    if not sections and not findings:
        # As `pulumi stack init` writes it: with the passphrase's salt alone.
        examples = ", ".join(each for each in stacks(root) if each != stack) or "docs/schema"
        remedy = f"write `{PROJECT}<section>:` lines under `config:`, as the other environments do: {examples}"
        findings.append(Finding(Place(file), "", "the environment declares nothing", remedy))
    return Node(sections, config.where)


def _sections(config: Mapping[str, Node], findings: list[Finding]) -> Iterator[tuple[str, Node]]:
    for key, node in config.items():
        if ":" not in key:
            remedy = f"write {PROJECT}{key}" if key in SECTIONS else nearest(key, [PROJECT + each for each in SECTIONS])
            findings.append(Finding(node.where, key, "the key names no project", remedy))
        elif key.startswith(PROJECT) and key.removeprefix(PROJECT) not in SECTIONS:
            findings.append(_unknown(node, "", key, [PROJECT + each for each in SECTIONS]))
        elif key.startswith(PROJECT):
            yield key.removeprefix(PROJECT), node


def _engine_sections(
    sections: Mapping[str, Node], engine: Mapping[str, str], findings: list[Finding]
) -> dict[str, Node]:
    where = Place(ENGINE)
    config = {key: Node(None, where, text) for key, text in engine.items() if ":" in key}
    # The engine's are decrypted, so they are not among what it hands over here.
    made = {SECRETS: sections[SECRETS]} if SECRETS in sections else {}
    for section, node in _sections(config, findings):
        held = sections.get(section, Node(None, where))
        try:
            value = json.loads(node.text) if node.text else None
        except ValueError:
            value = node.text  # a plain word, as `pulumi config set` without --path writes it
        made[section] = overlay(held, value, where)
    return made


def _defaults(root: Path, own: Node, findings: list[Finding]) -> Node:
    try:
        top = read(root, DEFAULTS, findings)
    except FileNotFoundError:
        return Node({}, own.where)
    entries = dict(top.entries)
    strange = entries.keys() - set(SECTIONS)
    findings += (_unknown(entries.pop(key), "", key, SECTIONS) for key in strange)
    if SECRETS in entries:
        remedy = "put them into the file of each environment, whose secrets the engine decrypts"
        findings.append(Finding(entries.pop(SECRETS).where, SECRETS, "environments share no secrets", remedy))
    if "operators" in entries:
        named = own.entries["operators"].entries if "operators" in own.entries else {}
        templates = entries["operators"]
        chosen = {key: each for key, each in templates.entries.items() if key in named}
        entries["operators"] = Node(chosen, templates.where)
    return Node(entries, own.where)


def _unknown(node: Node, path: str, key: str, known: tuple[str, ...] | list[str]) -> Finding:
    return Finding(node.where, path, f"unknown key {key}", nearest(key, known))
