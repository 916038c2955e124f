"""The conversion: the files and the environment's entries for the objects of YAML files."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from pydantic.alias_generators import to_snake

from trainstack.errors import TrainstackError
from trainstack.objects.labels import STACK
from trainstack.onboarding.adopt.entries import adoption_obstacle
from trainstack.onboarding.convert.documents import InputObject
from trainstack.onboarding.convert.families import Family, find_families
from trainstack.onboarding.convert.kinds import (
    ENTRIES,
    LEFT_OUT,
    OTHER_WORKLOADS,
    TRAINING_ENTRIES,
    KindKey,
    disposition,
    find_pods,
    supported_version,
)
from trainstack.onboarding.convert.native import native_settings
from trainstack.onboarding.convert.operators import needed_operators
from trainstack.onboarding.convert.outcomes import ConvertedObject, Outcome
from trainstack.onboarding.convert.references import existing_objects, undeclared_cohorts
from trainstack.onboarding.convert.section_entries import build_entry
from trainstack.onboarding.convert.server_fields import sources_of_admission
from trainstack.onboarding.convert.texts import dump_object, object_text
from trainstack.onboarding.yaml_additions import FileAddition
from trainstack.preflight.rules.references import ALWAYS_PRESENT
from trainstack.settings.model import Settings
from trainstack.settings.values.kind_scopes import NAMESPACED_KINDS

_NOT_IN_NAME = re.compile("[^a-z0-9]+")
_MAX_NAME = 63
_LEAST_SUGGESTED_TRIALS = 3
"""The least number of objects for which a sweep is proposed."""
_SPACE_HEAD = """\
# The sets are those of the converted objects. The objective is a placeholder: name a metric that the program writes or
# prints, by which the trials are compared.
"""
_CLUSTER_OBJECTS = {"ConfigMap": ("kube-root-ca.crt", "openshift-service-ca.crt"), "ServiceAccount": ("default",)}
"""Objects that the cluster creates in every namespace."""


@dataclass(kw_only=True)
class Conversion:
    """New files of the project, and additions to the environment's file."""

    files: dict[str, str] = field(default_factory=dict)
    entries: list[FileAddition] = field(default_factory=list)
    objects: list[ConvertedObject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def files_or_entries(self) -> bool:
        """Whether the project changes."""
        return bool(self.files or self.entries)


@dataclass(frozen=True, kw_only=True)
class Target:
    """The environment that objects are added to."""

    settings: Settings
    namespace: str | None
    """The namespace of objects whose files have none; None if the environment has several."""
    workload_names: frozenset[str]
    """The names that runs, sweeps and folders of workloads have already."""
    shared_priorities: frozenset[str] = frozenset()
    """The priority classes that only defaults.yaml declares."""

    @property
    def declares_platform(self) -> bool:
        environment = self.settings.environment
        return "platform" in environment.layers and environment.profile == "owner"


def convert_objects(
    objects: Sequence[InputObject], target: Target, *, with_sweeps: bool = False, native: bool = False
) -> Conversion:
    """Convert objects into files and entries. Raises TrainstackError with all objects that have no place.

    `with_sweeps`: make one sweep of workloads that differ in names, arguments and variables only. `native`: write
    settings instead of a manifest where they say everything.
    """
    builder = _Builder(target, native=native)
    builder.add(objects, with_sweeps=with_sweeps)
    return builder.conversion


class _Builder:
    def __init__(self, target: Target, *, native: bool) -> None:
        self.conversion = Conversion()
        self._native = native
        self._target, self._settings = target, target.settings
        self._names = {*target.workload_names}
        self._workloads: list[InputObject] = []
        self._others = defaultdict[str, list[InputObject]](list)
        self._faults: list[str] = []

    def add(self, objects: Sequence[InputObject], *, with_sweeps: bool) -> None:
        """Convert objects."""
        self._refuse_duplicates(objects)
        for source in objects:
            self._sort(source)
        self._add_workloads(self._workloads, with_sweeps=with_sweeps)
        for file, sources in self._others.items():
            self._add_objects(file, sources)
        self._add_references()
        if self._faults:
            raise TrainstackError("\n".join(dict.fromkeys(self._faults)))

    def _sort(self, source: InputObject) -> None:
        """Add an entry for an object, or keep it until all namespaces are known."""
        if reason := self._reason_to_leave(source):
            self._record(source, *reason)
            return
        kind = disposition((source.group, source.kind))
        if kind == "secret":
            self._add_secret(source)
            return
        if _is_namespaced(source):
            self._add_namespace(self._require_namespace(source))
        if kind == "workload":
            self._workloads.append(source)
        elif kind != "entry" or not self._add_entry(source):
            self._others[source.where.file].append(source)

    def _refuse_duplicates(self, objects: Sequence[InputObject]) -> None:
        first: dict[tuple[str, str, str | None, str], InputObject] = {}
        for source in objects:
            if "name" not in source.metadata:
                continue
            key = (source.group, source.kind, source.namespace or self._target.namespace, source.name)
            if key in first:
                self._faults.append(
                    f"{source.where}: {source.identity} is in {first[key].where} too; leave one of them out"
                )
            first.setdefault(key, source)

    def _reason_to_leave(self, source: InputObject) -> tuple[Outcome, str] | None:
        """Return the outcome and the reason for an object that is not converted; None for all others."""
        key: KindKey = (source.group, source.kind)
        if reason := _created_by(source):
            return "referenced", reason
        if owner := (source.metadata.get("labels") or {}).get(STACK):
            return "left", f"stack {owner} of Trainstack declares it"
        if source.is_live and (obstacle := adoption_obstacle(source.body, self._settings.stack)):
            return "left", obstacle
        kind = disposition(key)
        if kind == "namespace":
            self._add_namespace(source.name)
            return "referenced", "it is used as an existing one (environment.existing.namespaces)"
        if kind == "entry" and not self._target.declares_platform and key not in TRAINING_ENTRIES:
            return "left", f"{self._settings.stack} has no platform: convert it into the platform's environment"
        reason = LEFT_OUT.get(key, "") or (_fault_of_workload(key, source) if kind == "workload" else "")
        return ("left", reason) if reason else None

    def _record(
        self,
        source: InputObject,
        outcome: Outcome,
        reason: str = "",
        place: str = "",
        run: str = "",
        trial: int | None = None,
    ) -> None:
        namespace = self._namespace_of(source)
        self.conversion.objects.append(
            ConvertedObject(
                source=source, outcome=outcome, reason=reason, place=place, run=run, trial=trial, namespace=namespace
            )
        )

    # Workloads

    def _add_workloads(self, sources: Sequence[InputObject], *, with_sweeps: bool) -> None:
        # Trials cannot be adopted.
        families = find_families([source for source in sources if not source.is_live], self._target.workload_names)
        trials = set[int]()
        for family in families:
            if with_sweeps:
                self._add_sweep(family)
                trials |= set(map(id, family.members))
            elif len(family.members) >= _LEAST_SUGGESTED_TRIALS:
                self.conversion.notes.append(
                    f"{len(family.members)} objects differ in names, arguments, variables and labels only "
                    f"({family.members[0].identity} and others): `--sweep` makes one sweep of them"
                )
        for source in sources:
            if id(source) not in trials:
                self._add_workload(source)

    def _add_sweep(self, family: Family) -> None:
        """Add a sweep, whose workload is the first object of the family."""
        name, source = family.name, family.members[0]
        self._names.add(name)
        self._write_workload(name, source)
        place = f"sweeps/{name}/space.yaml"
        self.conversion.files[place] = _SPACE_HEAD + dump_object(family.space)
        self.conversion.files[f"sweeps/{name}/hyperparams.yml"] = family.sets_text
        run = {"naming": "fixed", **({} if source.namespace else {"namespace": self._require_namespace(source)})}
        self.conversion.entries.append(FileAddition(("sweeps", "sweeps"), {"name": name, "run": run}))
        for number, member in enumerate(family.members, 1):
            self._record(member, "converted", place=place, run=name, trial=number)

    def _add_workload(self, source: InputObject) -> None:
        name = self._new_name(source)
        if self._native and name == source.name and self._add_native_workload(source):
            return
        run: dict[str, Any] = {"name": name}
        run["naming"] = "fixed" if "name" in source.metadata else "generated"
        if source.namespace is None:
            run["namespace"] = self._require_namespace(source)
        if source.is_live:
            # The object exists: `up` records the run, and does not launch it again.
            run["adopt"] = True
        self.conversion.entries.append(FileAddition(("workloads", "runs"), run))
        self._record(source, "converted", place=self._write_workload(name, source), run=name)
        if source.is_live:
            for path in sources_of_admission(source.body):
                note = f"{source.identity}: Kueue adds the labels of its flavor to {path} of a running object; check it"
                self.conversion.notes.append(note)

    def _add_native_workload(self, source: InputObject) -> bool:
        """Add a workload without a manifest. Return False if its settings would not say everything."""
        settings = native_settings(source, self._require_namespace(source), self._settings.stack)
        if settings is None:
            return False
        workload, run = settings
        file = f"workloads/{source.name}/workload.yaml"
        self.conversion.files[file] = dump_object(workload)
        adoption = {"adopt": True} if source.is_live else {}
        self.conversion.entries.append(FileAddition(("workloads", "runs"), {"name": source.name, **run, **adoption}))
        self._record(source, "converted", place=file, run=source.name)
        return True

    def _write_workload(self, name: str, source: InputObject) -> str:
        """Write the files of a workload, and return the one with its object."""
        file, key = f"workloads/{name}/workload.yaml", (source.group, source.kind)
        if key in OTHER_WORKLOADS:
            self.conversion.files[file] = _workload_settings(key, source)
            file = f"workloads/{name}/{source.kind.lower()}.yaml"
        self.conversion.files[file] = object_text(source)
        return file

    def _new_name(self, source: InputObject) -> str:
        base = _NOT_IN_NAME.sub("-", source.name.lower()).strip("-")[:_MAX_NAME].strip("-") or source.kind.lower()
        candidates = [base, f"{base}-{source.kind.lower()}", f"{base}-{source.namespace or ''}".strip("-")]
        name = next((name for name in candidates if name not in self._names and len(name) <= _MAX_NAME), "")
        if not name or base in self._target.workload_names:
            self._faults.append(
                f"{source.where}: workload {base} exists in the project (workloads/{base}, or a run or sweep of "
                f"{self._settings.stack}); rename {source.identity} or remove the other one"
            )
        self._names.add(name)
        return name or base

    # Entries of sections

    def _add_entry(self, source: InputObject) -> bool:
        """Add an entry for a volume or a queue. Return False if it is to be among the other objects instead."""
        key: KindKey = (source.group, source.kind)
        kind = ENTRIES[key]
        place = ".".join(kind.path)
        is_shared = source.kind == "WorkloadPriorityClass" and source.name in self._target.shared_priorities
        namespace = self._namespace_of(source) if "namespace" in kind.model.model_fields else None
        if (source.name, namespace) in self._declared_names(key) and not is_shared:
            self._record(source, "converted", place=place)
            self.conversion.notes.append(f"{source.identity} is declared already; nothing is added for it")
            return True
        element, lost = build_entry(source, namespace or "", self._settings.stack)
        if element is not None:
            if is_shared:
                element = {**element, "description": source.body.get("description", "")}
            self.conversion.entries.append(FileAddition(kind.path, element))
            self._record(source, "converted", place=place)
            return True
        if source.kind in ("PersistentVolume", "PersistentVolumeClaim"):
            return False
        self._record(source, "left", f"{place} has no settings for {lost}")
        return True

    def _declared_names(self, key: KindKey) -> set[tuple[str, str | None]]:
        section, list_name = map(to_snake, ENTRIES[key].path)
        elements = getattr(getattr(self._settings, section), list_name)
        return {(element.name, getattr(element, "namespace", None)) for element in elements}

    # Other objects

    def _add_secret(self, source: InputObject) -> None:
        keys = sorted({**(source.body.get("data") or {}), **(source.body.get("stringData") or {})})
        namespace = self._namespace_of(source)
        type_options = [f"--type={source.body['type']}"] if source.body.get("type") not in (None, "Opaque") else []
        words = ["kubectl create secret generic", source.name, *([f"-n {namespace}"] if namespace else [])]
        words += type_options
        words += [f"--from-file={key}=<file>" for key in keys]
        # The values are not copied into a file, a message or a command.
        self._record(source, "referenced", f"its values stay out of the project; create it with: {' '.join(words)}")

    def _add_objects(self, file: str, sources: Sequence[InputObject]) -> None:
        """Write the objects of one file to one file of the project, and list it."""
        texts, adopted = list[str](), list[str]()
        name = f"objects/{_NOT_IN_NAME.sub('-', PurePath(file).stem.lower()).strip('-') or 'objects'}.yaml"
        for source in sources:
            if "name" not in source.metadata:
                self._record(source, "left", "its name is generated: set metadata.name")
                continue
            texts.append(self._text_of_object(source))
            if source.is_live:
                adopted.append(source.identity)
            self._record(source, "converted", place=name)
        if not texts:
            return
        while name in self.conversion.files:
            name = f"{name.removesuffix('.yaml')}-objects.yaml"
        self.conversion.files[name] = "---\n".join(texts)
        self.conversion.entries.append(FileAddition(("objects", "files"), name))
        self.conversion.entries += [FileAddition(("objects", "adopt"), identity) for identity in adopted]

    def _text_of_object(self, source: InputObject) -> str:
        if source.namespace is None and _is_namespaced(source) and len(self._namespaces()) > 1:
            namespace = self._require_namespace(source)
            metadata = {**source.body["metadata"], "namespace": namespace}
            return dump_object({**source.body, "metadata": metadata})
        return object_text(source)

    # References

    def _add_references(self) -> None:
        self.conversion.entries += existing_objects(self.conversion.objects, self._settings)
        for entry, note in needed_operators(self._workloads, self._settings.operators):
            self.conversion.entries.append(entry)
            self.conversion.notes.append(note)
        for name in undeclared_cohorts(self.conversion.objects, self._settings):
            self.conversion.entries.append(FileAddition(("queues", "cohorts"), {"name": name}))
            note = f"cohort {name} is in no file; `up` creates an empty one, which has no effect"
            self.conversion.notes.append(note)

    def _add_namespace(self, name: str) -> None:
        entry = FileAddition(("environment", "existing", "namespaces"), name)
        if name not in {*self._namespaces(), *ALWAYS_PRESENT}:
            self.conversion.entries.append(entry)

    def _namespaces(self) -> set[str]:
        environment = self._settings.environment
        added = (entry for entry in self.conversion.entries if entry.path[-2:] == ("existing", "namespaces"))
        declared = {namespace.name for namespace in environment.namespaces}
        return {*declared, *environment.existing.namespaces, *(str(entry.value) for entry in added)}

    def _namespace_of(self, source: InputObject) -> str | None:
        return source.namespace or self._target.namespace

    def _require_namespace(self, source: InputObject) -> str:
        namespace = self._namespace_of(source)
        if namespace is None:
            self._faults.append(f"{source.where}: {source.identity} has no namespace; name one with --namespace")
        return namespace or "unknown"


def _created_by(source: InputObject) -> str:
    """Return who creates an object that its author did not write; empty if the author did."""
    if source.controller:
        return f"{source.controller} creates it"
    if source.name in _CLUSTER_OBJECTS.get(source.kind, ()) and not source.body.get("imagePullSecrets"):
        return "the cluster creates it in every namespace"
    annotations = source.metadata.get("annotations") or {}
    if source.kind == "PersistentVolume" and "pv.kubernetes.io/provisioned-by" in annotations:
        return "its provisioner creates it for a claim"
    return "the cluster creates it" if disposition((source.group, source.kind)) == "cluster" else ""


def _fault_of_workload(key: KindKey, source: InputObject) -> str:
    """Return why the object cannot be a workload; empty if it can."""
    api_version, version = str(source.body["apiVersion"]), supported_version(key)
    if key in OTHER_WORKLOADS:
        return "" if find_pods(key, source.body) else "no paths of its pods are known"
    return "" if version == api_version else f"{api_version} is not supported: set apiVersion to {version}"


def _workload_settings(key: KindKey, source: InputObject) -> str:
    """Return the workload.yaml of a kind whose pods are found by paths."""
    pods = [
        {
            key: value
            for key, value in (("name", pod.name), ("template", pod.template), ("replicas", pod.replicas))
            if value
        }
        for pod in find_pods(key, source.body)
    ]
    settings = {
        "manifest": f"{source.kind.lower()}.yaml",
        "object": {"framework": OTHER_WORKLOADS[key].framework, "pods": pods},
    }
    return dump_object(settings)


def _is_namespaced(source: InputObject) -> bool:
    if (source.group, source.kind) in ENTRIES:
        return "namespace" in ENTRIES[source.group, source.kind].model.model_fields
    is_workload = disposition((source.group, source.kind)) == "workload"
    return source.namespace is not None or is_workload or source.kind in NAMESPACED_KINDS
