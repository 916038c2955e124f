"""The common parts of operators' installs: stages, ownership labels, and pods that a `restricted` namespace admits."""

import copy
import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from trainstack.errors import TrainstackError
from trainstack.objects.labels import CONFIG_HASH, RELEASE, SKIP_AWAIT, Manifest, ownership_labels
from trainstack.platform.namespaces import with_pod_security
from trainstack.settings.sections.operators import Install
from trainstack.settings.values.quantities import amount

NON_ROOT_USER = 65532
"""The user id of controllers: that of `nonroot` in the distroless base images of the releases."""
_STAGE_BY_KIND = {"CustomResourceDefinition": "crds", "Deployment": "deployments", "APIService": "extensions"}
_VERSIONED_KINDS = ("CustomResourceDefinition", "Deployment")
_SETUP_ORDER = {"Namespace": 0, "ServiceAccount": 1, "ConfigMap": 2, "Secret": 2}
"""Objects that others refer to come first; the default is 3."""


class OperatorError(TrainstackError):
    """A release without an object that its install needs."""


@dataclass(frozen=True, kw_only=True)
class OperatorManifests:
    """The objects of one operator by stage. Each stage must be ready before the next one is created."""

    crds: tuple[Manifest, ...]
    setup: tuple[Manifest, ...]
    """Namespace, rights, configuration, Services and webhook configurations. The controller writes the CA bundles of
    the latter before it is ready."""
    deployments: tuple[Manifest, ...]
    """The controllers, which are ready when their webhooks answer."""
    extensions: tuple[Manifest, ...]
    """APIServices. They are created last and deleted first: an aggregated API that does not answer breaks discovery and
    the deletion of namespaces in the whole cluster."""

    def after_crds(self) -> tuple[Manifest, ...]:
        """Return all objects except the CRDs, in the order of their installation."""
        return (*self.setup, *self.deployments, *self.extensions)


def manifests_in_order(operators: Iterable[OperatorManifests]) -> tuple[Manifest, ...]:
    """Return all objects of several operators in the order of their installation.

    All CRDs are first: Kueue lists the kinds that it manages when it starts, and retries with a backoff of up to two
    minutes.
    """
    operator_list = list(operators)
    return (
        *(crd for operator in operator_list for crd in operator.crds),
        *(manifest for operator in operator_list for manifest in operator.after_crds()),
    )


def stage_manifests(
    manifests: Iterable[Manifest], stack: str, version: str, declared_namespaces: Collection[str] = ()
) -> OperatorManifests:
    """Sort an operator's objects by stage, and label them with their owner; CRDs and controllers also with the release.

    `declared_namespaces`: the namespaces that the environment itself declares, which are left out.
    """
    stages: defaultdict[str, list[Manifest]] = defaultdict(list)
    for manifest in manifests:
        kind, meta = manifest["kind"], manifest["metadata"]
        labels = meta.get("labels", {})
        if kind == "Namespace":
            if meta["name"] in declared_namespaces:
                continue
            labels = with_pod_security(labels)
        labels = {**labels, **ownership_labels(stack)}
        if kind in _VERSIONED_KINDS:
            labels[RELEASE] = version
        metadata = {**meta, "labels": labels}
        if kind == "Service":
            # The provider would wait ten seconds for more endpoints; the probe of the webhooks waits for the first one.
            metadata["annotations"] = {**meta.get("annotations", {}), SKIP_AWAIT: "true"}
        stages[_STAGE_BY_KIND.get(kind, "setup")].append({**_with_default_scopes(manifest), "metadata": metadata})
    setup = sorted(stages["setup"], key=lambda manifest: _SETUP_ORDER.get(manifest["kind"], 3))
    return OperatorManifests(
        crds=tuple(stages["crds"]),
        setup=tuple(setup),
        deployments=tuple(stages["deployments"]),
        extensions=tuple(stages["extensions"]),
    )


def pin_images(operator: OperatorManifests, pin: Callable[[str], str]) -> OperatorManifests:
    """Replace each image of the operator's controllers by the result of `pin`."""
    deployments = copy.deepcopy(operator.deployments)
    for deployment in deployments:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            image = pin(container["image"])
            if image != container["image"]:
                container["image"], container["imagePullPolicy"] = image, "IfNotPresent"
    return replace(operator, deployments=deployments)


def find_manifest(manifests: Iterable[Manifest], kind: str, name: str) -> Manifest:
    """Return the object of a release with this kind and name. Raises OperatorError if the release has none."""
    for manifest in manifests:
        if manifest["kind"] == kind and manifest["metadata"]["name"] == name:
            return manifest
    raise OperatorError(
        f"the release manifest has no {kind} {name}; use the manifest of a release that has one "
        "(section trainstack:operators, manifest)"
    )


def keep_webhooks(manifest: Manifest, is_needed: Callable[[Manifest], bool]) -> Manifest:
    """Keep only the webhooks of a configuration that have a needed rule."""
    needed_webhooks = [webhook for webhook in manifest["webhooks"] if any(map(is_needed, webhook["rules"]))]
    return {**manifest, "webhooks": needed_webhooks}


def adapt_controller(
    deployment: Manifest, install: Install, *, container_name: str, args: Sequence[str] = (), config: str
) -> Manifest:
    """Adapt a controller's Deployment: one replica, hardened, restarted when its configuration changes.

    Args:
        deployment: the Deployment of the release.
        install: the image, its pull Secrets and the requests, which raise lower limits.
        container_name: the container that runs the controller.
        args: arguments to add to those of the release.
        config: the configuration, whose hash becomes an annotation of the pods.

    """
    result = copy.deepcopy(deployment)
    result["spec"]["replicas"] = 1
    template = result["spec"]["template"]
    template["metadata"].setdefault("annotations", {})[CONFIG_HASH] = short_hash(config)
    pod = template["spec"]
    # Pod Security `restricted` requires these fields, and releases do not set all of them.
    pod["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": NON_ROOT_USER,
        "seccompProfile": {"type": "RuntimeDefault"},
        **pod.get("securityContext", {}),
    }
    for container_spec in pod["containers"]:
        container_spec["securityContext"] = {
            **container_spec.get("securityContext", {}),
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        for variable in container_spec.get("env", ()):
            # The API server's default, for the reason in `_with_default_scopes`.
            if "fieldRef" in variable.get("valueFrom", {}):
                variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    manager = next(
        (container_spec for container_spec in pod["containers"] if container_spec["name"] == container_name), None
    )
    if manager is None:
        raise OperatorError(
            f"Deployment {result['metadata']['name']} of the release has no container {container_name}; use the "
            "manifest of a release that has one (section trainstack:operators, manifest)"
        )
    if install.image is not None:
        # The release pulls `Always`, since its tag may move. A declared image does not move.
        manager["image"], manager["imagePullPolicy"] = install.image, "IfNotPresent"
    if args:
        manager["args"] = [*manager.get("args", []), *args]
    if install.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in install.image_pull_secrets]
    for resource, quantity in install.requests.model_dump(exclude_none=True).items():
        resources = manager.setdefault("resources", {})
        resources.setdefault("requests", {})[resource] = quantity
        limits = resources.get("limits", {})
        if resource in limits and amount(str(limits[resource])) < amount(quantity):
            limits[resource] = quantity
    return result


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _with_default_scopes(manifest: Manifest) -> Manifest:
    """Add the API server's default scope to webhook rules.

    Under server-side apply, a list that differs from the live one is a conflict, so a stack with a lost state, or after
    an interrupted `up`, could not apply its own objects again.
    """
    if not manifest["kind"].endswith("WebhookConfiguration"):
        return manifest
    webhooks = [
        {**webhook, "rules": [{"scope": "*", **rule} for rule in webhook["rules"]]} for webhook in manifest["webhooks"]
    ]
    return {**manifest, "webhooks": webhooks}
