"""The settings that take over a namespace's volumes and queues without changes to them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pydantic.alias_generators import to_snake

from trainstack.objects.ownership import identity, shown
from trainstack.onboarding.adopt import entries as kinds
from trainstack.onboarding.adopt.entries import Element, Kind, obstacle, spec, unexpressed
from trainstack.onboarding.adopt.found import Body, Found
from trainstack.onboarding.editing import Entry
from trainstack.preflight.rules.references import ALWAYS_PRESENT
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


def adopt(settings: Settings, found: Found, shared_priorities: Iterable[str] = ()) -> Adoption:
    """Return the additions that take over live objects, as far as the environment's layers and profile have them.

    `shared_priorities`: the priority classes that only defaults.yaml declares.
    """
    plan = _Plan(settings, found, frozenset(shared_priorities))
    environment = settings.environment
    declared = {namespace.name for namespace in environment.namespaces}
    if found.namespace not in {*declared, *environment.existing.namespaces, *ALWAYS_PRESENT}:
        plan.entries.append(Entry(("environment", "existing", "namespaces"), found.namespace))
    if "platform" in environment.layers and environment.profile == "owner":
        plan.add_storage()
        plan.add_queues()
    elif found.local_queues:
        plan.notes.append(f"adopt queues with the platform's environment: {settings.stack} has only volumes and runs")
    if "training" in environment.layers:
        plan.add_claims()
    elif found.claims:
        plan.notes.append(f"adopt volume claims with the team's environment: {settings.stack} has only the platform")
    return plan


class _Plan(Adoption):
    def __init__(self, settings: Settings, found: Found, shared: frozenset[str]) -> None:
        """`shared`: the priority classes of defaults.yaml, which the environment's own file may adopt."""
        super().__init__(notes=list(found.unreadable))
        self._settings, self._found, self._shared = settings, found, shared

    def add_claims(self) -> None:
        taken = [live for live in self._found.claims if self._take(kinds.CLAIM, live)]
        known = {*self._settings.environment.existing.storage_classes, *self._names(kinds.STORAGE_CLASS)}
        # A live claim that is already declared may have no class.
        used = {str(live["spec"]["storageClassName"]) for live in taken if live["spec"].get("storageClassName")}
        for name in sorted(used - known):
            self.entries.append(Entry(("environment", "existing", "storageClasses"), name))

    def add_storage(self) -> None:
        """Take over volumes that were created manually for the claims, and classes that only the namespace uses."""
        used = {live["spec"].get("storageClassName") for live in self._found.claims}
        for live in self._found.classes:
            if live["metadata"]["name"] not in used:
                continue
            if reason := _shared(live, self._found):
                self._leave(live, f"{reason}; it is only referenced")
            else:
                self._take(kinds.STORAGE_CLASS, live)
        for live in self._found.persistent_volumes:
            if any(_is_for_claim(live, claim) for claim in self._found.claims):
                self._take(kinds.PERSISTENT_VOLUME, live)

    def add_queues(self) -> None:
        """Take over the namespace's local queues with their references, unless one cannot be declared."""
        for live in self._found.priority_classes:
            self._take(kinds.PRIORITY_CLASS, live)
        used = {spec(live).get("clusterQueue") for live in self._found.local_queues}
        queues = [live for live in self._found.cluster_queues if live["metadata"]["name"] in used]
        # Flavors and cohorts of queues that cannot be taken over are left too.
        adoptable = [live for live in queues if self._is_adoptable(kinds.CLUSTER_QUEUE, live)]
        self._add_flavors({name for live in adoptable for name in _flavors(live)})
        self._add_checks({name for live in adoptable for name in _checks(live)})
        complete = [live for live in adoptable if not self._missing_of_queue(live)]
        self._add_cohorts({name for live in complete for name in _cohorts(live)})
        for live in queues:
            missing = self._missing_of_queue(live) or self._missing("cohort", kinds.COHORT, _cohorts(live))
            self._take(kinds.CLUSTER_QUEUE, live, missing)
        for live in self._found.local_queues:
            queue = str(spec(live).get("clusterQueue"))
            self._take(kinds.LOCAL_QUEUE, live, self._missing("cluster queue", kinds.CLUSTER_QUEUE, [queue]))

    def _missing_of_queue(self, queue: Body) -> str:
        missing = self._missing("flavor", kinds.FLAVOR, _flavors(queue))
        return missing or self._missing("admission check", kinds.ADMISSION_CHECK, _checks(queue))

    def _add_flavors(self, used: set[str]) -> None:
        flavors = [live for live in self._found.flavors if live["metadata"]["name"] in used]
        topologies = {spec(live).get("topologyName") for live in flavors if self._is_adoptable(kinds.FLAVOR, live)}
        for live in self._found.topologies:
            if live["metadata"]["name"] in topologies:
                self._take(kinds.TOPOLOGY, live)
        for live in flavors:
            named = [name] if (name := spec(live).get("topologyName")) else []
            self._take(kinds.FLAVOR, live, self._missing("topology", kinds.TOPOLOGY, named))

    def _add_checks(self, used: set[str]) -> None:
        """Take over admission checks with their parameters."""
        checks = [live for live in self._found.admission_checks if live["metadata"]["name"] in used]
        parameters = [_parameters(live) for live in checks if self._is_adoptable(kinds.ADMISSION_CHECK, live)]
        configs = [live for live in self._found.multi_kueue_configs if _reference(live) in parameters]
        clusters = {name for live in configs for name in spec(live).get("clusters") or ()}
        for live in self._found.multi_kueue_clusters:
            if live["metadata"]["name"] in clusters:
                self._take(kinds.MULTI_KUEUE_CLUSTER, live)
        for live in configs:
            missing = self._missing("cluster", kinds.MULTI_KUEUE_CLUSTER, spec(live).get("clusters") or ())
            self._take(kinds.MULTI_KUEUE_CONFIG, live, missing)
        for live in self._found.provisioning_request_configs:
            if _reference(live) in parameters:
                self._take(kinds.PROVISIONING_REQUEST_CONFIG, live)
        for live in checks:
            kind, name = _parameters(live)
            config = kinds.PARAMETERS.get(kind)
            self._take(kinds.ADMISSION_CHECK, live, self._missing(kind, config, [name]) if config else "")

    def _add_cohorts(self, used: set[str]) -> None:
        """Take over cohorts and their ancestors. Kueue accepts one without an object, but the settings declare it."""
        by_name = {live["metadata"]["name"]: live for live in self._found.cohorts}
        ancestors = sorted(used)
        for name in ancestors:
            parent = spec(by_name[name]).get("parentName") if name in by_name else None
            if parent is not None and parent not in ancestors:
                ancestors.append(parent)
        for name in reversed(ancestors):
            if name in by_name:
                self._take(kinds.COHORT, by_name[name])
            elif name not in self._names(kinds.COHORT):
                self.entries.append(Entry(kinds.COHORT.path, {"name": name}))
                self.notes.append(f"cohort {name} has no object; `up` creates an empty one, which has no effect")

    def _missing(self, noun: str, kind: Kind, used: Iterable[str]) -> str:
        """Return the first of the used objects that the environment would not declare."""
        names = self._names(kind)
        return next((f"{noun} {name}" for name in used if name not in names), "")

    def _names(self, kind: Kind) -> set[str]:
        """The names of a kind that the environment declares, or would declare."""
        added = (entry.value for entry in self.entries if entry.path == kind.path)
        return {name for name, _ in self._declared(kind)} | {
            value["name"] for value in added if isinstance(value, dict)
        }

    def _declared(self, kind: Kind) -> set[tuple[str, str | None]]:
        """The names and namespaces that the environment declares."""
        section, listed = map(to_snake, kind.path)
        items = getattr(getattr(self._settings, section), listed)
        return {(item.name, getattr(item, "namespace", None)) for item in items}

    def _take(self, kind: Kind, live: Body, missing: str = "") -> bool:
        """Add the object's element, or the reason why it is left. Return whether the environment then declares it."""
        stack, metadata = self._settings.stack, live["metadata"]
        shared = kind is kinds.PRIORITY_CLASS and metadata["name"] in self._shared
        if (metadata["name"], metadata.get("namespace")) in self._declared(kind) and not shared:
            self._leave(live, f"is declared by {stack} already")
            return True
        if reason := obstacle(live, stack):
            self._leave(live, reason)
            return False
        element: Element = kind.element(live)
        if shared:
            element = {**element, "description": live.get("description", "")}
        if fields := unexpressed(kind, element, live, stack):
            self._leave(live, f"cannot be expressed in the settings: {', '.join(fields)}")
            return False
        if missing:
            self._leave(live, f"refers to {missing}, which {stack} does not declare")
            return False
        self.entries.append(Entry(kind.path, element))
        self.taken.append(shown(identity(live)))
        return True

    def _is_adoptable(self, kind: Kind, live: Body) -> bool:
        stack = self._settings.stack
        return obstacle(live, stack) is None and not unexpressed(kind, kind.element(live), live, stack)

    def _leave(self, live: Body, reason: str) -> None:
        self.left[shown(identity(live))] = reason


def _flavors(queue: Body) -> list[str]:
    groups = spec(queue).get("resourceGroups") or ()
    return [flavor["name"] for group in groups for flavor in group["flavors"]]


def _checks(queue: Body) -> list[str]:
    strategy = spec(queue).get("admissionChecksStrategy") or {}
    return [check["name"] for check in strategy.get("admissionChecks") or ()]


def _parameters(check: Body) -> tuple[str, str]:
    """Return the kind and name of an admission check's parameters; empty if it has none."""
    parameters = spec(check).get("parameters") or {}
    return parameters.get("kind", ""), parameters.get("name", "")


def _reference(live: Body) -> tuple[str, str]:
    return live["kind"], live["metadata"]["name"]


def _cohorts(queue: Body) -> list[str]:
    return [name] if (name := spec(queue).get("cohortName")) else []


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


def operators(found: Found) -> Iterator[str]:
    for operator in found.operators:
        yield f"{operator.name} {operator.version} in namespace {operator.namespace}"
