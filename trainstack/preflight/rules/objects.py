"""Rules about the objects of section `objects`."""

from collections import Counter
from collections.abc import Iterator, Mapping

from trainstack.objects.labels import FIELD_MANAGER, MANAGED_BY, PATCH_FORCE, RETAIN, Manifest
from trainstack.objects.launch_kinds import ALL_LAUNCH_KINDS
from trainstack.objects.ownership import Identity, format_identity, identity
from trainstack.objects.size_limits import MAX_DATA_BYTES, describe_excess
from trainstack.preflight.examples import yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.settings.errors import suggest_name
from trainstack.settings.sections.objects import parse_object_names
from trainstack.settings.values.kind_scopes import NAMESPACED_KINDS
from trainstack.settings.values.paths import child_path

_OWN_DOMAIN = "trainstack.dev/"
_LAUNCH_REMEDY = "declare it in section workloads, by `manifest:` of a workload, where it runs once"
_REMEDIES_BY_KIND: Mapping[str, str] = {
    **dict.fromkeys(ALL_LAUNCH_KINDS, _LAUNCH_REMEDY),
    # Further kinds that Kueue queues and that end.
    **dict.fromkeys(("AppWrapper", "JAXJob", "PaddleJob", "SparkApplication", "TFJob", "XGBoostJob"), _LAUNCH_REMEDY),
    "Namespace": "declare it under environment.namespaces",
    "StorageClass": "declare it under storage.classes",
    "CustomResourceDefinition": (
        "install it with its operator: a change that removes it would delete the objects of all owners"
    ),
    "AdmissionCheck": "declare it under queues.admissionChecks",
    "ClusterQueue": "declare it under queues.clusterQueues",
    "Cohort": "declare it under queues.cohorts",
    "LocalQueue": "declare it under queues.localQueues",
    "MultiKueueCluster": "declare it under queues.multiKueueClusters",
    "MultiKueueConfig": "declare it under queues.multiKueueConfigs",
    "ProvisioningRequestConfig": "declare it under queues.provisioningRequestConfigs",
    "ResourceFlavor": "declare it under queues.flavors",
    "Topology": "declare it under queues.topologies",
    "WorkloadPriorityClass": "declare it under queues.priorityClasses",
    **dict.fromkeys(
        ("ControllerRevision", "EndpointSlice", "Endpoints", "Lease", "Workload"),
        "leave it out: a controller creates such objects",
    ),
}
"""Why section `objects` does not take a kind: what to do instead."""


def objects_with_paths(context: RuleContext) -> Iterator[tuple[str, Manifest]]:
    """Yield the declared objects of the section, with their paths in the settings."""
    for index, manifest in enumerate(context.stack_objects.other_manifests):
        yield f"objects.manifests[{index}]", manifest


@Rule(
    id="object-other-section",
    summary="An object of section `objects` is of a kind that another section declares, or that a controller creates.",
    details=(
        "A Job, PyTorchJob or other launch would not run once: an edit would replace it. Queues, namespaces and "
        "StorageClasses have guards of their own section."
    ),
    change=yaml_at("objects.manifests", "- {apiVersion: v1, kind: Namespace, metadata: {name: other}}"),
    remedy="Declare it in the section that the message names.",
    silenceable=False,
)
def object_other_section(context: RuleContext) -> Iterator[Violation]:
    for path, manifest in objects_with_paths(context):
        kind = manifest["kind"]
        if kind in _REMEDIES_BY_KIND:
            yield Violation(
                f"{path}.kind",
                f"{format_identity(identity(manifest))}: objects takes no {kind}",
                _REMEDIES_BY_KIND[kind],
            )


@Rule(
    id="object-namespace-missing",
    summary="An object of section `objects` names no namespace, and the environment has none or several.",
    details="In an environment with one namespace, declared or existing, objects are in it.",
    change=yaml_at("environment.existing", "namespaces: [other]")
    + yaml_at("objects.manifests", "- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}"),
    remedy="Add `metadata.namespace`.",
    silenceable=False,
)
def object_namespace_missing(context: RuleContext) -> Iterator[Violation]:
    for path, manifest in objects_with_paths(context):
        if manifest["kind"] in NAMESPACED_KINDS and "namespace" not in manifest["metadata"]:
            message = (
                f"{format_identity(identity(manifest))} names no namespace, and the environment has not exactly one"
            )
            yield Violation(f"{path}.metadata", message, "add namespace")


@Rule(
    id="object-duplicate",
    summary="An object of section `objects` is declared twice, there or in another section.",
    change=yaml_at(
        "objects.manifests",
        "- {apiVersion: v1, kind: ServiceAccount, metadata: {name: reader}}",
        "- {apiVersion: v1, kind: ServiceAccount, metadata: {name: reader}}",
    ),
    remedy="Remove one of the declarations.",
    silenceable=False,
)
def object_duplicate(context: RuleContext) -> Iterator[Violation]:
    declared = context.stack_objects
    components = (declared.namespaces, declared.tenants, declared.storage_classes, declared.secrets, declared.queues)
    others = {identity(manifest) for component in components for manifest in component.manifests}
    claims = {identity(manifest) for manifest in declared.volumes.manifests}
    counts = Counter(identity(manifest) for _, manifest in objects_with_paths(context))
    seen = set[Identity]()
    for path, manifest in objects_with_paths(context):
        key = identity(manifest)
        # The rule about names covers claims of both sections.
        if key in others - claims or (key in seen and key[0] != "PersistentVolumeClaim"):
            where = "another section" if key in others else f"section objects {counts[key]} times"
            yield Violation(
                f"{path}.metadata.name", f"{format_identity(key)} is declared in {where}", "remove all but one"
            )
        seen.add(key)


@Rule(
    id="object-reserved",
    summary="An object of section `objects` sets a label or an annotation of Trainstack.",
    details=(
        "They record the owner and the engine's state. The annotation `trainstack.dev/retain` of a "
        'PersistentVolumeClaim is the exception: with `"false"`, a `destroy` deletes the claim and its data.'
    ),
    change=yaml_at(
        "objects.manifests",
        "- {apiVersion: v1, kind: ServiceAccount, metadata: {name: reader, labels: {trainstack.dev/stack: dev}}}",
    ),
    remedy="Remove it.",
    silenceable=False,
)
def object_reserved(context: RuleContext) -> Iterator[Violation]:
    for index, manifest in enumerate(context.settings.objects.manifests):
        metadata = manifest["metadata"]
        for field in ("labels", "annotations"):
            for key in metadata.get(field) or {}:
                is_own_annotation = key.startswith(_OWN_DOMAIN) or key in (MANAGED_BY, PATCH_FORCE, FIELD_MANAGER)
                is_retention = manifest["kind"] == "PersistentVolumeClaim" and field == "annotations" and key == RETAIN
                if is_own_annotation and not is_retention:
                    path = child_path(f"objects.manifests[{index}].metadata.{field}", key)
                    yield Violation(path, f"{key} is set by Trainstack", "remove it")


@Rule(
    id="object-adoption-unknown",
    summary="`objects.adopt` lists an object that the section does not declare.",
    change=yaml_at("objects", "adopt: [ServiceAccount training/default]"),
    remedy="Correct the name, or declare the object in the section.",
    silenceable=False,
)
def object_adoption_unknown(context: RuleContext) -> Iterator[Violation]:
    declared = {identity(manifest) for _, manifest in objects_with_paths(context)}
    for index, name in enumerate(context.settings.objects.adopt):
        if not parse_object_names([name]) <= declared:
            names = [format_identity(key) for key in declared]
            yield Violation(
                f"objects.adopt[{index}]", f"{name!r} is not declared in section objects", suggest_name(name, names)
            )


@Rule(
    id="object-data-too-large",
    summary="The values of a ConfigMap of section `objects` are larger than the API server accepts, 1 MiB.",
    example="A ConfigMap with a file of 2 MB.",
    remedy="Split it into several ConfigMaps, or put the files on a volume.",
    silenceable=False,
)
def object_data_too_large(context: RuleContext) -> Iterator[Violation]:
    for path, manifest in objects_with_paths(context):
        if manifest["kind"] == "ConfigMap":
            values = (manifest.get(field) or {} for field in ("data", "binaryData"))
            size = sum(len(str(value).encode()) for entries in values for value in entries.values())
            if message := describe_excess(f"values of {format_identity(identity(manifest))}", size, MAX_DATA_BYTES):
                yield Violation(path, message)
