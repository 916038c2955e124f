"""Names: each its own, and none too long for what is named after it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from checks.finding import Finding
from checks.scene import Rule, Scene
from workloads import names
from workloads.errors import WorkloadError

_ANY_DIGEST = "0" * 64
"""Stands for digests that only a build knows: names of all digests are of one length."""


def name_derived(scene: Scene) -> Iterator[Finding]:
    """The names that pods and Services get from a run's are names that the cluster takes."""
    for path, run in scene.runs():
        launch = names.launch_name(names.run_id(run.name, _ANY_DIGEST), _ANY_DIGEST)
        try:
            names.check(run, launch)
        except WorkloadError as error:
            message, _, remedy = str(error).rpartition("; ")
            yield Finding("name-derived", "error", f"{path}.name", message, remedy)


def name_duplicate(scene: Scene) -> Iterator[Finding]:
    """Names are unique in their list; of volumes and local queues, in their namespace."""
    for path, listed in _lists(scene):
        for name, count in Counter(listed).items():
            if count > 1:
                message = f"{name} is there {count} times"
                yield Finding("name-duplicate", "error", path, message, "rename or drop all but one")


def _lists(scene: Scene) -> Iterator[tuple[str, Iterable[str]]]:
    settings = scene.settings
    storage, queues = settings.storage, settings.queues
    yield "environment.namespaces", (one.name for one in settings.environment.namespaces)
    yield "storage.classes", (one.name for one in storage.classes)
    yield "storage.persistentVolumes", (one.name for one in storage.persistent_volumes)
    yield "storage.volumes", (f"{one.namespace}/{one.name}" for one in storage.volumes)
    yield "queues.flavors", (one.name for one in queues.flavors)
    yield "queues.cohorts", (one.name for one in queues.cohorts)
    yield "queues.clusterQueues", (one.name for one in queues.cluster_queues)
    yield "queues.localQueues", (f"{one.namespace}/{one.name}" for one in queues.local_queues)
    yield "queues.priorityClasses", (one.name for one in queues.priority_classes)
    yield "tenants.teams", (one.name for one in settings.tenants.teams)
    yield "workloads.runs", (one.name for one in settings.workloads.runs)
    yield "sweeps.sweeps", (one.name for one in settings.sweeps.sweeps)


RULES: tuple[Rule, ...] = (name_derived, name_duplicate)
