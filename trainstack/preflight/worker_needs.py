"""What a dispatched launch needs in its worker cluster, where MultiKueue creates nothing but the launch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import QUEUE
from trainstack.runs.manifests.launched_pods import launched_pods

Body = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class Need:
    """An object of a worker cluster."""

    kind: str
    namespace: str
    name: str
    """Empty for a kind that the cluster has to serve."""
    api_version: str = "v1"

    def __str__(self) -> str:
        if not self.name:
            return f"kind {self.kind}"
        return f"{self.kind} {self.name}" if self.kind == "Namespace" else f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class WorkerCluster:
    """A read of a worker cluster."""

    missing: frozenset[Need] = frozenset()
    unreadable: frozenset[Need] = frozenset()
    """What these credentials may not read."""
    problem: str = ""
    """Why the cluster was not read; empty if it was."""
    remedy: str = ""
    """Of the problem."""


def needs(launch: Body) -> tuple[Need, ...]:
    """What a launch needs, the namespace first."""
    namespace = launch["metadata"]["namespace"]
    return (
        Need("Namespace", namespace, namespace),
        Need(launch["kind"], namespace, "", launch["apiVersion"]),
        Need("LocalQueue", namespace, launch["metadata"]["labels"][QUEUE], "kueue.x-k8s.io/v1beta2"),
        *(Need(kind, namespace, name) for kind, name in sorted({*_references(launch)})),
    )


def _references(launch: Body) -> Iterator[tuple[str, str]]:
    for pods in launched_pods(launch):
        spec = pods.spec
        yield from _volumes(spec)
        yield from (("Secret", secret["name"]) for secret in spec.get("imagePullSecrets") or ())
        if account := spec.get("serviceAccountName"):
            yield "ServiceAccount", account
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if reference and not reference.get("optional"):
                    yield "Secret", reference["name"]


def _volumes(spec: Body) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield "PersistentVolumeClaim", claim["claimName"]
        for kind, key, name in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
            if (source := volume.get(key)) and not source.get("optional"):
                yield kind, source[name]
