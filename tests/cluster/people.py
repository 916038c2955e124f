"""Users with kubeconfigs, and the objects that they create by hand."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.project import ROOT, CommandResult, eventually
from tests.cluster.reader import reader
from trainstack.toolchain import tools

NAMESPACE, QUEUE = "eidf001", "eidf001-user-queue"
"""The namespace and the queue of the GPU service's tenant."""
PRODUCT = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
"""The product of the service's GPUs."""
OTHER_PRODUCT = "NVIDIA-H100-80GB-HBM3"
"""The product of its simulated node."""


def cluster_command(*words: str) -> CommandResult:
    """Run `trainstack cluster …`, which builds missing images of sites first."""
    command = [sys.executable, "-m", "trainstack.cli", "cluster", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    return CommandResult(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Person:
    """A user with a kubeconfig."""

    kubeconfig: Path

    def kubectl(self, *words: str, body: dict[str, Any] | None = None) -> CommandResult:
        """Run kubectl, with `body` as its input."""
        command = [str(tools.program("kubectl")), f"--kubeconfig={self.kubeconfig}", *words]
        done = subprocess.run(
            [*command, *(["-f", "-"] if body else [])],
            input=json.dumps(body) if body else None, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object and return it as stored. Fails if it is refused."""
        done = self.kubectl("create", "-o", "json", body=body)
        assert done.code == 0, done.text
        return dict(json.loads(done.out))

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        """Return a live object, or {} if it does not exist."""
        return reader(self.kubeconfig).get(kind, name, namespace)

    def items(self, kinds: str, namespace: str = "", selector: str = "") -> list[dict[str, Any]]:
        """Return the live objects of comma-separated kinds, in a namespace or in all."""
        return [body for kind in kinds.split(",") for body in reader(self.kubeconfig).list(kind, namespace, selector)]

    def patch(self, kind: str, name: str, change: dict[str, Any]) -> None:
        """Patch a live cluster-scoped object."""
        done = self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(change))
        assert done.code == 0, done.text

    def pods(self, selector: str, namespace: str) -> list[dict[str, Any]]:
        """Return the pods with a label."""
        return self.items("pods", namespace, selector)

    def await_succeeded(self, selector: str, namespace: str, count: int) -> dict[str, str]:
        """Wait until this number of pods with a label has succeeded, and return their logs by pod."""

        def found() -> list[dict[str, Any]]:
            pods = self.pods(selector, namespace)
            failed = [pod for pod in pods if pod["status"]["phase"] == "Failed"]
            assert not failed, [self.kubectl("logs", "-n", namespace, pod["metadata"]["name"]).text for pod in failed]
            return pods if sum(pod["status"]["phase"] == "Succeeded" for pod in pods) == count else []

        pods = eventually(f"{count} pods {selector} succeeded", found, 180, every=0.2)
        names = [pod["metadata"]["name"] for pod in pods]
        return {name: self.kubectl("logs", "-n", namespace, name).out for name in names}


def make_job(
    name: str = "pytorch-job-",
    command: str = "true",
    image: str = "busybox",
    *,
    claim: str = "",
    requests: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a Job of the tenant on its queue, with the claim at /mnt/ceph and the further fields `spec`."""
    resources = {"requests": requests or {"cpu": "10m", "memory": "16Mi"}, "limits": limits or {}}
    container: dict[str, Any] = {"name": "main", "image": image, "resources": resources}
    container["command"] = ["sh", "-c", command]
    # Process 1 ignores SIGTERM without a handler, so a deletion would wait for the grace period.
    pod: dict[str, Any] = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    if claim:
        pod["volumes"] = [{"name": "volume", "persistentVolumeClaim": {"claimName": claim}}]
        container["volumeMounts"] = [{"name": "volume", "mountPath": "/mnt/ceph"}]
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"completions": 1, "backoffLimit": 0, **spec, "template": {"spec": pod}},
    }


def make_claim(name: str, storage_class: str, mode: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """Return a claim of 1Gi."""
    size = {"requests": {"storage": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"storageClassName": storage_class, "accessModes": [mode], "resources": size, **spec},
    }


def make_pod(name: str, image: str, *, args: tuple[str, ...] = (), claim: str = "", **container: Any) -> dict[str, Any]:
    """Return a pod that runs an image's entry point, with the claim at /data."""
    made: dict[str, Any] = {"name": "main", "image": image, "args": list(args), **container}
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [made]}
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        made.setdefault("volumeMounts", [{"name": "data", "mountPath": "/data"}])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"test": name}},
        "spec": spec,
    }


def make_pytorchjob(name: str, image: str, workers: int, *args: str) -> dict[str, Any]:
    """Return a PyTorchJob of one master and some workers that run an image's entry point."""
    container = {"name": "pytorch", "image": image, "args": list(args), "imagePullPolicy": "IfNotPresent"}
    replica = {"restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    replicas = {"Master": {"replicas": 1, **replica}, "Worker": {"replicas": workers, **replica}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"pytorchReplicaSpecs": replicas},
    }
