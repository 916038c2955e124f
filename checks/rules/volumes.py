"""What runs mount, read and are recorded on."""

from collections import Counter
from collections.abc import Iterator

from checks.finding import Finding
from checks.run_pods import pod_sets
from checks.scene import Rule, Scene
from settings.storage import Volume
from settings.workloads import Workload
from workloads.pod_template import SHARED_MEMORY_FOLDER, WRAPPER_FOLDER


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


def mount_duplicate(scene: Scene) -> Iterator[Finding]:
    """Nothing is mounted at the same path twice."""
    for path, run in scene.runs():
        for pods in pod_sets(path, run):
            places = [mount.mount_path for mount in pods.mounts] + ([run.code.mount_path] if run.code else [])
            places += [WRAPPER_FOLDER] if run.managed else []
            places += [SHARED_MEMORY_FOLDER] if run.shared_memory is not None else []
            for place, count in Counter(each.rstrip("/") or "/" for each in places).items():
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


RULES: tuple[Rule, ...] = (volume_one_pod, volume_one_node, mount_duplicate, record_unmounted, data_unmounted)
