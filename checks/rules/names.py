"""Names: each its own, and none too long for what is named after it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from checks.finding import Finding
from checks.scene import Rule, Scene, each
from manifests.labels import LIMIT, PRIORITY
from workloads import names
from workloads.errors import WorkloadError

_ANY_DIGEST = "0" * 64
"""Stands for digests that only a build knows: names of all digests are of one length."""
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)?")
"""Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set"""
_MOST = 253
"""Characters of the domain in a key."""


def name_derived(scene: Scene) -> Iterator[Finding]:
    """The names that pods and Services get from a run's are names that the cluster takes."""
    for path, run in scene.runs():
        launch = names.launch_name(names.run_id(run.name, _ANY_DIGEST), _ANY_DIGEST)
        try:
            names.check(run, launch)
        except WorkloadError as error:
            message, _, remedy = str(error).rpartition("; ")
            yield Finding("name-derived", "error", f"{path}.name", message, remedy)


def label_invalid(scene: Scene) -> Iterator[Finding]:
    """Keys and values of labels, selectors and taints, and names that become labels, are what Kubernetes takes."""
    for path, labels in _labels(scene):
        for key, value in labels.items():
            if not _KEY.fullmatch(key) or len(key.rpartition("/")[2]) > LIMIT or len(key.partition("/")[0]) > _MOST:
                message = f"{key} is no key of a label"
                remedy = f"write up to {LIMIT} letters, digits, '-', '_' and '.', perhaps after a domain's name and '/'"
                yield Finding("label-invalid", "error", path, message, remedy)
            if not _VALUE.fullmatch(value) or len(value) > LIMIT:
                message = f"{value} is no value of a label ({key})"
                remedy = f"write up to {LIMIT} letters, digits, '-', '_' and '.', with a letter or digit at both ends"
                yield Finding("label-invalid", "error", path, message, remedy)


def name_duplicate(scene: Scene) -> Iterator[Finding]:
    """Names are unique in their list; of volumes and local queues, in their namespace."""
    for path, listed in _lists(scene):
        for name, count in Counter(listed).items():
            if count > 1:
                message = f"{name} is there {count} times"
                yield Finding("name-duplicate", "error", path, message, "rename or drop all but one")


def _labels(scene: Scene) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The labels and selectors of an environment, and what becomes one, with their paths."""
    settings = scene.settings
    storage, queues = settings.storage, settings.queues
    for path, namespace in each("environment.namespaces", settings.environment.namespaces):
        yield f"{path}.labels", namespace.labels
    for path, static in each("storage.persistentVolumes", storage.persistent_volumes):
        yield f"{path}.labels", static.labels
    for path, claim in each("storage.volumes", storage.volumes):
        yield f"{path}.labels", claim.labels
        yield f"{path}.selector", claim.selector
    for path, flavor in each("queues.flavors", queues.flavors):
        yield f"{path}.nodeLabels", flavor.node_labels
        for index, taint in enumerate(flavor.node_taints):
            yield f"{path}.nodeTaints[{index}]", {taint.key: taint.value}
    for path, run in scene.runs():
        yield f"{path}.labels", run.labels
        yield f"{path}.nodeSelector", run.node_selector
        # Kueue reads a run's priority from a label.
        yield f"{path}.priority", {PRIORITY: run.priority or ""}


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
    yield "secrets.secrets", (f"{one.namespace}/{one.name}" for one in settings.secrets.secrets)
    yield "tenants.teams", (one.name for one in settings.tenants.teams)
    yield "workloads.runs", (one.name for one in settings.workloads.runs)
    yield "sweeps.sweeps", (one.name for one in settings.sweeps.sweeps)
    yield "plan.prices", (one.name for one in settings.plan.prices)


RULES: tuple[Rule, ...] = (name_derived, label_invalid, name_duplicate)
