"""The plan of an adoption: settings that take over a namespace's volumes and queues without changing them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pydantic.alias_generators import to_snake

from trainstack.objects.ownership import format_identity, identity
from trainstack.onboarding.adopt import entries as kinds
from trainstack.onboarding.adopt.entries import (
    Element,
    KindConversion,
    adoption_obstacle,
    find_unexpressed_fields,
    spec_of,
)
from trainstack.onboarding.adopt.namespace_objects import Body, NamespaceObjects
from trainstack.onboarding.yaml_additions import FileAddition
from trainstack.platform.storage import is_default_class
from trainstack.preflight.rules.references import ALWAYS_PRESENT
from trainstack.settings.model import Settings
from trainstack.settings.values.quantities import amount

_PROVISIONED_BY_ANNOTATION = "pv.kubernetes.io/provisioned-by"


@dataclass
class Adoption:
    """The entries that take over live objects, and the objects that are not taken over."""

    entries: list[FileAddition] = field(default_factory=list)
    adopted_objects: list[str] = field(default_factory=list)
    """The objects that the next `up` takes over, as `Kind [namespace/]name`."""
    reasons_by_object: dict[str, str] = field(default_factory=dict)
    """The reasons why the other objects are not taken over, by object."""
    notes: list[str] = field(default_factory=list)


def plan_adoption(
    settings: Settings, namespace_objects: NamespaceObjects, shared_priorities: Iterable[str] = ()
) -> Adoption:
    """Return the additions that take over live objects, as far as the environment's layers and profile have them.

    `shared_priorities`: the priority classes that only defaults.yaml declares.
    """
    plan = _AdoptionPlan(settings, namespace_objects, frozenset(shared_priorities))
    environment = settings.environment
    declared_namespaces = {namespace.name for namespace in environment.namespaces}
    if namespace_objects.namespace not in {*declared_namespaces, *environment.existing.namespaces, *ALWAYS_PRESENT}:
        plan.entries.append(FileAddition(("environment", "existing", "namespaces"), namespace_objects.namespace))
    if "platform" in environment.layers and environment.profile == "owner":
        plan.add_storage()
        plan.add_queues()
    elif namespace_objects.local_queues:
        plan.notes.append(f"adopt queues with the platform's environment: {settings.stack} has only volumes and runs")
    if "training" in environment.layers:
        plan.add_claims()
    elif namespace_objects.claims:
        plan.notes.append(f"adopt volume claims with the team's environment: {settings.stack} has only the platform")
    return plan


class _AdoptionPlan(Adoption):
    def __init__(
        self, settings: Settings, namespace_objects: NamespaceObjects, shared_priorities: frozenset[str]
    ) -> None:
        """Start without entries. `shared_priorities`: the priority classes of defaults.yaml, which may be adopted."""
        super().__init__(notes=list(namespace_objects.read_failures))
        self._settings, self._objects, self._shared_priorities = settings, namespace_objects, shared_priorities

    def add_claims(self) -> None:
        """Take over the namespace's claims, and refer to their storage classes."""
        adopted_claims = [claim for claim in self._objects.claims if self._adopt(kinds.CLAIM, claim)]
        existing_classes = {
            *self._settings.environment.existing.storage_classes,
            *self._available_names(kinds.STORAGE_CLASS),
        }
        # A live claim that is already declared may have no class.
        used_classes = {
            str(claim["spec"]["storageClassName"]) for claim in adopted_claims if claim["spec"].get("storageClassName")
        }
        for name in sorted(used_classes - existing_classes):
            self.entries.append(FileAddition(("environment", "existing", "storageClasses"), name))

    def add_storage(self) -> None:
        """Take over volumes that were created by hand for the claims, and classes that only the namespace uses."""
        used_classes = {live["spec"].get("storageClassName") for live in self._objects.claims}
        for live in self._objects.classes:
            if live["metadata"]["name"] not in used_classes:
                continue
            if reason := _shared_use(live, self._objects):
                self._leave_out(live, f"{reason}; it is only referenced")
            else:
                self._adopt(kinds.STORAGE_CLASS, live)
        for live in self._objects.persistent_volumes:
            if any(_is_for_claim(live, claim) for claim in self._objects.claims):
                self._adopt(kinds.PERSISTENT_VOLUME, live)

    def add_queues(self) -> None:
        """Take over the namespace's local queues and the objects to which they refer.

        A queue is not taken over if one of these objects cannot be declared.
        """
        for live in self._objects.priority_classes:
            self._adopt(kinds.PRIORITY_CLASS, live)
        used_queues = {spec_of(live).get("clusterQueue") for live in self._objects.local_queues}
        queues = [live for live in self._objects.cluster_queues if live["metadata"]["name"] in used_queues]
        # The flavors, checks and cohorts of other queues are not taken over either.
        adoptable = [live for live in queues if self._is_adoptable(kinds.CLUSTER_QUEUE, live)]
        self._add_flavors({name for live in adoptable for name in _flavor_names(live)})
        self._add_checks({name for live in adoptable for name in _check_names(live)})
        complete_queues = [live for live in adoptable if not self._missing_reference_of_queue(live)]
        self._add_cohorts({name for live in complete_queues for name in _cohort_names(live)})
        for live in queues:
            missing_reference = self._missing_reference_of_queue(live) or self._missing_reference(
                "cohort", kinds.COHORT, _cohort_names(live)
            )
            self._adopt(kinds.CLUSTER_QUEUE, live, missing_reference)
        for live in self._objects.local_queues:
            queue = str(spec_of(live).get("clusterQueue"))
            self._adopt(kinds.LOCAL_QUEUE, live, self._missing_reference("cluster queue", kinds.CLUSTER_QUEUE, [queue]))

    def _missing_reference_of_queue(self, queue: Body) -> str:
        missing_flavor = self._missing_reference("flavor", kinds.FLAVOR, _flavor_names(queue))
        return missing_flavor or self._missing_reference("admission check", kinds.ADMISSION_CHECK, _check_names(queue))

    def _add_flavors(self, used_flavors: set[str]) -> None:
        flavors = [live for live in self._objects.flavors if live["metadata"]["name"] in used_flavors]
        topologies = {spec_of(live).get("topologyName") for live in flavors if self._is_adoptable(kinds.FLAVOR, live)}
        for live in self._objects.topologies:
            if live["metadata"]["name"] in topologies:
                self._adopt(kinds.TOPOLOGY, live)
        for live in flavors:
            topology_names = [name] if (name := spec_of(live).get("topologyName")) else []
            self._adopt(kinds.FLAVOR, live, self._missing_reference("topology", kinds.TOPOLOGY, topology_names))

    def _add_checks(self, used_checks: set[str]) -> None:
        """Take over admission checks with their parameters."""
        checks = [live for live in self._objects.admission_checks if live["metadata"]["name"] in used_checks]
        parameters = [_parameters_reference(live) for live in checks if self._is_adoptable(kinds.ADMISSION_CHECK, live)]
        configs = [live for live in self._objects.multi_kueue_configs if _reference(live) in parameters]
        clusters = {name for live in configs for name in spec_of(live).get("clusters") or ()}
        for live in self._objects.multi_kueue_clusters:
            if live["metadata"]["name"] in clusters:
                self._adopt(kinds.MULTI_KUEUE_CLUSTER, live)
        for live in configs:
            missing_cluster = self._missing_reference(
                "cluster", kinds.MULTI_KUEUE_CLUSTER, spec_of(live).get("clusters") or ()
            )
            self._adopt(kinds.MULTI_KUEUE_CONFIG, live, missing_cluster)
        for live in self._objects.provisioning_request_configs:
            if _reference(live) in parameters:
                self._adopt(kinds.PROVISIONING_REQUEST_CONFIG, live)
        for live in checks:
            kind, name = _parameters_reference(live)
            config = kinds.PARAMETERS.get(kind)
            self._adopt(kinds.ADMISSION_CHECK, live, self._missing_reference(kind, config, [name]) if config else "")

    def _add_cohorts(self, used_cohorts: set[str]) -> None:
        """Take over cohorts and their ancestors. The settings must declare them; Kueue accepts ones without objects."""
        cohorts_by_name = {cohort["metadata"]["name"]: cohort for cohort in self._objects.cohorts}
        ancestors = sorted(used_cohorts)
        # The loop appends to the list, so that it visits the ancestors of ancestors.
        for name in ancestors:
            parent = spec_of(cohorts_by_name[name]).get("parentName") if name in cohorts_by_name else None
            if parent is not None and parent not in ancestors:
                ancestors.append(parent)
        for name in reversed(ancestors):
            if name in cohorts_by_name:
                self._adopt(kinds.COHORT, cohorts_by_name[name])
            elif name not in self._available_names(kinds.COHORT):
                self.entries.append(FileAddition(kinds.COHORT.path, {"name": name}))
                self.notes.append(f"cohort {name} has no object; `up` creates an empty one, which has no effect")

    def _missing_reference(self, noun: str, kind: KindConversion, used_names: Iterable[str]) -> str:
        """Return the first used name that the environment would not declare, after its noun; empty without one."""
        names = self._available_names(kind)
        return next((f"{noun} {name}" for name in used_names if name not in names), "")

    def _available_names(self, kind: KindConversion) -> set[str]:
        """Return the names of a kind that the environment declares, or would declare."""
        added_values = (entry.value for entry in self.entries if entry.path == kind.path)
        return {name for name, _ in self._declared_names(kind)} | {
            value["name"] for value in added_values if isinstance(value, dict)
        }

    def _declared_names(self, kind: KindConversion) -> set[tuple[str, str | None]]:
        """Return the names and namespaces of a kind that the environment declares."""
        section, list_name = map(to_snake, kind.path)
        elements = getattr(getattr(self._settings, section), list_name)
        return {(element.name, getattr(element, "namespace", None)) for element in elements}

    def _adopt(self, kind: KindConversion, live: Body, missing_reference: str = "") -> bool:
        """Add the object's element, or a reason against it. Return whether the environment then declares it."""
        stack, metadata = self._settings.stack, live["metadata"]
        is_shared = kind is kinds.PRIORITY_CLASS and metadata["name"] in self._shared_priorities
        if (metadata["name"], metadata.get("namespace")) in self._declared_names(kind) and not is_shared:
            self._leave_out(live, f"is declared by {stack} already")
            return True
        if reason := adoption_obstacle(live, stack):
            self._leave_out(live, reason)
            return False
        element: Element = kind.build_element(live)
        if is_shared:
            element = {**element, "description": live.get("description", "")}
        if fields := find_unexpressed_fields(kind, element, live, stack):
            self._leave_out(live, f"cannot be expressed in the settings: {', '.join(fields)}")
            return False
        if missing_reference:
            self._leave_out(live, f"refers to {missing_reference}, which {stack} does not declare")
            return False
        self.entries.append(FileAddition(kind.path, element))
        self.adopted_objects.append(format_identity(identity(live)))
        return True

    def _is_adoptable(self, kind: KindConversion, live: Body) -> bool:
        stack = self._settings.stack
        return adoption_obstacle(live, stack) is None and not find_unexpressed_fields(
            kind, kind.build_element(live), live, stack
        )

    def _leave_out(self, live: Body, reason: str) -> None:
        self.reasons_by_object[format_identity(identity(live))] = reason


def _flavor_names(queue: Body) -> list[str]:
    groups = spec_of(queue).get("resourceGroups") or ()
    return [flavor["name"] for group in groups for flavor in group["flavors"]]


def _check_names(queue: Body) -> list[str]:
    strategy = spec_of(queue).get("admissionChecksStrategy") or {}
    return [check["name"] for check in strategy.get("admissionChecks") or ()]


def _parameters_reference(check: Body) -> tuple[str, str]:
    """Return the kind and name of an admission check's parameters; empty if it has none."""
    parameters = spec_of(check).get("parameters") or {}
    return parameters.get("kind", ""), parameters.get("name", "")


def _reference(live: Body) -> tuple[str, str]:
    return live["kind"], live["metadata"]["name"]


def _cohort_names(queue: Body) -> list[str]:
    return [name] if (name := spec_of(queue).get("cohortName")) else []


def _shared_use(storage_class: Body, namespace_objects: NamespaceObjects) -> str | None:
    """Return why other namespaces may use a class, so that a `destroy` must not delete it."""
    metadata = storage_class["metadata"]
    if is_default_class(storage_class):
        return "is the cluster's default"
    if namespace_objects.foreign_claims is None:
        return "may be used by claims of other namespaces, which may not be read"
    is_used = any(live["spec"].get("storageClassName") == metadata["name"] for live in namespace_objects.foreign_claims)
    return "is used by claims of other namespaces" if is_used else None


def _is_for_claim(volume: Body, claim: Body) -> bool:
    """Return whether the volume was created for the claim: bound to it, or free and selected by the claim's selector.

    The class alone is not enough: any claim of the class may use a free volume.
    """
    if (volume["metadata"].get("annotations") or {}).get(_PROVISIONED_BY_ANNOTATION):
        return False
    volume_spec, claim_spec, metadata = volume["spec"], claim["spec"], claim["metadata"]
    if reference := volume_spec.get("claimRef"):
        # A manual reservation has no UID. Another UID is that of a deleted claim with the same name.
        is_same_claim = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
        return is_same_claim and reference.get("uid") in (None, "", metadata.get("uid"))
    selector = claim_spec.get("selector") or {}
    if claim_spec.get("volumeName") or not selector.get("matchLabels") or selector.get("matchExpressions"):
        return False
    return bool(
        volume_spec.get("storageClassName") == claim_spec.get("storageClassName")
        and selector["matchLabels"].items() <= (volume["metadata"].get("labels") or {}).items()
        and {*claim_spec["accessModes"]} <= {*volume_spec["accessModes"]}
        and amount(claim_spec["resources"]["requests"]["storage"]) <= amount(volume_spec["capacity"]["storage"])
    )


def describe_operators(namespace_objects: NamespaceObjects) -> Iterator[str]:
    for operator in namespace_objects.operators:
        yield f"{operator.name} {operator.version} in namespace {operator.namespace}"
