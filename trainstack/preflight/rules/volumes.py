"""Rules about volumes that runs mount, read and record on."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trainstack.preflight.examples import hello, training, yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import AccessModesByVolume, EnvironmentContext, RuleContext, with_paths
from trainstack.runs.manifests.pod_template import SHARED_MEMORY_FOLDER, WRAPPER_FOLDER
from trainstack.runs.status.queued_workloads import pod_sets
from trainstack.settings.sections.storage import NO_PROVISIONER, PersistentVolume, Volume
from trainstack.settings.values.quantities import amount

_BLOCK_PROVISIONERS = {
    "ebs.csi.aws.com",
    "pd.csi.storage.gke.io",
    "disk.csi.azure.com",
    "rbd.csi.ceph.com",
    "cinder.csi.openstack.org",
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/gce-pd",
}
"""Provisioners of block devices. Only one node can mount their file systems for writing. Rook adds a prefix.
Source: the access modes that each driver documents."""


@Rule(
    id="volume-one-pod",
    summary="Several pods of a run mount a volume that only one pod can mount.",
    change=training("accessModes: [ReadWriteOncePod]") + hello("roles: {Worker: {replicas: 1}}"),
    remedy="Give the volume `ReadWriteMany`, or mount it in one role with one pod.",
)
def volume_one_pod(context: RuleContext) -> Iterator[Violation]:
    yield from find_one_pod_violations(context, context.access_modes)


@Rule(
    id="volume-one-node",
    severity="warning",
    summary="Several pods of a run mount a volume that only one node can mount.",
    details="Pods on other nodes stay Pending.",
    change=hello("roles: {Worker: {replicas: 1}}"),
    remedy="Give the volume `ReadWriteMany`, or make sure that the pods fit on one node.",
)
def volume_one_node(context: RuleContext) -> Iterator[Violation]:
    yield from find_one_node_violations(context, context.access_modes)


@Rule(
    id="volume-access-mode",
    summary="A `ReadWriteMany` volume has a class whose provisioner creates block devices.",
    details="Only one node can write to such a file system. Common provisioners are known.",
    change=yaml_at(
        "storage",
        "classes: [{name: shared, provisioner: ebs.csi.aws.com}]",
        "volumes: [{name: training, storageClass: shared, accessModes: [ReadWriteMany]}]",
    ),
    remedy="Use a class of shared storage (NFS, CephFS, …), or `ReadWriteOnce`.",
)
def volume_access_mode(context: RuleContext) -> Iterator[Violation]:
    storage = context.settings.storage
    provisioners = {storage_class.name: storage_class.provisioner for storage_class in storage.classes}
    yield from find_block_device_violations(storage.volumes, provisioners)


@Rule(
    id="volume-read-only",
    may_be=("warning",),
    summary="A run mounts a `ReadOnlyMany` volume for writing.",
    details="An error if the volume holds the run's record, otherwise a warning.",
    change=training("accessModes: [ReadOnlyMany]"),
    remedy="Set `readOnly: true` on the mount, or give the volume `ReadWriteMany`.",
)
def volume_read_only(context: RuleContext) -> Iterator[Violation]:
    yield from find_read_only_violations(context, context.access_modes)


@Rule(
    id="volume-unbindable",
    summary="A claim without a provisioner matches no declared PersistentVolume in access modes, size and labels.",
    details="It would stay Pending.",
    example="A claim of 2Gi, and a volume of 1Gi.",
    remedy="Correct the claim, or declare a matching volume under `storage.persistentVolumes`.",
)
def volume_unbindable(context: RuleContext) -> Iterator[Violation]:
    storage, environment = context.settings.storage, context.settings.environment
    # A class that this stack does not declare may have volumes of which the files show nothing.
    dynamic_classes = {*environment.existing.storage_classes}
    dynamic_classes |= {
        storage_class.name for storage_class in storage.classes if storage_class.provisioner != NO_PROVISIONER
    }
    for path, claim in context.volumes():
        static_volumes = [
            volume for volume in storage.persistent_volumes if (volume.storage_class or "") == claim.storage_class
        ]
        names_other_volume = claim.volume_name not in (None, *(volume.name for volume in storage.persistent_volumes))
        if not static_volumes or claim.storage_class in dynamic_classes or claim.adopt or names_other_volume:
            continue
        mismatches = [_find_mismatch(claim, volume) for volume in static_volumes]
        if all(mismatches):
            class_phrase = f"of class {claim.storage_class}" if claim.storage_class else "without a class"
            message = f"no volume {class_phrase} matches: {'; '.join(mismatches)}"
            yield Violation(path, message)


@Rule(
    id="mount-duplicate",
    summary="Two volumes have the same mount path.",
    example="`mountPath: /mnt/training` for two volumes.",
    remedy="Give each volume, and the code, its own path; Trainstack reserves some paths.",
    silenceable=False,
)
def mount_duplicate(context: RuleContext) -> Iterator[Violation]:
    for _, run, pods in context.pod_sets():
        if run.manifest is not None:
            continue  # manifest-invalid reports it, with the containers that mount the volumes.
        mount_paths = [mount.mount_path for mount in pods.mounts] + ([run.code.mount_path] if run.code else [])
        mount_paths += [WRAPPER_FOLDER] if run.managed else []
        mount_paths += [volume.mount_path for volume in pods.settings.scratch]
        mount_paths += [SHARED_MEMORY_FOLDER] if pods.settings.shared_memory is not None else []
        for mount_path, count in Counter(path.rstrip("/") or "/" for path in mount_paths).items():
            if count > 1:
                yield Violation(pods.mounts_path, f"{mount_path} is the mount path of {count} volumes")


@Rule(
    id="record-unmounted",
    summary="The master, or a Job's pod, does not mount the record's volume, or mounts it read-only.",
    example="`volumes: [{volume: training, mountPath: /mnt, readOnly: true}]`.",
    remedy="Add the volume to `volumes`, without `readOnly`.",
)
def record_unmounted(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        # The record of a manifest's run is mounted by Trainstack.
        if run.managed and run.record is not None and run.manifest is None:
            pods, volume = next(pod_sets(path, run)), run.record.volume
            mounts = [mount for mount in pods.mounts if mount.volume == volume and mount.sub_path is None]
            if not mounts:
                message = f"volume {volume} is not mounted as a whole, so the run cannot be recorded"
                yield Violation(f"{path}.record.volume", message, _mount_remedy(run.record.volume))
            elif all(mount.read_only for mount in mounts):
                message = f"volume {run.record.volume} is mounted read-only, so the run cannot be recorded"
                yield Violation(f"{path}.record.volume", message, "remove readOnly from its mount")


@Rule(
    id="data-unmounted",
    severity="warning",
    summary="A role does not mount the volume with the run's data.",
    example="A run with `data`, and a role with `volumes: []`.",
    remedy="Add the volume to the role's `volumes`, with a `mountPath`.",
)
def data_unmounted(context: RuleContext) -> Iterator[Violation]:
    for path, run, pods in context.pod_sets():
        if run.data and run.data.volume not in {mount.volume for mount in pods.mounts if mount.sub_path is None}:
            message = f"{pods.name} does not mount volume {run.data.volume}, which holds the data"
            yield Violation(f"{path}.data.volume", message, _mount_remedy(run.data.volume))


def find_one_pod_violations(context: EnvironmentContext, access_modes: AccessModesByVolume) -> Iterator[Violation]:
    for path, volume, pods in _shared_volumes(context):
        if {*access_modes.get(volume, ())} == {"ReadWriteOncePod"}:
            yield Violation(path, f"{pods} pods mount volume {volume[1]}, but only one can (ReadWriteOncePod)")


def find_one_node_violations(context: EnvironmentContext, access_modes: AccessModesByVolume) -> Iterator[Violation]:
    for path, volume, pods in _shared_volumes(context):
        modes = {*access_modes.get(volume, ())}
        if modes <= {"ReadWriteOnce", "ReadWriteOncePod"} and "ReadWriteOnce" in modes:
            message = f"{pods} pods mount volume {volume[1]}, which only one node can mount (ReadWriteOnce)"
            yield Violation(path, message)


def find_read_only_violations(context: EnvironmentContext, access_modes: AccessModesByVolume) -> Iterator[Violation]:
    for path_of, run, mount in context.mounts():
        modes = access_modes.get((run.namespace, mount.volume), ())
        if {*modes} == {"ReadOnlyMany"} and not mount.read_only:
            message = f"volume {mount.volume} is read-only (ReadOnlyMany), but it is mounted for writing"
            holds_record = run.record is not None and run.record.volume == mount.volume
            yield Violation(path_of("readOnly"), message, severity="error" if holds_record else "warning")


def find_block_device_violations(volumes: Sequence[Volume], provisioners: Mapping[str, str]) -> Iterator[Violation]:
    """Yield a violation for each ReadWriteMany volume of a class that creates block devices.

    `provisioners`: by name of the class.
    """
    for path, volume in with_paths("storage.volumes", volumes):
        provisioner = provisioners.get(volume.storage_class or "", "")
        if "ReadWriteMany" in volume.access_modes and _creates_block_devices(provisioner):
            message = f"class {volume.storage_class} ({provisioner}) does not support ReadWriteMany file systems"
            yield Violation(f"{path}.accessModes", message)


def _creates_block_devices(provisioner: str) -> bool:
    return provisioner in _BLOCK_PROVISIONERS or any(
        provisioner.endswith(f".{block_provisioner}") for block_provisioner in _BLOCK_PROVISIONERS
    )


def _find_mismatch(claim: Volume, volume: PersistentVolume) -> str:
    """Return the reason why a claim cannot bind to a volume; empty if it can."""
    if claim.volume_name not in (None, volume.name):
        return f"{volume.name} is not {claim.volume_name}, which the claim names"
    if volume.claim not in (None, f"{claim.namespace}/{claim.name}"):
        return f"{volume.name} is reserved for {volume.claim}"
    missing_modes = [mode for mode in claim.access_modes if mode not in volume.access_modes]
    if missing_modes:
        return f"{volume.name} is not {' and '.join(missing_modes)}"
    if amount(claim.size) > amount(volume.size):
        return f"{volume.name} has {volume.size} of {claim.size}"
    if not claim.selector.items() <= volume.labels.items():
        return f"{volume.name} lacks the labels that the claim selects"
    return ""


def _mount_remedy(volume: str) -> str:
    return f"add {volume} to the volumes, with a mountPath"


def _shared_volumes(context: EnvironmentContext) -> Iterator[tuple[str, tuple[str, str], int]]:
    """Yield the volumes that several pods of a run mount, by namespace and name.

    The other elements are the path of the first mount, and the number of pods.
    """
    for path, run in context.runs():
        first_paths_and_counts: dict[str, tuple[str, int]] = {}
        for pods in pod_sets(path, run):
            for name in dict.fromkeys(mount.volume for mount in pods.mounts):
                index = next(index for index, mount in enumerate(pods.mounts) if mount.volume == name)
                first_path, count = first_paths_and_counts.get(name, (pods.mount_path(index, "volume"), 0))
                first_paths_and_counts[name] = first_path, count + pods.count
        for name, (mount_path, count) in first_paths_and_counts.items():
            if count > 1:
                yield mount_path, (run.namespace, name), count
