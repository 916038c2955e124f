"""Load an environment's files as `Settings`.

`Pulumi.<stack>.yaml` has the sections under `config:` as `trainstack:<section>`. Values that environments share are in
`defaults.yaml` (with sections at the top level) and, for a run, in `workloads/<base>/workload.yaml`, where the base is
the run's `from`, or else its name. The files are merged by the rule of `settings.loading.merge`, the environment last.
The optional `pins/<stack>.yaml` has the digests of the environment's images, and the commits that replace the branches
and tags of its `code`. Each sweep has its space and its sets in `sweeps/<name>/`.

One exception: an entry under `operators` of `defaults.yaml` is a template, used only if the environment's `operators`
has the key (`kueue: {}` is enough), so an environment that lists no operator installs none. A project without
`defaults.yaml` has the release manifests of this repository as templates.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from trainstack.settings.errors import ENGINE, Finding, Place, SettingsError, nearest
from trainstack.settings.loading.bases import Steps, with_bases, workload_files
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
SECTIONS = tuple(name for name in Settings.model_fields if name not in ("stack", "pins", "code_pins"))
SECRETS = "secrets"
"""The section that is read, encrypted, from the stack's file even if the engine passes its configuration."""
DEFAULTS = "defaults.yaml"
_RELEASES = Path(__file__).with_name("releases.yaml")
"""A link to this repository's `defaults.yaml`; a copy of it in the wheel."""
PINS, CODE_PINS = "pins", "codePins"
"""The folder of the files with pins; also the keys of their entries in the merged tree: images, code."""
STACK_FILE_KEYS = ("config", "environment", "secretsprovider", "encryptedkey", "encryptionsalt")
"""The top-level keys of a stack's file that the Pulumi engine accepts."""


@dataclass(frozen=True)
class Loaded:
    """An environment's settings, with the place of each value."""

    settings: Settings
    places: Mapping[str, Place]

    def where(self, path: str) -> Place | None:
        return nearest_place(self.places, path)


@dataclass(frozen=True)
class Placement:
    """Where an environment's engine state and its default cluster are."""

    embedded: bool
    """Whether the state is in a folder of the checkout."""
    local: bool
    """Whether the default cluster is the local one."""


@dataclass(frozen=True)
class SharedNames:
    """The names of runs and volumes for which the project's files have shared values."""

    runs: frozenset[str] = frozenset()
    volumes: frozenset[str] = frozenset()


def load(root: Path, stack: str, engine: Mapping[str, str] | None = None) -> Settings:
    """Load the environment `stack` of the project at `root`.

    `engine_config`: the configuration that the Pulumi engine passes to the program (`trainstack:<section>` to JSON
    text); it takes precedence over the file. Raises SettingsError with every fault.
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
    """Load an environment as `load` does, with the place of each value.

    `changes`: what-if values, see `settings.sections.what_if`. `to_run`: False keeps the branches and tags of `code`
    and the runs that `workloads.exclude` lists, as the command that pins code requires. Raises SettingsError with every
    fault.
    """
    if misnamed := fault(stack):
        raise SettingsError(stack, [misnamed])
    findings: list[Finding] = []
    tree, bases = _tree(root, stack, engine, findings)
    tree = prune(changed(tree, changes, findings))
    of_spaces: dict[str, Place] = {}
    # A sweep's files are read after the merge, since only the merged tree has the names of all sweeps.
    try:
        entries = with_files(root, tree, {key: plain(node) for key, node in tree.entries.items()}, findings, of_spaces)
        settings = Settings.model_validate({"stack": stack, **entries}, by_alias=True, by_name=False)
    except ValidationError as error:
        findings += findings_of(error, tree, bases)
    else:
        # Pins are applied to valid settings only, so that a missing pin is not reported for an invalid `code`.
        places = of_spaces | {path: node.where for path, node in walk(tree)}
        if to_run:
            settings = with_commits(settings.without_excluded(), places, pins_file(stack), findings)
        if not findings:
            return Loaded(settings, places)
    raise SettingsError(stack, findings)


def placement(root: Path, stack: str) -> Placement:
    """Return an environment's placement even if other settings are invalid; the defaults if it has no file."""
    try:
        tree, _ = _tree(root, stack, None, [])
    except SettingsError:
        tree = Node({}, Place(file_of(stack)))

    def value(section: str, key: str) -> Scalar:
        node = tree.entries[section].entries.get(key) if section in tree.entries else None
        return node.data if node is not None and isinstance(node.data, Scalar) else None

    return Placement(value("environment", "state") == "embedded", value("cluster", "local") is True)


def explain(root: Path, stack: str) -> list[tuple[str, Scalar, Place]]:
    """Return the path, value and place of every scalar that the files set. Raises SettingsError as `load` does."""
    load(root, stack)
    tree, _ = _tree(root, stack, None, [])
    return [(path, node.data, node.where) for path, node in walk(tree) if not isinstance(node.data, Mapping | tuple)]


def shared_names(root: Path) -> SharedNames:
    """Return the names that a new run or volume must not have, since shared values would be merged into it."""
    try:
        top = read(root, DEFAULTS, [])
    except FileNotFoundError:
        top = Node({}, Place(DEFAULTS))

    def names(section: str, key: str) -> frozenset[str]:
        entries = top.entries[section].entries if section in top.entries else {}
        return frozenset(item.name for item in (entries[key].items if key in entries else ()) if item.name is not None)

    return SharedNames(names("workloads", "runs") | workload_files(root).keys(), names("storage", "volumes"))


def pins_file(stack: str) -> str:
    return f"{PINS}/{stack}.yaml"


def _tree(
    root: Path, stack: str, engine: Mapping[str, str] | None, findings: list[Finding]
) -> tuple[Node, Mapping[Steps, Finding]]:
    """Return the merged sections, and the findings to report if runs without a base lack values, by the runs' steps."""
    own = _environment(root, stack, engine, findings)
    tree, bases = with_bases(root, merge(_defaults(root, own, findings), own), findings)
    return prune(Node({**tree.entries, **_pins(root, stack, findings)}, tree.where)), bases


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
        existing = ", ".join(stacks(root)) or "none"
        remedy = f"create {file}, or use one of this project's environments: {existing}"
        missing = Finding(Place(file), "", "the environment's file does not exist", remedy)
        raise SettingsError(stack, [missing]) from None
    for key in top.entries.keys() - set(STACK_FILE_KEYS):
        found = _unknown(top.entries[key], key, STACK_FILE_KEYS)
        findings.append(replace(found, remedy="put it under `config:`") if key.startswith(PROJECT) else found)
    config = top.entries.get("config", Node({}, top.where))
    sections = dict(_sections(config.entries, findings))
    if not isinstance(config.data, Mapping | None):
        findings.append(Finding(config.where, "config", "is not a map", f"write `{PROJECT}<section>:` lines under it"))
    if engine is not None:
        sections = _engine_sections(sections, engine, findings)
    if not sections and not findings:
        # `pulumi stack init` writes only the passphrase's salt.
        examples = ", ".join(name for name in stacks(root) if name != stack) or "docs/schema"
        remedy = f"write `{PROJECT}<section>:` lines under `config:`, as the other environments do: {examples}"
        findings.append(Finding(Place(file), "", "the environment declares nothing", remedy))
    return Node(sections, config.where)


def _sections(config: Mapping[str, Node], findings: list[Finding]) -> Iterator[tuple[str, Node]]:
    known = [PROJECT + section for section in SECTIONS]
    for key, node in config.items():
        if ":" not in key:
            remedy = f"write {PROJECT}{key}" if key in SECTIONS else nearest(key, known)
            findings.append(Finding(node.where, key, "the key has no project prefix", remedy))
        elif key.startswith(PROJECT) and key not in known:
            findings.append(_unknown(node, key, known))
        elif key.startswith(PROJECT):
            yield key.removeprefix(PROJECT), node


def _engine_sections(
    sections: Mapping[str, Node], engine: Mapping[str, str], findings: list[Finding]
) -> dict[str, Node]:
    where = Place(ENGINE)
    config = {key: Node(None, where, text) for key, text in engine.items() if ":" in key}
    # The caller leaves the engine's secrets out, since they are decrypted.
    merged = {SECRETS: sections[SECRETS]} if SECRETS in sections else {}
    for section, node in _sections(config, findings):
        try:
            value = json.loads(node.text) if node.text else None
        except ValueError:
            value = node.text  # `pulumi config set` without --path writes a plain string
        merged[section] = overlay(sections.get(section, Node(None, where)), value, where)
    return merged


def _defaults(root: Path, own: Node, findings: list[Finding]) -> Node:
    installed = own.entries["operators"].entries if "operators" in own.entries else {}
    try:
        top = read(root, DEFAULTS, findings)
    except FileNotFoundError:
        return _releases(own, findings) if installed else Node({}, own.where)
    entries = dict(top.entries)
    findings += (_unknown(entries.pop(key), key, SECTIONS) for key in entries.keys() - set(SECTIONS))
    if SECRETS in entries:
        remedy = "put them into each environment's file, where the engine decrypts them"
        findings.append(Finding(entries.pop(SECRETS).where, SECRETS, "environments cannot share secrets", remedy))
    if "operators" in entries:
        templates = entries["operators"]
        used = {key: template for key, template in templates.entries.items() if key in installed}
        entries["operators"] = Node(used, templates.where)
    return Node(entries, own.where)


def _releases(own: Node, findings: list[Finding]) -> Node:
    """Return the operator templates of a project without `defaults.yaml`: this repository's release manifests.

    An operator with a manifest of its own has no template.
    """
    package = _RELEASES.parents[3]
    templates = read(package, _RELEASES.relative_to(package).as_posix(), findings).entries["operators"]
    installed = own.entries["operators"].entries
    manifests = {
        key: Node({"manifest": template.entries["manifest"]}, template.where)
        for key, template in templates.entries.items()
        if key in installed and "manifest" not in installed[key].entries
    }
    return Node({"operators": Node(manifests, templates.where)}, own.where)


def _unknown(node: Node, key: str, known: Sequence[str]) -> Finding:
    return Finding(node.where, "", f"unknown key {key}", nearest(key, known))
