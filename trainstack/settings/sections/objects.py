"""A workload as an object of a kind that Trainstack does not know."""

from typing import Annotated, Any

from pydantic import Field

from trainstack.settings.base import DnsLabel, Section
from trainstack.settings.values.field_paths import FieldPath


class ObjectPods(Section):
    """Where the object has the pods of one role."""

    name: DnsLabel
    """The role, by Kueue's name of the pod set."""
    template: FieldPath
    """The path of the pod template, such as `spec.jaxReplicaSpecs.Worker.template`. The template is built from the
    workload's settings."""
    replicas: FieldPath | None = None
    """The path of the number of pods; None: there is one."""


class KueueObject(Section):
    """An object of a kind that Kueue queues. Its conditions, or its phase, show how it has ended: `Complete`,
    `Completed`, `Succeeded` or `Failed`. Kueue suspends it by `spec.suspend` or `spec.runPolicy.suspend`."""

    api_version: Annotated[str, Field(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+/v[a-z0-9]+$")]
    kind: Annotated[str, Field(pattern="^[A-Z][A-Za-z0-9]*$", max_length=63)]
    framework: Annotated[str, Field(pattern=r"^[a-z0-9./-]+$")]
    """Kueue's name of the integration, such as `kubeflow.org/jaxjob`."""
    spec: dict[str, Any] = Field(default_factory=dict)
    """The object's `spec` without its pods."""
    pods: Annotated[tuple[ObjectPods, ...], Field(min_length=1)]
    """The pods in the order of Kueue's pod sets."""
