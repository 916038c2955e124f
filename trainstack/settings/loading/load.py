"""Load an environment's files as `Settings`.

`Pulumi.<stack>.yaml` has the sections under `config:` as `trainstack:<section>`. Values that environments share are in
`defaults.yaml` (with sections at the top level) and, for a run, in `workloads/<base>/workload.yaml`, where the base is
the run's `from`, or else its name. The files are merged by the rule of `settings.loading.merge`, the environment last.
The optional `pins/<stack>.yaml` has the digests of the environment's images, and the commits that replace the branches
and tags of its `code`. Each sweep has its space and its sets in `sweeps/<name>/`, and `objects` names files of
Kubernetes objects.

One exception: an entry under `operators` of `defaults.yaml` is a template, used only if the environment's `operators`
has the key (`kueue: {}` is enough), so an environment that lists no operator installs none. A project without
`defaults.yaml` has the release manifests of this repository as templates.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from trainstack.settings.errors import ENGINE_PLACE, Place, SettingsError, SettingsFinding, suggest_name
from trainstack.settings.loading.bases import Steps, merge_bases, workload_files
from trainstack.settings.loading.code_pins import apply_code_pins, is_code_key
from trainstack.settings.loading.merge import merge, overlay, prune, to_plain, walk
from trainstack.settings.loading.object_files import add_objects
from trainstack.settings.loading.sweep_files import add_sweep_files
from trainstack.settings.loading.validation_errors import findings_of
from trainstack.settings.loading.what_if import apply_changes
from trainstack.settings.loading.yaml_reader import Node, Scalar, read_map
from trainstack.settings.model import Settings
from trainstack.settings.values.paths import nearest_place
from trainstack.settings.values.stack_name import list_stacks, stack_file, stack_name_fault

CONFIG_PREFIX = "trainstack:"
SECTIONS = tuple(name for name in Settings.model_fields if name not in ("stack", "pins", "code_pins"))
SECRETS = "secrets"
"""The section that is read, encrypted, from the stack's file even if the engine passes its configuration."""
DEFAULTS = "defaults.yaml"
_RELEASES_FILE = Path(__file__).with_name("releases.yaml")
"""A link to this repository's `defaults.yaml`; a copy of it in the wheel."""
PINS, CODE_PINS = "pins", "codePins"
"""The folder of the files with pins; also the keys of their entries in the merged tree: images, code."""
STACK_FILE_KEYS = ("config", "environment", "secretsprovider", "encryptedkey", "encryptionsalt")
"""The top-level keys of a stack's file that the Pulumi engine accepts."""


@dataclass(frozen=True)
class LoadedEnvironment:
    """An environment's settings, with the place of each value."""

    settings: Settings
    places: Mapping[str, Place]

    def place_of(self, path: str) -> Place | None:
        return nearest_place(self.places, path)


@dataclass(frozen=True)
class EnvironmentPlacement:
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


def load(root: Path, stack: str, engine_config: Mapping[str, str] | None = None) -> Settings:
    """Load the environment `stack` of the project at `root`.

    `engine_config`: the configuration that the Pulumi engine passes to the program (`trainstack:<section>` to JSON
    text); it takes precedence over the file. Raises SettingsError with every fault.
    """
    return load_with_places(root, stack, engine_config).settings


def load_with_places(
    root: Path,
    stack: str,
    engine_config: Mapping[str, str] | None = None,
    changes: Sequence[str] = (),
    *,
    to_run: bool = True,
) -> LoadedEnvironment:
    """Load an environment as `load` does, with the place of each value.

    `changes`: what-if values, see `settings.loading.what_if`. `to_run`: False keeps the branches and tags of `code`
    and the runs that `workloads.exclude` lists, as the command that pins code requires. Raises SettingsError with every
    fault.
    """
    if name_fault := stack_name_fault(stack):
        raise SettingsError(stack, [name_fault])
    findings: list[SettingsFinding] = []
    tree, missing_bases = _read_tree(root, stack, engine_config, findings)
    if any(finding.is_of_whole_file for finding in findings):
        # Without the values of a file, the validation would report faults that the files do not have.
        raise SettingsError(stack, findings)
    tree = prune(apply_changes(tree, changes, findings))
    space_places: dict[str, Place] = {}
    # A sweep's files are read after the merge, since only the merged tree has the names of all sweeps.
    try:
        entries = add_sweep_files(
            root, tree, {key: to_plain(node) for key, node in tree.entries.items()}, findings, space_places
        )
        settings = Settings.model_validate({"stack": stack, **entries}, by_alias=True, by_name=False)
    except ValidationError as error:
        findings += findings_of(error, tree, missing_bases)
    else:
        # Pins are applied to valid settings only, so that a missing pin is not reported for an invalid `code`.
        places = space_places | {path: node.where for path, node in walk(tree)}
        if to_run:
            settings = apply_code_pins(settings.without_excluded_runs(), places, pins_file(stack), findings)
        if not findings:
            return LoadedEnvironment(settings, places)
    raise SettingsError(stack, findings)


def read_placement(root: Path, stack: str) -> EnvironmentPlacement:
    """Return an environment's placement even if other settings are invalid; the defaults if it has no file."""
    try:
        tree, _ = _read_tree(root, stack, None, [])
    except SettingsError:
        tree = Node({}, Place(stack_file(stack)))

    def value(section: str, key: str) -> Scalar:
        node = tree.entries[section].entries.get(key) if section in tree.entries else None
        return node.data if node is not None and isinstance(node.data, Scalar) else None

    return EnvironmentPlacement(value("environment", "state") == "embedded", value("cluster", "local") is True)


def list_scalars(root: Path, stack: str) -> list[tuple[str, Scalar, Place]]:
    """Return the path, value and place of every scalar that the files set. Raises SettingsError as `load` does."""
    load(root, stack)
    tree, _ = _read_tree(root, stack, None, [])
    return [(path, node.data, node.where) for path, node in walk(tree) if not isinstance(node.data, Mapping | tuple)]


def read_shared_names(root: Path) -> SharedNames:
    """Return the names that a new run or volume must not have, since shared values would be merged into it."""
    try:
        document = read_map(root, DEFAULTS, [])
    except FileNotFoundError:
        document = Node({}, Place(DEFAULTS))

    def names(section: str, key: str) -> frozenset[str]:
        entries = document.entries[section].entries if section in document.entries else {}
        return frozenset(item.name for item in (entries[key].items if key in entries else ()) if item.name is not None)

    return SharedNames(names("workloads", "runs") | workload_files(root).keys(), names("storage", "volumes"))


def pins_file(stack: str) -> str:
    return f"{PINS}/{stack}.yaml"


def _read_tree(
    root: Path, stack: str, engine_config: Mapping[str, str] | None, findings: list[SettingsFinding]
) -> tuple[Node, Mapping[Steps, SettingsFinding]]:
    """Return the merged sections, and the findings to report if runs without a base lack values, by the runs' steps."""
    environment = _read_environment(root, stack, engine_config, findings)
    tree, missing_bases = merge_bases(root, merge(_read_defaults(root, environment, findings), environment), findings)
    tree = add_objects(root, tree, findings)
    return prune(Node({**tree.entries, **_read_pins(root, stack, findings)}, tree.where)), missing_bases


def _read_pins(root: Path, stack: str, findings: list[SettingsFinding]) -> dict[str, Node]:
    try:
        pins = read_map(root, pins_file(stack), findings)
    except FileNotFoundError:
        return {}
    images = {key: node for key, node in pins.entries.items() if not is_code_key(key)}
    code = {key: node for key, node in pins.entries.items() if is_code_key(key)}
    return {PINS: Node(images, pins.where), CODE_PINS: Node(code, pins.where)}


def _read_environment(
    root: Path, stack: str, engine_config: Mapping[str, str] | None, findings: list[SettingsFinding]
) -> Node:
    file = stack_file(stack)
    try:
        document = read_map(root, file, findings)
    except FileNotFoundError:
        existing = ", ".join(list_stacks(root)) or "none"
        remedy = f"create {file}, or use one of this project's environments: {existing}"
        missing = SettingsFinding(Place(file), "", "the environment's file does not exist", remedy)
        raise SettingsError(stack, [missing]) from None
    for key in document.entries.keys() - set(STACK_FILE_KEYS):
        finding = _unknown_key(document.entries[key], key, STACK_FILE_KEYS)
        findings.append(replace(finding, remedy="put it under `config:`") if key.startswith(CONFIG_PREFIX) else finding)
    config = document.entries.get("config", Node({}, document.where))
    sections = dict(_config_sections(config.entries, findings))
    if not isinstance(config.data, Mapping | None):
        findings.append(
            SettingsFinding(config.where, "config", "is not a map", f"write `{CONFIG_PREFIX}<section>:` lines under it")
        )
    if engine_config is not None:
        sections = _engine_sections(sections, engine_config, findings)
    if not sections and not findings:
        # `pulumi stack init` writes only the passphrase's salt.
        examples = ", ".join(name for name in list_stacks(root) if name != stack) or "docs/schema"
        remedy = f"write `{CONFIG_PREFIX}<section>:` lines under `config:`, as the other environments do: {examples}"
        findings.append(SettingsFinding(Place(file), "", "the environment declares nothing", remedy))
    return Node(sections, config.where)


def _config_sections(config: Mapping[str, Node], findings: list[SettingsFinding]) -> Iterator[tuple[str, Node]]:
    valid_keys = [CONFIG_PREFIX + section for section in SECTIONS]
    for key, node in config.items():
        if ":" not in key:
            remedy = f"write {CONFIG_PREFIX}{key}" if key in SECTIONS else suggest_name(key, valid_keys)
            findings.append(SettingsFinding(node.where, key, "the key has no project prefix", remedy))
        elif key.startswith(CONFIG_PREFIX) and key not in valid_keys:
            findings.append(_unknown_key(node, key, valid_keys))
        elif key.startswith(CONFIG_PREFIX):
            yield key.removeprefix(CONFIG_PREFIX), node


def _engine_sections(
    sections: Mapping[str, Node], engine_config: Mapping[str, str], findings: list[SettingsFinding]
) -> dict[str, Node]:
    where = Place(ENGINE_PLACE)
    config = {key: Node(None, where, text) for key, text in engine_config.items() if ":" in key}
    # The caller leaves the engine's secrets out, since they are decrypted.
    merged = {SECRETS: sections[SECRETS]} if SECRETS in sections else {}
    for section, node in _config_sections(config, findings):
        try:
            value = json.loads(node.text) if node.text else None
        except ValueError:
            value = node.text  # `pulumi config set` without --path writes a plain string
        merged[section] = overlay(sections.get(section, Node(None, where)), value, where)
    return merged


def _read_defaults(root: Path, environment: Node, findings: list[SettingsFinding]) -> Node:
    installed = environment.entries["operators"].entries if "operators" in environment.entries else {}
    try:
        document = read_map(root, DEFAULTS, findings)
    except FileNotFoundError:
        return _release_templates(environment, findings) if installed else Node({}, environment.where)
    entries = dict(document.entries)
    findings += (_unknown_key(entries.pop(key), key, SECTIONS) for key in entries.keys() - set(SECTIONS))
    if SECRETS in entries:
        remedy = "put them into each environment's file, where the engine decrypts them"
        findings.append(
            SettingsFinding(entries.pop(SECRETS).where, SECRETS, "environments cannot share secrets", remedy)
        )
    if "operators" in entries:
        templates = entries["operators"]
        used_templates = {key: template for key, template in templates.entries.items() if key in installed}
        entries["operators"] = Node(used_templates, templates.where)
    return Node(entries, environment.where)


def _release_templates(environment: Node, findings: list[SettingsFinding]) -> Node:
    """Return the operator templates of a project without `defaults.yaml`: this repository's release manifests.

    An operator with a manifest of its own has no template. The place of the values is the operator's entry, since the
    project lacks the file of the templates.
    """
    templates = _read_releases(findings)
    installed = environment.entries["operators"].entries
    manifests = {
        key: Node({"manifest": _move(template.entries["manifest"], installed[key].where)}, installed[key].where)
        for key, template in templates.entries.items()
        if key in installed and "manifest" not in installed[key].entries
    }
    return Node({"operators": Node(manifests, templates.where)}, environment.where)


def _move(values: Node, where: Place) -> Node:
    """Return a map of scalars with another place."""
    return Node({key: replace(value, where=where) for key, value in values.entries.items()}, where)


def default_version(operator: str) -> str:
    """Return the version of an operator's release that projects without `defaults.yaml` install, such as `v0.15.2`."""
    return _read_releases([]).entries[operator].entries["manifest"].entries["version"].text


def default_digests() -> set[str]:
    """Return the sha256 of the release manifests that projects without `defaults.yaml` install."""
    entries = _read_releases([]).entries.values()
    return {operator.entries["manifest"].entries["sha256"].text for operator in entries}


def _read_releases(findings: list[SettingsFinding]) -> Node:
    package = _RELEASES_FILE.parents[3]
    return read_map(package, _RELEASES_FILE.relative_to(package).as_posix(), findings).entries["operators"]


def _unknown_key(node: Node, key: str, valid_keys: Sequence[str]) -> SettingsFinding:
    return SettingsFinding(node.where, "", f"unknown key {key}", suggest_name(key, valid_keys))
