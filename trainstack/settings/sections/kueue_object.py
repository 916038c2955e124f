"""The settings of an Object: its kind, its `spec`, and the paths of its pods."""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from trainstack.settings.base import ApiFields, Section, raise_faults
from trainstack.settings.values.field_paths import FieldPath, StatusPath, put_at, value_at
from trainstack.settings.values.kubernetes import DnsLabel, quote

_GROUP = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*")
_VERSION = re.compile("v[a-z0-9]+")


def _check_api_version(text: str) -> str:
    group, slash, version = text.rpartition("/")
    if not _VERSION.fullmatch(version) or (slash and not _GROUP.fullmatch(group)):
        raise ValueError(f"{quote(text)} is not a group and a version; write both, such as kubeflow.org/v1")
    if "." not in group:
        remedy = "set kind of the run to Job or Pod, or write the API of an operator, such as kubeflow.org/v1"
        raise ValueError(f"{quote(text)} is an API of Kubernetes itself, not of an operator; {remedy}")
    return text


class ObjectPods(Section):
    """Where the object has the pods of one role."""

    name: DnsLabel
    """The role, by Kueue's name of the pod set."""
    template: FieldPath
    """The path of the pod template, such as `spec.jaxReplicaSpecs.Worker.template`. The template is built from the
    workload's settings."""
    replicas: FieldPath | None = None
    """The path of the number of pods; None: there is one."""


class StatusValues(Section):
    """Values of a field of an object's status."""

    path: StatusPath
    values: Annotated[tuple[str, ...], Field(min_length=1)]


class KueueObject(Section):
    """An object of a kind that Kueue queues, and suspends by `spec.suspend` or `spec.runPolicy.suspend`."""

    api_version: Annotated[str, AfterValidator(_check_api_version)]
    kind: Annotated[str, Field(pattern="^[A-Z][A-Za-z0-9]*$", max_length=63)]
    framework: Annotated[str, Field(pattern=r"^[a-z0-9./-]+$")]
    """Kueue's name of the integration, such as `kubeflow.org/jaxjob`."""
    spec: ApiFields = Field(default_factory=dict)
    """The object's `spec` without its pods."""
    pods: Annotated[tuple[ObjectPods, ...], Field(min_length=1)]
    """The pods in the order of Kueue's pod sets."""
    succeeded: StatusValues | None = None
    """The values by which the object has succeeded; None: the condition or `status.phase` `Complete`, `Completed` or
    `Succeeded`."""
    failed: StatusValues | None = None
    """The values by which the object has failed; None: the condition or `status.phase` `Failed`."""

    @model_validator(mode="after")
    def _check_consistency(self) -> "KueueObject":
        raise_faults(_faults_of_object(self))
        return self


_MULTI_WORKLOAD_FRAMEWORKS = ("deployment", "leaderworkerset.x-k8s.io/leaderworkerset", "pod", "statefulset")
"""The frameworks for whose objects Kueue creates several Workloads: it queues their pods, or groups of pods."""


def _faults_of_object(kueue_object: KueueObject) -> Iterator[str]:
    if kueue_object.framework in _MULTI_WORKLOAD_FRAMEWORKS:
        yield f"Kueue makes several Workloads of one object of framework {kueue_object.framework}: use another kind"
    names = [pods.name for pods in kueue_object.pods]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"pods has several entries named {name}: use unique names"
    body = {"spec": deepcopy(kueue_object.spec)}
    for path in (path for pods in kueue_object.pods for path in (pods.template, pods.replicas) if path is not None):
        if value_at(body, path) is not None:
            yield f"spec or another path already sets {path}: remove one of them"
            continue
        try:
            put_at(body, path, 1)
        except ValueError as error:
            yield f"{error}: add it to spec, or correct the path"
