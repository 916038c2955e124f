"""Objects that a dispatched launch needs in its worker cluster, where MultiKueue creates only the launch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import QUEUE
from trainstack.runs.manifests.launched_pods import launched_pods

Body = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class Need:
    """An object, or a served kind, that a launch needs in a worker cluster."""

    kind: str
    namespace: str
    name: str
    """Empty if the cluster has to serve the kind."""
    api_version: str = "v1"

    def __str__(self) -> str:
        if not self.name:
            return f"kind {self.kind}"
        return f"{self.kind} {self.name}" if self.kind == "Namespace" else f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class WorkerCluster:
    """State of a worker cluster, as far as this user could read it."""

    missing: frozenset[Need] = frozenset()
    unreadable: frozenset[Need] = frozenset()
    """Needs that these credentials cannot read."""
    problem: str = ""
    """Reason why the cluster was not read; empty if it was read."""
    remedy: str = ""
    """Remedy of the problem; empty for a general remedy."""


def launch_needs(launch: Body) -> tuple[Need, ...]:
    """Return the needs of a launch. The first one is its namespace."""
    namespace = launch["metadata"]["namespace"]
    return (
        Need("Namespace", namespace, namespace),
        Need(launch["kind"], namespace, "", launch["apiVersion"]),
        Need("LocalQueue", namespace, launch["metadata"]["labels"][QUEUE], "kueue.x-k8s.io/v1beta2"),
        *(Need(kind, namespace, name) for kind, name in sorted({*_referenced_objects(launch)})),
    )


def _referenced_objects(launch: Body) -> Iterator[tuple[str, str]]:
    for pods in launched_pods(launch):
        spec = pods.spec
        yield from _volume_objects(spec)
        yield from (("Secret", secret["name"]) for secret in spec.get("imagePullSecrets") or ())
        if account := spec.get("serviceAccountName"):
            yield "ServiceAccount", account
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if reference and not reference.get("optional"):
                    yield "Secret", reference["name"]


def _volume_objects(spec: Body) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield "PersistentVolumeClaim", claim["claimName"]
        for kind, key, name in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
            if (source := volume.get(key)) and not source.get("optional"):
                yield kind, source[name]
