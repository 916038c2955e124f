"""What runs mount, read and are recorded on."""

from collections import Counter
from collections.abc import Iterator

from checks.finding import Finding, Severity
from checks.run_pods import pod_sets
from checks.scene import Rule, Scene, each
from settings.quantities import amount
from settings.storage import NO_PROVISIONER, PersistentVolume, Volume
from settings.workloads import Workload
from workloads.pod_template import SHARED_MEMORY_FOLDER, WRAPPER_FOLDER

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


def volume_one_pod(scene: Scene) -> Iterator[Finding]:
    """A ReadWriteOncePod volume is mounted by one pod; a second one never starts."""
    for path, volume, pods in _shared(scene):
        if volume.access_modes == ("ReadWriteOncePod",):
            message = f"{pods} pods mount volume {volume.name}, which takes one (ReadWriteOncePod)"
            remedy = "give the volume ReadWriteMany, or mount it in one role of one pod"
            yield Finding("volume-one-pod", "error", path, message, remedy)


def volume_one_node(scene: Scene) -> Iterator[Finding]:
    """A ReadWriteOnce volume serves the pods of one node: further nodes cannot take part."""
    for path, volume, pods in _shared(scene):
        if set(volume.access_modes) <= {"ReadWriteOnce", "ReadWriteOncePod"} and "ReadWriteOnce" in volume.access_modes:
            message = f"{pods} pods mount volume {volume.name}, which serves one node (ReadWriteOnce)"
            remedy = "give the volume ReadWriteMany, or see that the pods fit on one node"
            yield Finding("volume-one-node", "warning", path, message, remedy)


def volume_access_mode(scene: Scene) -> Iterator[Finding]:
    """A volume for writers on several nodes is of a declared class that can serve them, as far as that is known."""
    storage = scene.settings.storage
    provisioners = {one.name: one.provisioner for one in storage.classes}
    for path, volume in each("storage.volumes", storage.volumes):
        provisioner = provisioners.get(volume.storage_class, "")
        if "ReadWriteMany" in volume.access_modes and makes_block_devices(provisioner):
            message = f"class {volume.storage_class} ({provisioner}) gives no ReadWriteMany volumes with a file system"
            remedy = "take a class of shared storage (NFS, CephFS, …), or ReadWriteOnce"
            yield Finding("volume-access-mode", "error", f"{path}.accessModes", message, remedy)


def volume_read_only(scene: Scene) -> Iterator[Finding]:
    """What is written to is no volume that serves readers alone: surely not the one with a run's record."""
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
                    yield Finding("volume-read-only", severity, where, message, remedy)


def volume_unbindable(scene: Scene) -> Iterator[Finding]:
    """A claim of a class without a provisioner finds a volume made by hand that will do."""
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
            yield Finding("volume-unbindable", "error", path, message, remedy)


def mount_duplicate(scene: Scene) -> Iterator[Finding]:
    """Nothing is mounted at the same path twice."""
    for path, run in scene.runs():
        for pods in pod_sets(path, run):
            places = [mount.mount_path for mount in pods.mounts] + ([run.code.mount_path] if run.code else [])
            places += [WRAPPER_FOLDER] if run.managed else []
            places += [SHARED_MEMORY_FOLDER] if run.shared_memory is not None else []
            for place, count in Counter(one.rstrip("/") or "/" for one in places).items():
                if count > 1:
                    message = f"{place} is a mount path {count} times"
                    yield Finding(
                        "mount-duplicate",
                        "error",
                        pods.mounts_path,
                        message,
                        "give each volume, and the code, its own path; some are the stack's own",
                    )


def record_unmounted(scene: Scene) -> Iterator[Finding]:
    """A managed run mounts its record's volume, to write, where rank 0 runs."""
    for path, run in scene.runs():
        if run.managed and run.record is not None:
            mounts = [mount for mount in next(pod_sets(path, run)).mounts if mount.volume == run.record.volume]
            if not mounts:
                message = f"the volume {run.record.volume} is not mounted, so the run cannot be recorded"
                yield Finding("record-unmounted", "error", f"{path}.record.volume", message, _mount(run.record.volume))
            elif all(mount.read_only for mount in mounts):
                message = f"the volume {run.record.volume} is mounted to read only, so the run cannot be recorded"
                remedy = "leave readOnly out of its mount"
                yield Finding("record-unmounted", "error", f"{path}.record.volume", message, remedy)


def data_unmounted(scene: Scene) -> Iterator[Finding]:
    """A run that names its data mounts the data's volume."""
    for path, run in scene.runs():
        for pods in pod_sets(path, run) if run.data else ():
            if run.data and run.data.volume not in {mount.volume for mount in pods.mounts}:
                message = f"the volume {run.data.volume} with the data is not mounted by {pods.name}"
                yield Finding("data-unmounted", "warning", f"{path}.data.volume", message, _mount(run.data.volume))


def makes_block_devices(provisioner: str) -> bool:
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


RULES: tuple[Rule, ...] = (
    volume_one_pod,
    volume_one_node,
    volume_access_mode,
    volume_read_only,
    volume_unbindable,
    mount_duplicate,
    record_unmounted,
    data_unmounted,
)
