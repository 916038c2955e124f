"""What an environment would say to take over a namespace's volumes and queues: exactly as they are, or not at all."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainstack.onboarding.adopt import entries as kinds
from trainstack.onboarding.adopt.entries import Element, Kind, obstacle, spec, unsaid
from trainstack.onboarding.adopt.found import Body, Found
from trainstack.onboarding.editing import Entry
from trainstack.settings.base import Section
from trainstack.settings.model import Settings
from trainstack.settings.values.quantities import amount

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_PROVISIONED = "pv.kubernetes.io/provisioned-by"
_ALWAYS_THERE = ("default", "kube-node-lease", "kube-public", "kube-system")


@dataclass
class Adoption:
    """What to add to the file, and what to tell."""

    entries: list[Entry] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    """The objects that the next `up` takes over, as `Kind [namespace/]name`."""
    left: dict[str, str] = field(default_factory=dict)
    """The objects that stay others', by name, each with the reason."""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Names:
    """What the environment declares already, by the list of its file."""

    settings: Settings
    shared: frozenset[str]
    """The priority classes that defaults.yaml declares, which the environment's own file may still adopt."""

    def declares(self, path: tuple[str, str], name: str, namespace: str | None) -> bool:
        listed: tuple[Section, ...] = {
            ("storage", "volumes"): self.settings.storage.volumes,
            ("storage", "persistentVolumes"): self.settings.storage.persistent_volumes,
            ("storage", "classes"): self.settings.storage.classes,
            ("queues", "flavors"): self.settings.queues.flavors,
            ("queues", "cohorts"): self.settings.queues.cohorts,
            ("queues", "clusterQueues"): self.settings.queues.cluster_queues,
            ("queues", "localQueues"): self.settings.queues.local_queues,
            ("queues", "priorityClasses"): self.settings.queues.priority_classes,
        }[path]
        return any((getattr(one, "name", None), getattr(one, "namespace", None)) == (name, namespace) for one in listed)


def adopt(settings: Settings, found: Found, shared_priorities: Iterable[str] = ()) -> Adoption:
    """The additions that take over what was found, as far as the environment's halves and profile hold it.

    Args:
        settings: the environment as it is.
        found: what the cluster holds.
        shared_priorities: the priority classes that the environment has from defaults.yaml alone.

    """
    result, names = Adoption(notes=list(found.unreadable)), _Names(settings, frozenset(shared_priorities))
    environment = settings.environment
    known = {*(one.name for one in environment.namespaces), *environment.existing.namespaces, *_ALWAYS_THERE}
    if found.namespace not in known:
        result.entries.append(Entry(("environment", "existing", "namespaces"), found.namespace))
    if "platform" in environment.halves and environment.profile == "owner":
        _storage(names, found, result)
        _queues(names, found, result)
    elif found.local_queues:
        result.notes.append(f"queues are the platform's to adopt: {settings.stack} holds volumes and runs only")
    if "training" in environment.halves:
        _claims(names, found, result)
    elif found.claims:
        result.notes.append(f"volume claims are the team's to adopt: {settings.stack} holds the platform only")
    return result


def _claims(names: _Names, found: Found, result: Adoption) -> None:
    taken = [live for live in found.claims if _take(kinds.CLAIM, live, names, result)]
    settings = names.settings
    known = {one.name for one in settings.storage.classes} | {*settings.environment.existing.storage_classes}
    known |= {_name(entry) for entry in result.entries if entry.path == kinds.STORAGE_CLASS.path}
    # A claim that is declared already may say no class while it is live.
    wanted = {str(live["spec"]["storageClassName"]) for live in taken if live["spec"].get("storageClassName")}
    for name in sorted(wanted - known):
        result.entries.append(Entry(("environment", "existing", "storageClasses"), name))


def _storage(names: _Names, found: Found, result: Adoption) -> None:
    """Volumes made by hand for these claims, and the classes that nobody else uses."""
    wanted = {live["spec"].get("storageClassName") for live in found.claims}
    for live in found.classes:
        if live["metadata"]["name"] not in wanted:
            continue
        if why := _of_others(live, found):
            _leave(live, f"{why}; it is only named", result)
        else:
            _take(kinds.STORAGE_CLASS, live, names, result)
    for live in found.persistent_volumes:
        if any(_of_claim(live, claim) for claim in found.claims):
            _take(kinds.PERSISTENT_VOLUME, live, names, result)


def _of_others(storage_class: Body, found: Found) -> str | None:
    """Why a class is not this namespace's alone, so that no `destroy` of ours may remove it."""
    metadata = storage_class["metadata"]
    if (metadata.get("annotations") or {}).get(_DEFAULT_CLASS) == "true":
        return "is the cluster's default"
    if found.foreign_claims is None:
        return "may be used by claims of other namespaces, which may not be read"
    used = any(live["spec"].get("storageClassName") == metadata["name"] for live in found.foreign_claims)
    return "is used by claims of other namespaces" if used else None


def _of_claim(volume: Body, claim: Body) -> bool:
    """Whether somebody made the volume for the claim: it is the claim's, or free and what the claim's selector names.

    A free volume of the same class alone may be meant for anybody.
    """
    if (volume["metadata"].get("annotations") or {}).get(_PROVISIONED):
        return False
    offered, asked, own = volume["spec"], claim["spec"], claim["metadata"]
    if held := offered.get("claimRef"):
        # Bound, or kept for it by hand, then without a uid; another uid is of a claim of that name that is gone.
        same = (held.get("namespace"), held.get("name")) == (own["namespace"], own["name"])
        return same and held.get("uid") in (None, "", own.get("uid"))
    selector = asked.get("selector") or {}
    if asked.get("volumeName") or not selector.get("matchLabels") or selector.get("matchExpressions"):
        return False
    return bool(
        offered.get("storageClassName") == asked.get("storageClassName")
        and selector["matchLabels"].items() <= (volume["metadata"].get("labels") or {}).items()
        and {*asked["accessModes"]} <= {*offered["accessModes"]}
        and amount(asked["resources"]["requests"]["storage"]) <= amount(offered["capacity"]["storage"])
    )


def _queues(names: _Names, found: Found, result: Adoption) -> None:
    """The namespace's local queues with the chain below each; nothing that stands on what cannot be declared."""
    for live in found.priority_classes:
        _take(kinds.PRIORITY_CLASS, live, names, result)
    wanted = {spec(live).get("clusterQueue") for live in found.local_queues}
    queues = [live for live in found.cluster_queues if live["metadata"]["name"] in wanted]
    # What only a queue uses that stays others' stays theirs too.
    sound = [live for live in queues if _sound(kinds.CLUSTER_QUEUE, live, names)]
    flavors = {each["name"] for live in sound for one in spec(live)["resourceGroups"] for each in one["flavors"]}
    for live in found.flavors:
        if live["metadata"]["name"] in flavors:
            _take(kinds.FLAVOR, live, names, result)
    whole = [live for live in sound if _missing(names, live, result, kinds.FLAVOR) is None]
    _cohorts(names, found, {spec(live)["cohortName"] for live in whole if spec(live).get("cohortName")}, result)
    for live in queues:
        lacks = _missing(names, live, result, kinds.FLAVOR) or _missing(names, live, result, kinds.COHORT)
        _take(kinds.CLUSTER_QUEUE, live, names, result, lacks)
    for live in found.local_queues:
        below = str(spec(live).get("clusterQueue"))
        lacks = None if _declared(names, kinds.CLUSTER_QUEUE, below, result) else f"cluster queue {below}"
        _take(kinds.LOCAL_QUEUE, live, names, result, lacks)


def _cohorts(names: _Names, found: Found, wanted: set[str], result: Adoption) -> None:
    """The cohorts of the queues and their ancestors. Kueue knows a cohort that has no object; settings name each."""
    by_name = {live["metadata"]["name"]: live for live in found.cohorts}
    line = sorted(wanted)
    for name in line:
        parent = spec(by_name[name]).get("parentName") if name in by_name else None
        if parent is not None and parent not in line:
            line.append(parent)
    for name in reversed(line):
        if name in by_name:
            _take(kinds.COHORT, by_name[name], names, result)
        elif not _declared(names, kinds.COHORT, name, result):
            result.entries.append(Entry(kinds.COHORT.path, {"name": name}))
            result.notes.append(f"cohort {name} has no object; `up` makes one, which says nothing and changes nothing")


def _missing(names: _Names, queue: Body, result: Adoption, kind: Kind) -> str | None:
    """The first flavor or cohort below a cluster queue that the environment would not declare."""
    said = spec(queue)
    if kind is kinds.FLAVOR:
        what, used = "flavor", [each["name"] for one in said.get("resourceGroups") or () for each in one["flavors"]]
    else:
        what, used = "cohort", [said["cohortName"]] if said.get("cohortName") else []
    return next((f"{what} {name}" for name in used if not _declared(names, kind, name, result)), None)


def _declared(names: _Names, kind: Kind, name: str, result: Adoption) -> bool:
    added = (_name(entry) for entry in result.entries if entry.path == kind.path)
    return name in added or names.declares(kind.path, name, None)


def _take(kind: Kind, live: Body, names: _Names, result: Adoption, lacks: str | None = None) -> bool:
    """Add the object's element, or say why it is left; True when this environment declares it afterwards."""
    stack, metadata = names.settings.stack, live["metadata"]
    shared = kind is kinds.PRIORITY_CLASS and metadata["name"] in names.shared
    if names.declares(kind.path, metadata["name"], metadata.get("namespace")) and not shared:
        _leave(live, f"is declared by {stack} already", result)
        return True
    if why := obstacle(live, stack):
        _leave(live, why, result)
        return False
    element: Element = kind.element(live)
    if shared:
        element = {**element, "description": live.get("description", "")}
    if fields := unsaid(kind, element, live, stack):
        _leave(live, f"says what the settings cannot: {', '.join(fields)}", result)
        return False
    if lacks is not None:
        _leave(live, f"stands on {lacks}, which {stack} does not declare", result)
        return False
    result.entries.append(Entry(kind.path, element))
    result.taken.append(called(live))
    return True


def _sound(kind: Kind, live: Body, names: _Names) -> bool:
    stack = names.settings.stack
    return obstacle(live, stack) is None and not unsaid(kind, kind.element(live), live, stack)


def _leave(live: Body, why: str, result: Adoption) -> None:
    result.left[called(live)] = why


def called(live: Mapping[str, Any]) -> str:
    """What people call an object."""
    metadata = live["metadata"]
    place = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{live['kind']} {place}{metadata['name']}"


def _name(entry: Entry) -> str:
    return str(entry.value["name"]) if isinstance(entry.value, dict) else str(entry.value)


def operators(found: Found) -> Iterator[str]:
    """The installed operators in words."""
    for each in found.operators:
        yield f"{each.name} {each.version} in namespace {each.namespace}"
