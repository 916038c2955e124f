"""Rules about the cluster's namespaces and storage classes, and about immutable fields of its objects."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from trainstack.declared.immutable import with_immutable_fields
from trainstack.objects.immutable_fields import IMMUTABLE, Difference, differences
from trainstack.objects.labels import STACK, Manifest
from trainstack.objects.ownership import identity, shown
from trainstack.platform.namespaces import ENFORCE, enforced
from trainstack.preflight.live_context import LiveContext, absent, absent_name, unknown
from trainstack.preflight.rule import Rule, Severity, Violation
from trainstack.preflight.rules.namespaces import forbidden, pods_forbidden
from trainstack.preflight.rules.references import namespace_unknown, storage_class_unknown
from trainstack.preflight.rules.volumes import on_block_devices, volume_access_mode

_REPLACED = "`up` replaces the object; undo the edit if it must stay"
LOCAL_PATH = "rancher.io/local-path"
"""The provisioner of kind and k3s."""


@replace(namespace_unknown.rule, silenceable=False)
def namespace_missing(context: LiveContext) -> Iterator[Violation]:
    users = [(path, volume.namespace) for path, volume in context.volumes()]
    users += [(path, run.namespace) for path, run in context.runs()]
    namespaces = context.live.namespaces
    own = {namespace.name for namespace in context.settings.environment.namespaces}
    # Report an unreadable namespace once, at its first user.
    for name, path in {name: path for path, name in reversed(users)}.items():
        if namespaces[name] is None:
            yield unknown(f"{path}.namespace", f"the cluster has namespace {name!r}", "it")
    for path, name in users:
        if namespaces[name] is False:
            remedy = "have it created, or declare it under environment.namespaces"
            message = f"the cluster does not have namespace {name!r}"
            yield absent(context, f"{path}.namespace", message, remedy, own=name in own)


@pods_forbidden.rule
def pods_forbidden_by_others(context: LiveContext) -> Iterator[Violation]:
    known = {namespace.name for namespace in context.settings.environment.namespaces if enforced(namespace)}
    live = context.live.all("Namespace") or {}
    levels = {name: (body["metadata"].get("labels") or {}).get(ENFORCE, "") for name, body in live.items()}
    yield from forbidden(context, {name: level for name, level in levels.items() if name not in known})


@storage_class_unknown.rule
def class_missing(context: LiveContext) -> Iterator[Violation]:
    storage, live = context.settings.storage, context.live
    static = {volume.storage_class for volume in storage.persistent_volumes}
    static |= {str(body["spec"].get("storageClassName")) for body in (live.all("PersistentVolume") or {}).values()}
    own = {storage_class.name for storage_class in storage.classes}
    for path, volume in context.volumes():
        name = volume.storage_class
        claim = (live.all("PersistentVolumeClaim", volume.namespace) or {}).get(volume.name, {})
        if name not in static and (claim.get("status") or {}).get("phase") != "Bound":
            yield from absent_name(context, f"{path}.storageClass", "StorageClass", name, own=name in own)
    for path, name in context.scratch_classes():
        yield from absent_name(context, path, "StorageClass", name, own=name in own)


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
        yield Violation(edit.field.in_settings(path), message, _REPLACED if severity else None, severity)


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
    kinds = [kind for kind in IMMUTABLE if kind != "StorageClass"]
    for path, manifest, edit, severity in immutable_edits(context, kinds):
        message = f"{shown(identity(manifest))} has {edit.field.name} {edit.live}, but {edit.declared} is declared"
        yield Violation(edit.field.in_settings(path), message, _REPLACED if severity else None, severity)


def immutable_edits(
    context: LiveContext, kinds: Collection[str]
) -> Iterator[tuple[str, Manifest, Difference, Severity | None]]:
    """Yield the immutable fields in which a live object differs from its manifest.

    The elements are the object's path, its manifest, the difference, and `warning` if `up` replaces the object, or else
    None.
    """
    for path, manifest in with_immutable_fields(context.declared):
        kind, namespace, name = identity(manifest)
        live = (context.live.all(kind, namespace) or {}).get(name)
        # The guard of volumes decides about claims in `storage.discard`.
        if kind not in kinds or live is None or f"{namespace}/{name}" in context.settings.storage.discard:
            continue
        is_own = (live["metadata"].get("labels") or {}).get(STACK) == context.settings.stack
        for edit in differences(manifest, live, is_own=is_own):
            yield path, manifest, edit, "warning" if is_own and edit.field.is_replaced else None


@volume_access_mode.rule
def class_access_mode(context: LiveContext) -> Iterator[Violation]:
    storage = context.settings.storage
    # volume_access_mode over the files reports declared classes.
    own = {storage_class.name for storage_class in storage.classes}
    classes = context.live.all("StorageClass") or {}
    provisioners = {name: str(body.get("provisioner", "")) for name, body in classes.items() if name not in own}
    yield from on_block_devices(storage.volumes, provisioners)
    declared = {storage_class.name: storage_class.provisioner for storage_class in storage.classes}
    for path, volume in context.volumes():
        provisioner = (provisioners | declared).get(volume.storage_class)
        shared = {"ReadWriteMany", "ReadOnlyMany"}.intersection(volume.access_modes)
        if provisioner == LOCAL_PATH and shared and context.live.local_path_shared is False:
            message = f"class {volume.storage_class} ({provisioner}) keeps volumes on one node: {', '.join(shared)}"
            remedy = "use accessModes: [ReadWriteOnce], or have sharedFileSystemPath added to its configuration"
            yield Violation(f"{path}.accessModes", f"{message} is not supported", remedy)
