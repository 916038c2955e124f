"""Namespaces, storage classes and what they can do."""

from collections.abc import Iterator
from dataclasses import replace

from trainstack.preflight.live_context import LiveScene, absent, unknown
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import each
from trainstack.preflight.rules.references import namespace_unknown, storage_class_unknown
from trainstack.preflight.rules.volumes import on_block_devices, volume_access_mode
from trainstack.settings.errors import nearest


@replace(namespace_unknown.rule, silenceable=False)
def namespace_missing(scene: LiveScene) -> Iterator[Violation]:
    settings = scene.settings
    users = [(path, volume.namespace) for path, volume in each("storage.volumes", settings.storage.volumes)]
    users += [(path, run.namespace) for path, run in scene.runs()]
    there = scene.live.all("Namespace")
    own = {one.name for one in settings.environment.namespaces}
    if there is None:
        # A tenant's namespace is not asked for: what is read in it tells enough.
        return
    for path, namespace in users:
        if namespace not in there:
            yield absent(
                f"{path}.namespace",
                f"there is no namespace {namespace}",
                "have it made, or declare it under environment.namespaces",
                own=namespace in own,
                stack=settings.stack,
            )


@storage_class_unknown.rule
def class_missing(scene: LiveScene) -> Iterator[Violation]:
    settings, live = scene.settings, scene.live
    classes, volumes = live.all("StorageClass"), live.all("PersistentVolume") or {}
    by_hand = {one.storage_class for one in settings.storage.persistent_volumes}
    by_hand |= {str(body["spec"].get("storageClassName")) for body in volumes.values()}
    own = {one.name for one in settings.storage.classes}
    for path, volume in each("storage.volumes", settings.storage.volumes):
        name = volume.storage_class
        claim = (live.all("PersistentVolumeClaim", volume.namespace) or {}).get(volume.name, {})
        if name in by_hand or (claim.get("status") or {}).get("phase") == "Bound":
            continue
        if classes is None:
            yield unknown(f"{path}.storageClass", f"whether there is a storage class {name}")
        elif name not in classes:
            yield absent(
                f"{path}.storageClass",
                f"the cluster has no storage class {name}",
                f"{nearest(name, classes)} (or have it made)",
                own=name in own,
                stack=settings.stack,
            )


@Rule(
    id="class-differs",
    severity="error",
    summary="A declared class exists with another provisioner, binding mode or reclaim policy.",
    details="StorageClasses are immutable.",
    example="`volumeBindingMode: Immediate` in the cluster where `WaitForFirstConsumer` is declared.",
    remedy="Rename the declared class, or copy the live values.",
)
def class_differs(scene: LiveScene) -> Iterator[Violation]:
    classes = scene.live.all("StorageClass") or {}
    for path, one in each("storage.classes", scene.settings.storage.classes):
        if one.name not in classes:
            continue
        body = classes[one.name]
        for key, field, wanted in (
            ("provisioner", "provisioner", one.provisioner),
            ("volumeBindingMode", "volumeBindingMode", one.volume_binding_mode),
            ("reclaimPolicy", "reclaimPolicy", one.reclaim_policy),
        ):
            if body.get(field) != wanted:
                message = f"class {one.name} has {key} {body.get(field)}, and {wanted} is declared"
                remedy = "a class cannot be edited there: give the declared one another name, or say what is"
                yield Violation(f"{path}.{key}", message, remedy)


@volume_access_mode.rule
def class_access_mode(scene: LiveScene) -> Iterator[Violation]:
    storage = scene.settings.storage
    # Of a class that is declared here, the files have told already.
    own = {one.name for one in storage.classes}
    classes = scene.live.all("StorageClass") or {}
    provisioners = {name: str(body.get("provisioner", "")) for name, body in classes.items() if name not in own}
    yield from on_block_devices(storage.volumes, provisioners)


RULES: tuple[Check[LiveScene], ...] = (namespace_missing, class_missing, class_differs, class_access_mode)
