"""Operators as a site's owner has installed them: their releases, cut to the size of this machine."""

from dataclasses import dataclass

import yaml

from devcluster.errors import ClusterError
from devcluster.images.catalog import INIT_PYTORCH
from devcluster.sites.kubectl import TIMEOUT_SECONDS, Kubectl, Manifest
from toolchain import manifests


@dataclass(frozen=True)
class Operator:
    """Where an operator's controller is."""

    name: str
    namespace: str
    deployment: str


OPERATORS = {
    "kueue": Operator("kueue", "kueue-system", "kueue-controller-manager"),
    "training-operator": Operator("training-operator", "kubeflow", "training-operator"),
}
INIT_CONFIG_MAP = "init-container"
# The release's own gives up where one of the search domains misses, as all but one must. What nslookup prints decides:
# `Name:` begins an answer. The operator takes this for HTML's template language: no `<` in it.
INIT_CONTAINER = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  command: [sh, -c, 'until nslookup {{.MasterAddr}} 2>/dev/null | grep -q "^Name:"; do sleep 1; done']
  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true}
"""


def install(kubectl: Kubectl, name: str) -> None:
    """Have an operator installed and ready. One that is there already is left as it is, whoever installed it."""
    operator = OPERATORS[name]
    if not kubectl.exists("deployment", operator.deployment, operator.namespace):
        objects = list(yaml.load_all(manifests.path(name).read_text(), Loader=yaml.CSafeLoader))
        controllers = [each for each in objects if each["kind"] == "Deployment"]
        adapt(operator, controllers)
        if name == "training-operator":
            objects.append(_init_config_map(operator))
        # The controller comes last: where it is there, so is everything else.
        kubectl.apply([each for each in objects if each["kind"] == "Namespace"])
        kubectl.apply([each for each in objects if each["kind"] not in ("Namespace", "Deployment")])
        kubectl.apply(controllers)
    wait = ("rollout", "status", "deployment", operator.deployment, "-n", operator.namespace)
    kubectl(*wait, f"--timeout={TIMEOUT_SECONDS:.0f}s")


def adapt(operator: Operator, controllers: list[Manifest]) -> None:
    """Change a release's controller for this machine: it is asked how it is every second, and requests no cpu.

    Two cores hold the whole cluster, and a reference's training asks for two.
    """
    deployment = next((each for each in controllers if each["metadata"]["name"] == operator.deployment), None)
    if deployment is None:
        raise ClusterError(f"the release of {operator.name} has no Deployment {operator.deployment}")
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
    resources = container.setdefault("resources", {})
    resources["requests"] = resources.get("requests", {}) | {"cpu": "0"}
    if operator.name == "training-operator":
        container["args"] = [*container.get("args", []), f"--pytorch-init-container-image={INIT_PYTORCH}"]
        container["volumeMounts"].append({"name": "init-container", "mountPath": "/etc/config", "readOnly": True})
        pod["volumes"].append({"name": "init-container", "configMap": {"name": INIT_CONFIG_MAP}})


def _init_config_map(operator: Operator) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": INIT_CONFIG_MAP, "namespace": operator.namespace},
        "data": {"initContainer.yaml": INIT_CONTAINER},
    }
