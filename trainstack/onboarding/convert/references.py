"""The objects that converted ones refer to and that no file has: they exist in the cluster, or must be declared."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainstack.onboarding.convert.documents import InputObject
from trainstack.onboarding.convert.outcomes import ConvertedObject
from trainstack.onboarding.convert.section_entries import current_form
from trainstack.onboarding.yaml_additions import FileAddition
from trainstack.settings.model import Settings

_COHORT_FIELDS: Mapping[str, str] = {"ClusterQueue": "cohortName", "Cohort": "parentName"}


def existing_objects(objects: Sequence[ConvertedObject], settings: Settings) -> list[FileAddition]:
    """Return the entries for claims that are mounted, and classes that are used, but are in no file."""
    converted = [item for item in objects if item.outcome == "converted"]
    entries = [
        FileAddition(("environment", "existing", "volumes"), {"name": name, "namespace": namespace})
        for namespace, name in dict.fromkeys(_unknown_claims(converted, settings))
    ]
    classes = dict.fromkeys(_unknown_classes([item.source for item in converted], settings))
    return entries + [FileAddition(("environment", "existing", "storageClasses"), name) for name in classes]


def undeclared_cohorts(objects: Sequence[ConvertedObject], settings: Settings) -> list[str]:
    """Return the cohorts that queues name. Kueue accepts ones without objects, but the settings do not."""
    sources = [item.source for item in objects if item.outcome == "converted"]
    bodies = [current_form(source.body) for source in sources if source.kind in _COHORT_FIELDS]
    known = {cohort.name for cohort in settings.queues.cohorts}
    known |= {body["metadata"]["name"] for body in bodies if body["kind"] == "Cohort"}
    names = ((body.get("spec") or {}).get(_COHORT_FIELDS[body["kind"]]) for body in bodies)
    return [str(name) for name in dict.fromkeys(names) if name and name not in known]


def _unknown_claims(converted: Sequence[ConvertedObject], settings: Settings) -> Iterator[tuple[str, str]]:
    known = {(item.namespace, item.source.name) for item in converted if item.source.kind == "PersistentVolumeClaim"}
    known |= {(volume.namespace, volume.name) for volume in settings.mountable_volumes}
    for item in converted:
        for name in _mounted_claims(item.source.body) if item.run else ():
            if item.namespace is not None and (item.namespace, name) not in known:
                yield item.namespace, name


def _unknown_classes(sources: Sequence[InputObject], settings: Settings) -> Iterator[str]:
    storage = settings.storage
    known = {*settings.environment.existing.storage_classes, *(item.name for item in storage.classes)}
    known |= {source.name for source in sources if source.kind == "StorageClass"}
    # A claim binds to a volume that was created by hand if both have the same class name, even without a class.
    known |= {volume.storage_class or "" for volume in storage.persistent_volumes}
    known |= {_storage_class(source) for source in sources if source.kind == "PersistentVolume"}
    used = (_storage_class(source) for source in sources if source.kind == "PersistentVolumeClaim")
    yield from (name for name in used if name and name not in known)


def _mounted_claims(value: Any) -> Iterator[str]:
    """Yield the claims that the pods of an object mount, wherever it has its pods."""
    if isinstance(value, Mapping):
        claim = value.get("persistentVolumeClaim")
        if isinstance(claim, Mapping) and isinstance(claim.get("claimName"), str):
            yield claim["claimName"]
        for child in value.values():
            yield from _mounted_claims(child)
    elif isinstance(value, list):
        for child in value:
            yield from _mounted_claims(child)


def _storage_class(source: InputObject) -> str:
    spec = source.body.get("spec")
    return str(spec.get("storageClassName") or "") if isinstance(spec, Mapping) else ""
