"""Operators as a site's owner has installed them: their releases, cut to the size of this machine."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import yaml

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.images.catalog import INIT_PYTORCH
from trainstack.dev.cluster.sites.kubectl import TIMEOUT_SECONDS, Kubectl, Manifest
from trainstack.dev.toolchain import manifests


@dataclass(frozen=True)
class Operator:
    """Where an operator's controller is."""

    name: str
    namespace: str
    controller: str
    """The name of the controller's Deployment in the release."""


OPERATORS = {
    "kueue": Operator("kueue", "kueue-system", "kueue-controller-manager"),
    "training-operator": Operator("training-operator", "kubeflow", "training-operator"),
}
KINDS = ("Deployment", "StatefulSet")
"""What can own a controller's pods here."""
INIT_CONFIG_MAP = "init-container"
# The release's own gives up where one of the search domains misses, as all but one must. What nslookup prints decides:
# `Name:` begins an answer. The operator takes this for HTML's template language: no `<` in it.
INIT_CONTAINER = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  command: [sh, -c, 'until nslookup {{.MasterAddr}} 2>/dev/null | grep -q "^Name:"; do sleep 1; done']
  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true}
"""
SUPERVISOR = "trap exit TERM; sleep infinity & wait"
"""Here it only runs beside the controller: what a charm does is done by the release's objects."""


def install(kubectl: Kubectl, name: str, kind: str = "Deployment") -> None:
    """Have an operator installed and ready, by default as its release has it, else as another of KINDS.

    One that is there already is left as it is, whoever installed it, and in whichever form.
    """
    operator = OPERATORS[name]
    there = [each for each in KINDS if kubectl.exists(each.lower(), operator.controller, operator.namespace)]
    if not there:
        objects = list(yaml.load_all(manifests.path(name).read_text(), Loader=yaml.CSafeLoader))
        adapt(operator, [each for each in objects if each["kind"] == "Deployment"])
        if name == "training-operator":
            objects.append(_init_config_map(operator))
        if kind == "StatefulSet":
            objects = list(as_stateful_set(operator, objects))
        # The controller comes last: where it is there, so is everything else.
        kubectl.apply([each for each in objects if each["kind"] == "Namespace"])
        kubectl.apply([each for each in objects if each["kind"] not in ("Namespace", *KINDS)])
        kubectl.apply([each for each in objects if each["kind"] in KINDS])
    wait = ("rollout", "status", (*there, kind)[0].lower(), operator.controller, "-n", operator.namespace)
    kubectl(*wait, f"--timeout={TIMEOUT_SECONDS:.0f}s")


def adapt(operator: Operator, controllers: list[Manifest]) -> None:
    """Change a release's controller for this machine: it is asked how it is every second, and requests no cpu.

    Two cores hold the whole cluster, and a reference's training asks for two.
    """
    deployment = next((each for each in controllers if each["metadata"]["name"] == operator.controller), None)
    if deployment is None:
        raise ClusterError(f"the release of {operator.name} has no Deployment {operator.controller}")
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
    resources = container.setdefault("resources", {})
    resources["requests"] = resources.get("requests", {}) | {"cpu": "0"}
    if operator.name == "training-operator":
        container["args"] = [*container.get("args", []), f"--pytorch-init-container-image={INIT_PYTORCH}"]
        container["volumeMounts"].append({"name": "init-container", "mountPath": "/etc/config", "readOnly": True})
        pod["volumes"].append({"name": "init-container", "configMap": {"name": INIT_CONFIG_MAP}})


def as_stateful_set(operator: Operator, objects: Iterable[Manifest]) -> Iterator[Manifest]:
    """The objects of a release as Charmed Kubeflow runs them: the controller in a StatefulSet, after a supervisor.

    The pods have one label of the charm's, and none of the release's; Services select them by it. Source:
    https://github.com/canonical/training-operator, metadata.yaml, and Juju's caas/kubernetes/provider/application.
    """
    labels = {"app.kubernetes.io/name": operator.controller}
    for each in objects:
        spec = each.get("spec", {})
        if each["kind"] == "Service":
            yield {**each, "spec": {**spec, "selector": labels}}
        elif each["kind"] == "Deployment":
            pod = spec["template"]["spec"]
            supervisor = {"name": "charm", "image": INIT_PYTORCH, "command": ["sh", "-c", SUPERVISOR]}
            containers = [supervisor, *({**container, "name": operator.name} for container in pod["containers"])]
            yield {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {**each["metadata"], "labels": labels},
                "spec": {
                    "serviceName": operator.controller,
                    "replicas": 1,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {**pod, "containers": containers}},
                },
            }
        else:
            yield each


def _init_config_map(operator: Operator) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": INIT_CONFIG_MAP, "namespace": operator.namespace},
        "data": {"initContainer.yaml": INIT_CONTAINER},
    }
