"""The operators of a site, as its owner installs them: releases, adapted to the size of this machine."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import yaml

from trainstack.local_cluster.api import Manifest
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images.catalog import INIT_PYTORCH
from trainstack.local_cluster.sites.kubectl import TIMEOUT_SECONDS, Kubectl
from trainstack.toolchain import manifests


@dataclass(frozen=True)
class SiteOperator:
    """An operator that a site can have."""

    name: str
    namespace: str
    controller: str
    """Name of the controller's Deployment in the release."""


OPERATORS = {
    "kueue": SiteOperator("kueue", "kueue-system", "kueue-controller-manager"),
    "training-operator": SiteOperator("training-operator", "kubeflow", "training-operator"),
}
CONTROLLER_KINDS = ("Deployment", "StatefulSet")
"""Possible kinds of the owner of a controller's pods."""
INIT_CONFIG_MAP = "init-container"
# The container of the release fails if a search domain has no answer, which is normal. This one searches nslookup's
# output for an answer, which begins with `Name:`. The operator parses it as an HTML template: no `<` in it.
INIT_CONTAINER = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  command: [sh, -c, 'until nslookup {{.MasterAddr}} 2>/dev/null | grep -q "^Name:"; do sleep 1; done']
  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true}
"""
SUPERVISOR_COMMAND = "trap exit TERM; sleep infinity & wait"
"""The command of the charm's container, which does nothing: the release's objects replace the charm's actions."""


def install(kubectl: Kubectl, name: str, controller_kind: str = "Deployment") -> None:
    """Install an operator, and wait for its rollout. `controller_kind` is one of CONTROLLER_KINDS.

    An existing operator of any of these kinds stays unchanged. Raises LocalClusterError.
    """
    operator = OPERATORS[name]
    existing_kinds = [
        candidate_kind
        for candidate_kind in CONTROLLER_KINDS
        if kubectl.exists(candidate_kind.lower(), operator.controller, operator.namespace)
    ]
    if not existing_kinds:
        objects = list(yaml.load_all(manifests.manifest_path(name).read_text(), Loader=yaml.CSafeLoader))
        adapt_controller(operator, [manifest for manifest in objects if manifest["kind"] == "Deployment"])
        if name == "training-operator":
            objects.append(_init_config_map(operator))
        if controller_kind == "StatefulSet":
            objects = list(as_stateful_set(operator, objects))
        # The controller is applied last, so that everything else exists if it does.
        kubectl.apply([manifest for manifest in objects if manifest["kind"] == "Namespace"])
        kubectl.apply([manifest for manifest in objects if manifest["kind"] not in ("Namespace", *CONTROLLER_KINDS)])
        kubectl.apply([manifest for manifest in objects if manifest["kind"] in CONTROLLER_KINDS])
    wait_arguments = (
        "rollout",
        "status",
        (*existing_kinds, controller_kind)[0].lower(),
        operator.controller,
        "-n",
        operator.namespace,
    )
    kubectl(*wait_arguments, f"--timeout={TIMEOUT_SECONDS:.0f}s")


def adapt_controller(operator: SiteOperator, controllers: list[Manifest]) -> None:
    """Adapt a release's controller to this machine: probe readiness every second, and request no cpu.

    The whole cluster runs on two cores, and the training of a reference system requests two.
    """
    deployment = next(
        (manifest for manifest in controllers if manifest["metadata"]["name"] == operator.controller), None
    )
    if deployment is None:
        raise LocalClusterError(f"the release of {operator.name} has no Deployment {operator.controller}")
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
    resources = container.setdefault("resources", {})
    resources["requests"] = resources.get("requests", {}) | {"cpu": "0"}
    if operator.name == "training-operator":
        container["args"] = [*container.get("args", []), f"--pytorch-init-container-image={INIT_PYTORCH}"]
        container["volumeMounts"].append({"name": "init-container", "mountPath": "/etc/config", "readOnly": True})
        pod["volumes"].append({"name": "init-container", "configMap": {"name": INIT_CONFIG_MAP}})


def as_stateful_set(operator: SiteOperator, objects: Iterable[Manifest]) -> Iterator[Manifest]:
    """Yield a release's objects as Charmed Kubeflow runs them: the controller in a StatefulSet, after a supervisor.

    The pods have one of the charm's labels, by which Services select them. Source:
    https://github.com/canonical/training-operator, metadata.yaml, and Juju's caas/kubernetes/provider/application.
    """
    labels = {"app.kubernetes.io/name": operator.controller}
    for manifest in objects:
        spec = manifest.get("spec", {})
        if manifest["kind"] == "Service":
            yield {**manifest, "spec": {**spec, "selector": labels}}
        elif manifest["kind"] == "Deployment":
            pod = spec["template"]["spec"]
            supervisor = {"name": "charm", "image": INIT_PYTORCH, "command": ["sh", "-c", SUPERVISOR_COMMAND]}
            containers = [supervisor, *({**container, "name": operator.name} for container in pod["containers"])]
            yield {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {**manifest["metadata"], "labels": labels},
                "spec": {
                    "serviceName": operator.controller,
                    "replicas": 1,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {**pod, "containers": containers}},
                },
            }
        else:
            yield manifest


def _init_config_map(operator: SiteOperator) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": INIT_CONFIG_MAP, "namespace": operator.namespace},
        "data": {"initContainer.yaml": INIT_CONTAINER},
    }
