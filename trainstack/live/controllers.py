"""The controllers of operators on a cluster: Deployments, and pods of any other owner.

Releases and charts install a controller as a Deployment. Distributions need not: Charmed Kubeflow runs the training
operator in a StatefulSet, whose pod `training-operator-0` has a second container and none of the release's labels. So a
controller without a Deployment is looked for among pods. Only pods with a label that controllers bear are listed: a
shared cluster has thousands of others. Finding runs takes the right to list pods in all namespaces already; a list of
StatefulSets would take a further right, and still miss owners of other kinds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, Answer
from trainstack.preflight.operator_facts import OperatorFacts

Body = Mapping[str, Any]
DEPLOYMENTS = "/apis/apps/v1/deployments"
_SELECTORS = (
    "control-plane in (controller-manager,kubeflow-training-operator)",
    "app.kubernetes.io/name in (jobset,kubeflow-trainer,kueue,trainer,training-operator)",
)
"""Labels that pods of controllers have, by their releases, charts and charms. A selector cannot say "or"."""
PODS = tuple(f"{paths.collection('v1', 'Pod', None)}?labelSelector={quote(each)}" for each in _SELECTORS)
LISTS = (DEPLOYMENTS, *PODS)


@dataclass(frozen=True)
class Controller:
    """An operator's controller."""

    kind: Literal["Deployment", "Pod"]
    body: Body
    """The Deployment; else a pod, a ready one if there is one."""
    container: Body
    """The one that runs the controller: a proxy or a supervisor may run in the same pod."""
    pods: tuple[Body, ...] = ()
    """All pods of the controller where they are known, which is where they have no Deployment."""

    @property
    def namespace(self) -> str:
        """Where it runs."""
        return str(self.body["metadata"]["namespace"])

    @property
    def pod_spec(self) -> Body:
        """The spec of its pods."""
        spec: Body = self.body["spec"]
        return spec["template"]["spec"] if self.kind == "Deployment" else spec

    @property
    def ready(self) -> bool:
        """Whether one of its pods is ready."""
        if self.kind == "Deployment":
            return bool((self.body.get("status") or {}).get("readyReplicas"))
        return _ready(self.body)


@dataclass(frozen=True)
class Controllers:
    """Where controllers are looked for."""

    deployments: tuple[Body, ...]
    """All of the cluster."""
    pods: tuple[Body, ...]
    """Those with a label of `_SELECTORS`."""

    def find(self, facts: OperatorFacts) -> Controller | None:
        """An operator's controller, in whatever namespace: its Deployment, by name if possible, else its pods."""
        for body in sorted(self.deployments, key=lambda body: body["metadata"]["name"] not in facts.names):
            name, containers = body["metadata"]["name"], body["spec"]["template"]["spec"]["containers"]
            if container := _container(facts, _labels(body), containers, by_name=name in facts.names):
                return Controller("Deployment", body, container)
        pods = sorted(filter(_may_serve, self.pods), key=lambda pod: not _ready(pod))
        found = [(pod, _container(facts, _labels(pod), pod["spec"]["containers"])) for pod in pods]
        of_it = [(pod, container) for pod, container in found if container]
        return Controller("Pod", *of_it[0], tuple(pod for pod, _ in of_it)) if of_it else None


def controllers(answers: Mapping[str, Answer]) -> Controllers | None:
    """Where to look, by the answers to LISTS; None where one of them may not be read."""
    lists = [answers[path] for path in LISTS]
    if any(not answer.found and answer.status != NOT_FOUND for answer in lists):
        return None
    deployments, *pods = ([*answer.body.get("items", ())] for answer in lists)
    # A pod may have both labels.
    distinct = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for found in pods for pod in found}
    return Controllers(tuple(deployments), tuple(distinct.values()))


def split_image(image: str) -> tuple[str, str]:
    """The last part of an image's repository, and its tag: `registry:5000/kueue/kueue:v1@sha256:…` is `kueue`, `v1`."""
    name, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    return name, tag


def _container(
    facts: OperatorFacts, labels: Mapping[str, str], containers: Sequence[Body], *, by_name: bool = False
) -> Body | None:
    """The container that runs the operator's controller; the main one where the labels, or `by_name`, tell it alone."""
    for container in containers:
        if split_image(container["image"])[0] in facts.images or container["name"] in facts.names:
            return container
    if by_name or facts.labels.items() <= labels.items():
        return next((container for container in containers if container["name"] == "manager"), containers[0])
    return None


def _labels(body: Body) -> Mapping[str, str]:
    return body["metadata"].get("labels") or {}


def _may_serve(pod: Body) -> bool:
    """Whether a pod is not of a Deployment, whose own list tells of it, and has neither ended nor is being deleted."""
    metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
    of_deployment = any(owner["kind"] == "ReplicaSet" for owner in metadata.get("ownerReferences") or ())
    return not of_deployment and "deletionTimestamp" not in metadata and phase not in ("Succeeded", "Failed")


def _ready(pod: Body) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
