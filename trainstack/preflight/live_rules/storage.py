"""Rules about the cluster's namespaces and storage classes, and about immutable fields of its objects."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from trainstack.objects.immutable_fields import IMMUTABLE_FIELDS, Difference, differences
from trainstack.objects.labels import STACK, Manifest
from trainstack.objects.ownership import format_identity, identity
from trainstack.platform.namespaces import ENFORCE_LABEL, enforced_level
from trainstack.platform.storage import is_default_class
from trainstack.preflight.live_context import LiveContext, find_missing_object, missing_violation, unknown_violation
from trainstack.preflight.rule import Rule, Severity, Violation
from trainstack.preflight.rule_context import AccessModesByVolume
from trainstack.preflight.rules.namespaces import find_forbidden_pods, pods_forbidden
from trainstack.preflight.rules.references import namespace_unknown, storage_class_unknown, volume_unknown
from trainstack.preflight.rules.volumes import (
    find_block_device_violations,
    find_one_node_violations,
    find_one_pod_violations,
    find_read_only_violations,
    volume_access_mode,
    volume_one_node,
    volume_one_pod,
    volume_read_only,
)
from trainstack.stack_objects.immutable_objects import objects_with_immutable_fields

_REPLACEMENT_REMEDY = "`up` replaces the object; undo the edit if it must stay"
LOCAL_PATH_PROVISIONER = "rancher.io/local-path"
"""The provisioner of kind and k3s."""


@replace(namespace_unknown.rule, silenceable=False)
def namespace_unknown_on_cluster(context: LiveContext) -> Iterator[Violation]:
    users = [(path, volume.namespace) for path, volume in context.volumes()]
    users += [(path, run.namespace) for path, run in context.runs()]
    namespaces = context.live.namespaces
    declared_namespaces = {namespace.name for namespace in context.settings.environment.namespaces}
    # Report an unreadable namespace once, at its first user.
    for name, path in {name: path for path, name in reversed(users)}.items():
        if namespaces[name] is None:
            yield unknown_violation(f"{path}.namespace", f"the cluster has namespace {name!r}", "it")
    for path, name in users:
        if namespaces[name] is False:
            remedy = "have it created, or declare it under environment.namespaces"
            message = f"the cluster does not have namespace {name!r}"
            yield missing_violation(
                context, f"{path}.namespace", message, remedy, is_declared=name in declared_namespaces
            )


@pods_forbidden.rule
def pods_forbidden_on_cluster(context: LiveContext) -> Iterator[Violation]:
    checked_namespaces = {
        namespace.name for namespace in context.settings.environment.namespaces if enforced_level(namespace)
    }
    live_namespaces = context.live.objects_by_name("Namespace") or {}
    levels = {
        name: (body["metadata"].get("labels") or {}).get(ENFORCE_LABEL, "") for name, body in live_namespaces.items()
    }
    yield from find_forbidden_pods(
        context, {name: level for name, level in levels.items() if name not in checked_namespaces}
    )


@storage_class_unknown.rule
def storage_class_unknown_on_cluster(context: LiveContext) -> Iterator[Violation]:
    storage, live = context.settings.storage, context.live
    static_classes = {volume.storage_class or "" for volume in storage.persistent_volumes}
    static_classes |= {
        str(body["spec"].get("storageClassName", ""))
        for body in (live.objects_by_name("PersistentVolume") or {}).values()
    }
    declared_classes = {storage_class.name for storage_class in storage.classes}
    for path, volume in context.volumes():
        name = volume.storage_class
        claim = (live.objects_by_name("PersistentVolumeClaim", volume.namespace) or {}).get(volume.name, {})
        if name is None and not claim:
            yield from _find_missing_default_class(context, f"{path}.storageClass")
        if not name:
            continue
        if name not in static_classes and (claim.get("status") or {}).get("phase") != "Bound":
            yield from find_missing_object(
                context, f"{path}.storageClass", "StorageClass", name, is_declared=name in declared_classes
            )
    for path, name in context.scratch_classes():
        yield from find_missing_object(context, path, "StorageClass", name, is_declared=name in declared_classes)


def _find_missing_default_class(context: LiveContext, path: str) -> Iterator[Violation]:
    """Yield a violation unless the cluster has a default StorageClass. Claims without a class would stay Pending."""
    classes = context.live.objects_by_name("StorageClass")
    if classes is None:
        yield unknown_violation(path, "the cluster has a default StorageClass", "StorageClass objects")
    elif not any(map(is_default_class, classes.values())):
        remedy = f"set storageClass to one of: {', '.join(sorted(classes)) or 'none'}"
        yield Violation(path, "the cluster has no default StorageClass, and the claim names none", remedy)


@volume_unknown.rule
def volume_unknown_on_cluster(context: LiveContext) -> Iterator[Violation]:
    for path, volume in context.existing_volumes():
        yield from find_missing_object(
            context, f"{path}.name", "PersistentVolumeClaim", volume.name, volume.namespace, is_declared=False
        )


@volume_one_pod.rule
def volume_one_pod_on_cluster(context: LiveContext) -> Iterator[Violation]:
    yield from find_one_pod_violations(context, _live_access_modes(context))


@volume_one_node.rule
def volume_one_node_on_cluster(context: LiveContext) -> Iterator[Violation]:
    yield from find_one_node_violations(context, _live_access_modes(context))


@volume_read_only.rule
def volume_read_only_on_cluster(context: LiveContext) -> Iterator[Violation]:
    yield from find_read_only_violations(context, _live_access_modes(context))


def _live_access_modes(context: LiveContext) -> AccessModesByVolume:
    """Return the access modes of the claims of other owners whose modes the files do not have."""
    access_modes: dict[tuple[str, str], Collection[str]] = {}
    for _, volume in context.existing_volumes():
        claims = context.live.objects_by_name("PersistentVolumeClaim", volume.namespace) or {}
        if volume.access_modes is None and volume.name in claims:
            access_modes[volume.namespace, volume.name] = claims[volume.name]["spec"]["accessModes"]
    return access_modes


@Rule(
    id="class-differs",
    may_be=("warning",),
    summary=(
        "A declared StorageClass exists with another provisioner, other parameters, or another binding mode or reclaim "
        "policy, which are immutable."
    ),
    details="A warning if `up` replaces the class, which this stack has created.",
    example="It has `Immediate` where `WaitForFirstConsumer` is declared.",
    remedy="Rename the declared class, or copy the live values.",
)
def class_differs(context: LiveContext) -> Iterator[Violation]:
    for path, manifest, edit, severity in immutable_edits(context, ("StorageClass",)):
        name = manifest["metadata"]["name"]
        message = f"class {name} has {edit.field.name} {edit.live}, but {edit.declared} is declared"
        yield Violation(edit.field.settings_path(path), message, _REPLACEMENT_REMEDY if severity else None, severity)


@Rule(
    id="field-immutable",
    may_be=("warning",),
    summary="A declared object exists with another value of a field that is immutable.",
    details=(
        "Claims and volumes; levels of a Topology; the controller of an AdmissionCheck; a flavor with a topology; the "
        "cluster queue of a local queue. A warning if `up` replaces the object, which this stack has created."
    ),
    example="The Topology `racks` has the level `rack` where `block` and `rack` are declared.",
    remedy="Undo the edit, or declare the object under another name.",
)
def field_immutable(context: LiveContext) -> Iterator[Violation]:
    kinds = [kind for kind in IMMUTABLE_FIELDS if kind != "StorageClass"]
    for path, manifest, edit, severity in immutable_edits(context, kinds):
        message = (
            f"{format_identity(identity(manifest))} has {edit.field.name} {edit.live}, but {edit.declared} is declared"
        )
        yield Violation(edit.field.settings_path(path), message, _REPLACEMENT_REMEDY if severity else None, severity)


def immutable_edits(
    context: LiveContext, kinds: Collection[str]
) -> Iterator[tuple[str, Manifest, Difference, Severity | None]]:
    """Yield the immutable fields in which a live object differs from its manifest.

    The elements are the object's path, its manifest, the difference, and `warning` if `up` replaces the object, or else
    None.
    """
    for path, manifest in objects_with_immutable_fields(context.stack_objects):
        kind, namespace, name = identity(manifest)
        live = (context.live.objects_by_name(kind, namespace) or {}).get(name)
        # The guard of volumes decides about claims in `storage.discard`.
        if kind not in kinds or live is None or f"{namespace}/{name}" in context.settings.storage.discard:
            continue
        is_own = (live["metadata"].get("labels") or {}).get(STACK) == context.settings.stack
        for edit in differences(manifest, live, is_own=is_own):
            yield path, manifest, edit, "warning" if is_own and edit.field.is_replaced else None


@volume_access_mode.rule
def volume_access_mode_on_cluster(context: LiveContext) -> Iterator[Violation]:
    storage = context.settings.storage
    # volume_access_mode over the files reports declared classes.
    declared_classes = {storage_class.name for storage_class in storage.classes}
    classes = context.live.objects_by_name("StorageClass") or {}
    provisioners = {
        name: str(body.get("provisioner", "")) for name, body in classes.items() if name not in declared_classes
    }
    yield from find_block_device_violations(storage.volumes, provisioners)
    declared_provisioners = {storage_class.name: storage_class.provisioner for storage_class in storage.classes}
    for path, volume in context.volumes():
        provisioner = (provisioners | declared_provisioners).get(volume.storage_class or "")
        shared_modes = {"ReadWriteMany", "ReadOnlyMany"}.intersection(volume.access_modes)
        if provisioner == LOCAL_PATH_PROVISIONER and shared_modes and context.live.local_path_shared is False:
            message = (
                f"class {volume.storage_class} ({provisioner}) keeps volumes on one node: {', '.join(shared_modes)}"
            )
            remedy = "use accessModes: [ReadWriteOnce], or have sharedFileSystemPath added to its configuration"
            yield Violation(f"{path}.accessModes", f"{message} is not supported", remedy)
