"""What runs mount, read and are recorded on."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trainstack.preflight.rule import Check, Rule, Severity, Violation
from trainstack.preflight.rule_context import Scene, each
from trainstack.runs.manifests.pod_template import SHARED_MEMORY_FOLDER, WRAPPER_FOLDER
from trainstack.runs.status.run_pods import pod_sets
from trainstack.settings.sections.storage import NO_PROVISIONER, PersistentVolume, Volume
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.quantities import amount

_BLOCK = {
    "ebs.csi.aws.com",
    "pd.csi.storage.gke.io",
    "disk.csi.azure.com",
    "rbd.csi.ceph.com",
    "cinder.csi.openstack.org",
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/gce-pd",
}
"""Provisioners of block devices, whose file systems one node mounts for writing. Rook puts a namespace before the name.
Source: the access modes that each driver documents."""


@Rule(
    id="volume-one-pod",
    severity="error",
    summary="Several pods of a run mount a volume that only one pod can mount.",
    details="The other pods never start.",
    change="""
        trainstack:storage:
          volumes:
            - {name: training, accessModes: [ReadWriteOncePod]}
    """,
    remedy="Give the volume `ReadWriteMany`, or mount it in one role with one pod.",
)
def volume_one_pod(scene: Scene) -> Iterator[Violation]:
    for path, volume, pods in _shared(scene):
        if volume.access_modes == ("ReadWriteOncePod",):
            message = f"{pods} pods mount volume {volume.name}, which takes one (ReadWriteOncePod)"
            remedy = "give the volume ReadWriteMany, or mount it in one role of one pod"
            yield Violation(path, message, remedy)


@Rule(
    id="volume-one-node",
    severity="warning",
    summary="Several pods of a run mount a volume that only one node can mount.",
    details="Pods on other nodes would stay Pending.",
    change="""
        trainstack:storage:
          volumes:
            - {name: training, accessModes: [ReadWriteOnce]}
    """,
    remedy="Give the volume `ReadWriteMany`, or make sure that the pods fit on one node.",
)
def volume_one_node(scene: Scene) -> Iterator[Violation]:
    for path, volume, pods in _shared(scene):
        if set(volume.access_modes) <= {"ReadWriteOnce", "ReadWriteOncePod"} and "ReadWriteOnce" in volume.access_modes:
            message = f"{pods} pods mount volume {volume.name}, which serves one node (ReadWriteOnce)"
            remedy = "give the volume ReadWriteMany, or see that the pods fit on one node"
            yield Violation(path, message, remedy)


@Rule(
    id="volume-access-mode",
    severity="error",
    summary="A `ReadWriteMany` volume has a class whose provisioner creates block devices.",
    details=(
        "One node alone can write to the file system of a block device. The rule knows the common provisioners. "
        "With `--cluster` it also looks at classes that the environment does not declare."
    ),
    change="""
        trainstack:storage:
          classes:
            - {name: shared, provisioner: ebs.csi.aws.com}
    """,
    remedy="Use a class of shared storage (NFS, CephFS, …), or `ReadWriteOnce`.",
    formerly=("class-access-mode",),
)
def volume_access_mode(scene: Scene) -> Iterator[Violation]:
    storage = scene.settings.storage
    yield from on_block_devices(storage.volumes, {one.name: one.provisioner for one in storage.classes})


@Rule(
    id="volume-read-only",
    severity="error",
    may_be=("warning",),
    summary="A run mounts a `ReadOnlyMany` volume for writing.",
    details="An error if the volume holds the run's record, otherwise a warning.",
    change="""
        trainstack:storage:
          volumes:
            - {name: training, accessModes: [ReadOnlyMany]}
    """,
    remedy="Set `readOnly: true` on the mount, or give the volume `ReadWriteMany`.",
)
def volume_read_only(scene: Scene) -> Iterator[Violation]:
    volumes = {(one.namespace, one.name): one for one in scene.settings.storage.volumes}
    for path, run in scene.runs():
        for pods in pod_sets(path, run):
            for index, mount in enumerate(pods.mounts):
                volume = volumes.get((run.namespace, mount.volume))
                if volume is not None and set(volume.access_modes) == {"ReadOnlyMany"} and not mount.read_only:
                    message = f"volume {volume.name} is for readers alone (ReadOnlyMany), and it is mounted to write"
                    remedy = "say readOnly: true, or give the volume ReadWriteMany"
                    recorded = run.record is not None and run.record.volume == volume.name
                    severity: Severity = "error" if recorded else "warning"
                    where = f"{pods.mounts_path}[{index}].readOnly"
                    yield Violation(where, message, remedy, severity)


@Rule(
    id="volume-unbindable",
    severity="error",
    summary="A claim of a class without a provisioner matches no declared PersistentVolume.",
    details="None has its access modes, its size and the labels that it selects. The claim would stay Pending.",
    change="""
        trainstack:storage:
          classes:
            - {name: shared, provisioner: kubernetes.io/no-provisioner}
          persistentVolumes:
            - {name: disk, storageClass: shared, size: 1Gi, accessModes: [ReadWriteMany], hostPath: /data}
    """,
    remedy="Correct the claim, or declare a matching volume under `storage.persistentVolumes`.",
)
def volume_unbindable(scene: Scene) -> Iterator[Violation]:
    storage, environment = scene.settings.storage, scene.settings.environment
    provided = {one.name for one in storage.classes if one.provisioner != NO_PROVISIONER}
    # What others made may have volumes that nobody told of.
    provided |= set(environment.existing.storage_classes)
    for path, claim in each("storage.volumes", storage.volumes):
        by_hand = [one for one in storage.persistent_volumes if one.storage_class == claim.storage_class]
        if not by_hand or claim.storage_class in provided or claim.adopt:
            continue
        why = [_misfit(claim, one) for one in by_hand]
        if all(why):
            message = f"no volume of class {claim.storage_class} will do: {'; '.join(why)}"
            remedy = "correct the claim, or declare such a volume under storage.persistentVolumes"
            yield Violation(path, message, remedy)


@Rule(
    id="mount-duplicate",
    severity="error",
    summary="Two volumes have the same mount path.",
    details="The API server refuses the pods.",
    change="""
        trainstack:storage:
          volumes:
            - {name: data, namespace: research, storageClass: shared, size: 1Gi, accessModes: [ReadWriteMany]}
        trainstack:workloads:
          runs:
            - name: digits
              volumes: [{volume: training, mountPath: /mnt/training}, {volume: data, mountPath: /mnt/training}]
    """,
    remedy="Give each volume, and the code, its own path.",
    silenceable=False,
)
def mount_duplicate(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        for pods in pod_sets(path, run):
            places = [mount.mount_path for mount in pods.mounts] + ([run.code.mount_path] if run.code else [])
            places += [WRAPPER_FOLDER] if run.managed else []
            places += [SHARED_MEMORY_FOLDER] if run.shared_memory is not None else []
            for place, count in Counter(one.rstrip("/") or "/" for one in places).items():
                if count > 1:
                    message = f"{place} is a mount path {count} times"
                    yield Violation(
                        pods.mounts_path,
                        message,
                        "give each volume, and the code, its own path; some are the stack's own",
                    )


@Rule(
    id="record-unmounted",
    severity="error",
    summary="The pod that records a managed run does not mount the record's volume, or mounts it read-only.",
    details="That pod is the master, or a Job's own pod.",
    change="""
        trainstack:workloads:
          runs:
            - name: digits
              volumes: [{volume: training, mountPath: /mnt/training, readOnly: true}]
    """,
    remedy="Add the volume to `volumes`, without `readOnly`.",
)
def record_unmounted(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        if run.managed and run.record is not None:
            mounts = [mount for mount in next(pod_sets(path, run)).mounts if mount.volume == run.record.volume]
            if not mounts:
                message = f"the volume {run.record.volume} is not mounted, so the run cannot be recorded"
                yield Violation(f"{path}.record.volume", message, _mount(run.record.volume))
            elif all(mount.read_only for mount in mounts):
                message = f"the volume {run.record.volume} is mounted to read only, so the run cannot be recorded"
                remedy = "leave readOnly out of its mount"
                yield Violation(f"{path}.record.volume", message, remedy)


@Rule(
    id="data-unmounted",
    severity="warning",
    summary="A role does not mount the volume with the run's data.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, roles: {Worker: {volumes: []}}}
    """,
    remedy="Add the volume to the role's `volumes`, with a `mountPath`.",
)
def data_unmounted(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        for pods in pod_sets(path, run) if run.data else ():
            if run.data and run.data.volume not in {mount.volume for mount in pods.mounts}:
                message = f"the volume {run.data.volume} with the data is not mounted by {pods.name}"
                yield Violation(f"{path}.data.volume", message, _mount(run.data.volume))


def on_block_devices(volumes: Sequence[Volume], provisioners: Mapping[str, str]) -> Iterator[Violation]:
    """Volumes for writers on several nodes whose class cannot serve them. `provisioners`: by the name of the class."""
    for path, volume in each("storage.volumes", volumes):
        provisioner = provisioners.get(volume.storage_class, "")
        if "ReadWriteMany" in volume.access_modes and _makes_block_devices(provisioner):
            message = f"class {volume.storage_class} ({provisioner}) gives no ReadWriteMany volumes with a file system"
            remedy = "take a class of shared storage (NFS, CephFS, …), or ReadWriteOnce"
            yield Violation(f"{path}.accessModes", message, remedy)


def _makes_block_devices(provisioner: str) -> bool:
    """Whether a provisioner's volumes have file systems that one node alone may write to, as far as that is known."""
    return provisioner in _BLOCK or any(provisioner.endswith(f".{known}") for known in _BLOCK)


def _misfit(claim: Volume, volume: PersistentVolume) -> str:
    """Why a claim cannot have a volume; empty where it can."""
    lacking = [mode for mode in claim.access_modes if mode not in volume.access_modes]
    if lacking:
        return f"{volume.name} is not {' and '.join(lacking)}"
    if amount(claim.size) > amount(volume.size):
        return f"{volume.name} has {volume.size} of {claim.size}"
    if not claim.selector.items() <= volume.labels.items():
        return f"{volume.name} lacks the labels that the claim selects"
    return ""


def _mount(volume: str) -> str:
    return f"add {volume} to the volumes, with a mountPath"


def _shared(scene: Scene) -> Iterator[tuple[str, Volume, int]]:
    """Volumes that several pods of a run mount at once, with the path of the first mount."""
    volumes = {(one.namespace, one.name): one for one in scene.settings.storage.volumes}
    for path, run in scene.runs():
        for name, (mount, pods) in _mounting(path, run).items():
            volume = volumes.get((run.namespace, name))
            if volume is not None and pods > 1:
                yield mount, volume, pods


def _mounting(path: str, run: Workload) -> dict[str, tuple[str, int]]:
    """By volume: the path of its first mount, and how many pods mount it."""
    mounting: dict[str, tuple[str, int]] = {}
    for pods in pod_sets(path, run):
        for name in dict.fromkeys(mount.volume for mount in pods.mounts):
            index = next(index for index, mount in enumerate(pods.mounts) if mount.volume == name)
            first, count = mounting.get(name, (f"{pods.mounts_path}[{index}].volume", 0))
            mounting[name] = first, count + pods.count
    return mounting


RULES: tuple[Check[Scene], ...] = (
    volume_one_pod,
    volume_one_node,
    volume_access_mode,
    volume_read_only,
    volume_unbindable,
    mount_duplicate,
    record_unmounted,
    data_unmounted,
)
