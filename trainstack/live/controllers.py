"""The controllers of a cluster's operators: Deployments, and pods with other owners.

Releases and charts install a controller as a Deployment, but distributions may not: Charmed Kubeflow runs the training
operator in a StatefulSet, whose pod `training-operator-0` has a second container and none of the release's labels. Only
pods with a controller's label are listed, since a shared cluster has thousands of others. A list of StatefulSets would
require a further right, and would miss owners of other kinds.
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
"""Labels of controllers' pods in releases, charts and charms, one list each: a selector cannot express `or`."""
CONTROLLER_POD_LISTS = tuple(
    f"{paths.collection_path('v1', 'Pod', None)}?labelSelector={quote(selector)}" for selector in _SELECTORS
)
CONTROLLER_LISTS = (DEPLOYMENTS, *CONTROLLER_POD_LISTS)


@dataclass(frozen=True)
class InstalledController:
    """A running controller of an operator."""

    kind: Literal["Deployment", "Pod"]
    body: Body
    """The Deployment, or else a pod, preferably a ready one."""
    container: Body
    """The controller's container: a proxy or a supervisor may run in the same pod."""
    pods: tuple[Body, ...] = ()
    """All pods of a controller without a Deployment."""

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"]["namespace"])

    @property
    def pod_spec(self) -> Body:
        spec: Body = self.body["spec"]
        return spec["template"]["spec"] if self.kind == "Deployment" else spec

    @property
    def is_ready(self) -> bool:
        if self.kind == "Deployment":
            return bool((self.body.get("status") or {}).get("readyReplicas"))
        return _is_ready(self.body)


@dataclass(frozen=True)
class InstalledControllers:
    """The objects of a cluster among which controllers are found."""

    deployments: tuple[Body, ...]
    """All Deployments of the cluster."""
    pods: tuple[Body, ...]
    """The pods with a label of `_SELECTORS`."""

    def find(self, facts: OperatorFacts) -> InstalledController | None:
        """Return an operator's Deployment, preferably by name, or else its pods, from any namespace; or None."""
        for body in sorted(self.deployments, key=lambda body: body["metadata"]["name"] not in facts.names):
            name, containers = body["metadata"]["name"], body["spec"]["template"]["spec"]["containers"]
            if container := _find_container(facts, _labels(body), containers, by_name=name in facts.names):
                return InstalledController("Deployment", body, container)
        pods = sorted(filter(_may_serve, self.pods), key=lambda pod: not _is_ready(pod))
        candidates = [(pod, _find_container(facts, _labels(pod), pod["spec"]["containers"])) for pod in pods]
        matches = [(pod, container) for pod, container in candidates if container]
        return InstalledController("Pod", *matches[0], tuple(pod for pod, _ in matches)) if matches else None


def parse_controllers(answers: Mapping[str, Answer]) -> InstalledControllers | None:
    """Return the objects of CONTROLLER_LISTS, or None if the user may not read one of the lists."""
    lists = [answers[path] for path in CONTROLLER_LISTS]
    if any(not answer.is_success and answer.status != NOT_FOUND for answer in lists):
        return None
    deployments, *pods = ([*answer.body.get("items", ())] for answer in lists)
    # A pod that has both labels is in both lists.
    distinct = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod_list in pods for pod in pod_list}
    return InstalledControllers(tuple(deployments), tuple(distinct.values()))


def split_image(image: str) -> tuple[str, str]:
    """Return the last part of an image's repository, and its tag: `kueue`, `v1` for `registry:5000/x/kueue:v1@…`."""
    name, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    return name, tag


def _find_container(
    facts: OperatorFacts, labels: Mapping[str, str], containers: Sequence[Body], *, by_name: bool = False
) -> Body | None:
    """Return the controller's container, or None if the object is not of this controller.

    The main container is returned if only the labels or the object's name (`by_name`) identify the controller.
    """
    for container in containers:
        if split_image(container["image"])[0] in facts.images or container["name"] in facts.names:
            return container
    if by_name or facts.labels.items() <= labels.items():
        return next((container for container in containers if container["name"] == "manager"), containers[0])
    return None


def _labels(body: Body) -> Mapping[str, str]:
    return body["metadata"].get("labels") or {}


def _may_serve(pod: Body) -> bool:
    """Return whether a pod belongs to no Deployment, has not ended and is not terminating."""
    metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
    of_deployment = any(owner["kind"] == "ReplicaSet" for owner in metadata.get("ownerReferences") or ())
    return not of_deployment and "deletionTimestamp" not in metadata and phase not in ("Succeeded", "Failed")


def _is_ready(pod: Body) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
