"""The settings that take over a namespace's volumes and queues without changes to them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trainstack.objects.ownership import identity, shown
from trainstack.onboarding.adopt import entries as kinds
from trainstack.onboarding.adopt.entries import Element, Kind, obstacle, spec, unexpressed
from trainstack.onboarding.adopt.found import Body, Found
from trainstack.onboarding.editing import Entry
from trainstack.preflight.rules.references import ALWAYS_PRESENT
from trainstack.settings.base import Section
from trainstack.settings.model import Settings
from trainstack.settings.values.quantities import amount

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_PROVISIONED = "pv.kubernetes.io/provisioned-by"


@dataclass
class Adoption:
    entries: list[Entry] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    """The objects that the next `up` takes over, as `Kind [namespace/]name`."""
    left: dict[str, str] = field(default_factory=dict)
    """The reasons why the other objects are not taken over, by object."""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Names:
    settings: Settings
    shared: frozenset[str]
    """The priority classes of defaults.yaml, which the environment's own file may adopt."""

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
        return any(
            (getattr(item, "name", ""), getattr(item, "namespace", None)) == (name, namespace) for item in listed
        )


def adopt(settings: Settings, found: Found, shared_priorities: Iterable[str] = ()) -> Adoption:
    """Return the additions that take over live objects, as far as the environment's layers and profile have them.

    Args:
        settings: the environment.
        found: the live objects.
        shared_priorities: the priority classes that only defaults.yaml declares.

    """
    result, names = Adoption(notes=list(found.unreadable)), _Names(settings, frozenset(shared_priorities))
    environment = settings.environment
    declared = {namespace.name for namespace in environment.namespaces}
    known = {*declared, *environment.existing.namespaces, *ALWAYS_PRESENT}
    if found.namespace not in known:
        result.entries.append(Entry(("environment", "existing", "namespaces"), found.namespace))
    if "platform" in environment.layers and environment.profile == "owner":
        _storage(names, found, result)
        _queues(names, found, result)
    elif found.local_queues:
        result.notes.append(f"adopt queues with the platform's environment: {settings.stack} has only volumes and runs")
    if "training" in environment.layers:
        _claims(names, found, result)
    elif found.claims:
        result.notes.append(f"adopt volume claims with the team's environment: {settings.stack} has only the platform")
    return result


def _claims(names: _Names, found: Found, result: Adoption) -> None:
    taken = [live for live in found.claims if _take(kinds.CLAIM, live, names, result)]
    settings = names.settings
    known = {item.name for item in settings.storage.classes} | {*settings.environment.existing.storage_classes}
    known |= {_name(entry) for entry in result.entries if entry.path == kinds.STORAGE_CLASS.path}
    # A live claim that is already declared may have no class.
    used = {str(live["spec"]["storageClassName"]) for live in taken if live["spec"].get("storageClassName")}
    for name in sorted(used - known):
        result.entries.append(Entry(("environment", "existing", "storageClasses"), name))


def _storage(names: _Names, found: Found, result: Adoption) -> None:
    """Take over volumes that were created manually for the claims, and classes that only the namespace uses."""
    used = {live["spec"].get("storageClassName") for live in found.claims}
    for live in found.classes:
        if live["metadata"]["name"] not in used:
            continue
        if reason := _shared(live, found):
            _leave(live, f"{reason}; it is only referenced", result)
        else:
            _take(kinds.STORAGE_CLASS, live, names, result)
    for live in found.persistent_volumes:
        if any(_is_for_claim(live, claim) for claim in found.claims):
            _take(kinds.PERSISTENT_VOLUME, live, names, result)


def _shared(storage_class: Body, found: Found) -> str | None:
    """Return why other namespaces may use a class, so that a `destroy` must not delete it."""
    metadata = storage_class["metadata"]
    if (metadata.get("annotations") or {}).get(_DEFAULT_CLASS) == "true":
        return "is the cluster's default"
    if found.foreign_claims is None:
        return "may be used by claims of other namespaces, which may not be read"
    used = any(live["spec"].get("storageClassName") == metadata["name"] for live in found.foreign_claims)
    return "is used by claims of other namespaces" if used else None


def _is_for_claim(volume: Body, claim: Body) -> bool:
    """Whether the volume was created for the claim: it is bound to it, or free and selected by the claim's selector.

    Any claim may use a free volume of the same class.
    """
    if (volume["metadata"].get("annotations") or {}).get(_PROVISIONED):
        return False
    offered, requested, own = volume["spec"], claim["spec"], claim["metadata"]
    if reference := offered.get("claimRef"):
        # A manual reservation has no UID. Another UID is that of a deleted claim with the same name.
        same = (reference.get("namespace"), reference.get("name")) == (own["namespace"], own["name"])
        return same and reference.get("uid") in (None, "", own.get("uid"))
    selector = requested.get("selector") or {}
    if requested.get("volumeName") or not selector.get("matchLabels") or selector.get("matchExpressions"):
        return False
    return bool(
        offered.get("storageClassName") == requested.get("storageClassName")
        and selector["matchLabels"].items() <= (volume["metadata"].get("labels") or {}).items()
        and {*requested["accessModes"]} <= {*offered["accessModes"]}
        and amount(requested["resources"]["requests"]["storage"]) <= amount(offered["capacity"]["storage"])
    )


def _queues(names: _Names, found: Found, result: Adoption) -> None:
    """Take over the namespace's local queues with their references, unless one cannot be declared."""
    for live in found.priority_classes:
        _take(kinds.PRIORITY_CLASS, live, names, result)
    used = {spec(live).get("clusterQueue") for live in found.local_queues}
    queues = [live for live in found.cluster_queues if live["metadata"]["name"] in used]
    # Flavors and cohorts of queues that cannot be taken over are left too.
    adoptable = [live for live in queues if _adoptable(kinds.CLUSTER_QUEUE, live, names)]
    flavors = {name for live in adoptable for name in _flavors(live)}
    for live in found.flavors:
        if live["metadata"]["name"] in flavors:
            _take(kinds.FLAVOR, live, names, result)
    complete = [live for live in adoptable if _missing(names, live, result, kinds.FLAVOR) is None]
    _cohorts(names, found, {spec(live)["cohortName"] for live in complete if spec(live).get("cohortName")}, result)
    for live in queues:
        missing = _missing(names, live, result, kinds.FLAVOR) or _missing(names, live, result, kinds.COHORT)
        _take(kinds.CLUSTER_QUEUE, live, names, result, missing)
    for live in found.local_queues:
        queue = str(spec(live).get("clusterQueue"))
        missing = None if _declared(names, kinds.CLUSTER_QUEUE, queue, result) else f"cluster queue {queue}"
        _take(kinds.LOCAL_QUEUE, live, names, result, missing)


def _flavors(queue: Body) -> list[str]:
    groups = spec(queue).get("resourceGroups") or ()
    return [flavor["name"] for group in groups for flavor in group["flavors"]]


def _cohorts(names: _Names, found: Found, used: set[str], result: Adoption) -> None:
    """Take over cohorts and their ancestors. Kueue accepts a cohort without an object, but the settings declare it."""
    by_name = {live["metadata"]["name"]: live for live in found.cohorts}
    ancestors = sorted(used)
    for name in ancestors:
        parent = spec(by_name[name]).get("parentName") if name in by_name else None
        if parent is not None and parent not in ancestors:
            ancestors.append(parent)
    for name in reversed(ancestors):
        if name in by_name:
            _take(kinds.COHORT, by_name[name], names, result)
        elif not _declared(names, kinds.COHORT, name, result):
            result.entries.append(Entry(kinds.COHORT.path, {"name": name}))
            result.notes.append(f"cohort {name} has no object; `up` creates an empty one, which has no effect")


def _missing(names: _Names, queue: Body, result: Adoption, kind: Kind) -> str | None:
    """Return the first flavor or cohort of a cluster queue that the environment would not declare."""
    if kind is kinds.FLAVOR:
        noun, used = "flavor", _flavors(queue)
    else:
        noun, used = "cohort", [name] if (name := spec(queue).get("cohortName")) else []
    return next((f"{noun} {name}" for name in used if not _declared(names, kind, name, result)), None)


def _declared(names: _Names, kind: Kind, name: str, result: Adoption) -> bool:
    added = (_name(entry) for entry in result.entries if entry.path == kind.path)
    return name in added or names.declares(kind.path, name, None)


def _take(kind: Kind, live: Body, names: _Names, result: Adoption, missing: str | None = None) -> bool:
    """Add the object's element, or the reason why it is left. Return whether the environment then declares it."""
    stack, metadata = names.settings.stack, live["metadata"]
    shared = kind is kinds.PRIORITY_CLASS and metadata["name"] in names.shared
    if names.declares(kind.path, metadata["name"], metadata.get("namespace")) and not shared:
        _leave(live, f"is declared by {stack} already", result)
        return True
    if reason := obstacle(live, stack):
        _leave(live, reason, result)
        return False
    element: Element = kind.element(live)
    if shared:
        element = {**element, "description": live.get("description", "")}
    if fields := unexpressed(kind, element, live, stack):
        _leave(live, f"cannot be expressed in the settings: {', '.join(fields)}", result)
        return False
    if missing is not None:
        _leave(live, f"refers to {missing}, which {stack} does not declare", result)
        return False
    result.entries.append(Entry(kind.path, element))
    result.taken.append(shown(identity(live)))
    return True


def _adoptable(kind: Kind, live: Body, names: _Names) -> bool:
    stack = names.settings.stack
    return obstacle(live, stack) is None and not unexpressed(kind, kind.element(live), live, stack)


def _leave(live: Body, reason: str, result: Adoption) -> None:
    result.left[shown(identity(live))] = reason


def _name(entry: Entry) -> str:
    return str(entry.value["name"]) if isinstance(entry.value, dict) else str(entry.value)


def operators(found: Found) -> Iterator[str]:
    for operator in found.operators:
        yield f"{operator.name} {operator.version} in namespace {operator.namespace}"
