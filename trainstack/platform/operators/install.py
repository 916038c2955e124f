"""What the operators' installs have in common: stages, our mark, and pods that a `restricted` namespace accepts."""

import copy
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainstack.objects.labels import CONFIG_HASH, RELEASE, Manifest, mark
from trainstack.platform.namespaces import with_pod_security
from trainstack.settings.sections.operators import Install
from trainstack.settings.values.quantities import amount

NON_ROOT = 65532
"""The user id that controllers run as: `nonroot` of the distroless images that both releases are built on."""


class OperatorError(ValueError):
    """A release that does not hold what an install of it needs."""


@dataclass(frozen=True, kw_only=True)
class OperatorManifests:
    """The objects of one operator, by the stage they are installed in: each stage stands before the next begins."""

    crds: tuple[Manifest, ...]
    setup: tuple[Manifest, ...]
    """Namespace, rights, configuration, Services and webhook configurations. The controller is not ready before it has
    written its certificate's authority into the latter."""
    deployments: tuple[Manifest, ...]
    """The controllers. Ready once their webhooks answer."""
    extensions: tuple[Manifest, ...]
    """APIServices: an aggregated API that does not answer yet breaks discovery and the deletion of namespaces for
    everybody, so they come last and, on destroy, go first."""

    def after_crds(self) -> tuple[Manifest, ...]:
        """All objects but the definitions, in the order of their installation."""
        return (*self.setup, *self.deployments, *self.extensions)


def in_order(operators: Iterable[OperatorManifests]) -> tuple[Manifest, ...]:
    """All objects of several operators, in the order of their installation.

    Definitions come first, those of all operators: Kueue looks for the kinds that it manages when it starts, and for
    those that it did not find ever more seldom, up to two minutes apart.
    """
    several = list(operators)
    return (
        *(each for operator in several for each in operator.crds),
        *(each for operator in several for each in operator.after_crds()),
    )


def staged(objects: Iterable[Manifest], stack: str, declared_namespaces: Iterable[str]) -> OperatorManifests:
    """Sort an operator's objects by stage and put our mark on each.

    A namespace that the environment declares itself is left to it.
    """
    theirs = set(declared_namespaces)
    marked = [
        _marked(_secured(_all_scopes(manifest)), stack)
        for manifest in objects
        if not (manifest["kind"] == "Namespace" and manifest["metadata"]["name"] in theirs)
    ]
    stages = {"CustomResourceDefinition": "crds", "Deployment": "deployments", "APIService": "extensions"}

    def stage(name: str) -> tuple[Manifest, ...]:
        return tuple(manifest for manifest in marked if stages.get(manifest["kind"], "setup") == name)

    # The namespace first, and then what refers to what the others are.
    order = {"Namespace": 0, "ServiceAccount": 1, "ConfigMap": 2, "Secret": 2}
    setup = sorted(stage("setup"), key=lambda manifest: order.get(manifest["kind"], 3))
    return OperatorManifests(
        crds=stage("crds"), setup=tuple(setup), deployments=stage("deployments"), extensions=stage("extensions")
    )


def of_release(operator: OperatorManifests, version: str) -> OperatorManifests:
    """The operator with its release on what stays of it (its definitions) and on what runs (its controllers)."""

    def told(manifest: Manifest) -> Manifest:
        meta = manifest["metadata"]
        return {**manifest, "metadata": {**meta, "labels": {**meta.get("labels", {}), RELEASE: version}}}

    return replace(operator, crds=tuple(map(told, operator.crds)), deployments=tuple(map(told, operator.deployments)))


def pinned(operator: OperatorManifests, pin: Callable[[str], str]) -> OperatorManifests:
    """The operator with the images of its controllers as `pin` gives them. What has a digest is pulled once."""
    return replace(operator, deployments=tuple(_pinned(each, pin) for each in operator.deployments))


def find(objects: Iterable[Manifest], kind: str, name: str) -> Manifest:
    """The object of a release with this kind and name.

    Raises OperatorError when the release has none: then it is another release than this code knows how to install.
    """
    for manifest in objects:
        if manifest["kind"] == kind and manifest["metadata"]["name"] == name:
            return manifest
    raise OperatorError(
        f"the release manifest holds no {kind} {name}; give the manifest of a release that has one "
        "(section trainstack:operators, manifest)"
    )


def controller(
    deployment: Manifest,
    declared: Install,
    *,
    container: str,
    args: Sequence[str] = (),
    config: str,
) -> Manifest:
    """A controller's Deployment, adapted: one replica, hardened, restarted by a change of its configuration.

    Args:
        deployment: the release's own; not changed.
        declared: its image, and with what it is pulled, and its requests, where they differ from the release. A lower
            limit rises to the request.
        container: the name of the controller's container.
        args: arguments to add.
        config: the configuration's text, whose hash goes onto the pods.

    """
    result = copy.deepcopy(deployment)
    result["spec"]["replicas"] = 1
    template = result["spec"]["template"]
    template["metadata"].setdefault("annotations", {})[CONFIG_HASH] = short_hash(config)
    pod = template["spec"]
    pod["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": NON_ROOT,
        "seccompProfile": {"type": "RuntimeDefault"},
        **pod.get("securityContext", {}),
    }
    for each in pod["containers"]:
        each["securityContext"] = {
            **each.get("securityContext", {}),
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        for variable in each.get("env", ()):
            # What the API server fills in, for the reason that `_all_scopes` gives.
            if "fieldRef" in variable.get("valueFrom", {}):
                variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    manager = next((each for each in pod["containers"] if each["name"] == container), None)
    if manager is None:
        raise OperatorError(
            f"Deployment {result['metadata']['name']} of the release has no container {container}; give the manifest "
            "of a release that has one (section trainstack:operators, manifest)"
        )
    if declared.image is not None:
        # The release pulls `Always`, for its moving tag; an image that we name does not move.
        manager["image"], manager["imagePullPolicy"] = declared.image, "IfNotPresent"
    if args:
        manager["args"] = [*manager.get("args", []), *args]
    if declared.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in declared.image_pull_secrets]
    _request(manager, "cpu", declared.requests.cpu)
    _request(manager, "memory", declared.requests.memory)
    return result


def _pinned(deployment: Manifest, pin: Callable[[str], str]) -> Manifest:
    result = copy.deepcopy(deployment)
    for each in result["spec"]["template"]["spec"]["containers"]:
        image = pin(each["image"])
        if image != each["image"]:
            each["image"], each["imagePullPolicy"] = image, "IfNotPresent"
    return result


def short_hash(text: str) -> str:
    """16 hexadecimal digits of a text's sha256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _request(container: dict[str, Any], resource: str, quantity: str | None) -> None:
    if quantity is None:
        return
    resources = container.setdefault("resources", {})
    resources.setdefault("requests", {})[resource] = quantity
    limits = resources.get("limits", {})
    if resource in limits and amount(str(limits[resource])) < amount(quantity):
        limits[resource] = quantity


def _all_scopes(manifest: Manifest) -> Manifest:
    """Webhook rules with the scope that the API server fills in.

    A list that differs from the live one is a conflict under server-side apply: a stack whose state was lost, or an
    `up` that was interrupted, could not be brought up again over its own objects.
    """
    if not manifest["kind"].endswith("WebhookConfiguration"):
        return manifest
    webhooks = [
        {**webhook, "rules": [{"scope": "*", **rule} for rule in webhook["rules"]]} for webhook in manifest["webhooks"]
    ]
    return {**manifest, "webhooks": webhooks}


def _secured(manifest: Manifest) -> Manifest:
    """A namespace that takes no pods but such as ours are."""
    if manifest["kind"] != "Namespace":
        return manifest
    meta = manifest["metadata"]
    return {**manifest, "metadata": {**meta, "labels": with_pod_security(meta.get("labels", {}))}}


def _marked(manifest: Manifest, stack: str) -> Manifest:
    meta = manifest["metadata"]
    return {**manifest, "metadata": {**meta, "labels": {**meta.get("labels", {}), **mark(stack)}}}
