"""Reads of an environment's cluster for the preflight checks."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import yaml

from trainstack.kueue.feature_gates import parse_gate_arguments
from trainstack.live import paths
from trainstack.live.admission import has_node_autoscaler, read_admission_objects, read_topologies
from trainstack.live.client import NOT_FOUND, Answer, Api, ClusterError, connect, get_all, run
from trainstack.live.controllers import (
    CONTROLLER_LISTS,
    InstalledController,
    InstalledControllers,
    parse_controllers,
    split_image,
)
from trainstack.live.errors import status_message
from trainstack.live.webhooks import dry_run
from trainstack.objects.labels import RELEASE
from trainstack.platform import queues
from trainstack.platform.operators.kueue import CONFIG_KEY
from trainstack.preflight.live_context import CLUSTER_SCOPED, READ_BY_TENANTS, DryRun, LiveCluster, LiveOperator
from trainstack.preflight.live_rules.secrets import secret_references
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.runs.status.launch_kinds import KINDS, launch_kind, launch_version
from trainstack.runs.status.pods import pod_problems
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import CLUSTER_RUNTIME

Body = Mapping[str, Any]
_KUEUE_KINDS = ("AdmissionCheck", "ClusterQueue", "LocalQueue", "ResourceFlavor", "Topology", "WorkloadPriorityClass")
_STORAGE_KINDS = ("StorageClass",)
_LOCAL_PATH_IMAGE = "local-path-provisioner"


def read_environment(settings: Settings, manifests_with_paths: Sequence[tuple[str, Body]]) -> LiveCluster:
    """Return the state of an environment's cluster, and the results of dry runs that create objects.

    For a tenant's profile, only its namespaces and READ_BY_TENANTS are read.

    Args:
        settings: the environment.
        manifests_with_paths: the manifests of launches, each with the path of its setting.

    Raises ClusterError if the cluster cannot be reached. Objects that the user may not read count as unknown.

    """
    live = run(_read(settings))
    answers = run(dry_run([manifest for _, manifest in manifests_with_paths], settings.cluster.context))
    results = tuple(
        DryRun(path, manifest["kind"], manifest["metadata"].get("namespace", ""), status, status_message(text))
        for (path, manifest), (status, text) in zip(manifests_with_paths, answers, strict=True)
    )
    return replace(live, dry_runs=results)


async def _read(settings: Settings) -> LiveCluster:
    api = await connect(settings.cluster.context)
    is_owner = settings.environment.profile == "owner"
    lists = _list_paths(settings, is_owner=is_owner)
    answers, installed, admission = await asyncio.gather(
        get_all(api, lists.values()), read_controllers(api, settings), read_admission_objects(api, settings)
    )
    admission, pods = await read_topologies(api, admission, settings)
    operators = None if installed is None else await _read_operators(api, installed)
    configuration = await read_kueue_configuration(api, installed)
    secrets = await _read_secrets(api, settings)
    bodies_by_key = {key: _items(answers[path]) for key, path in lists.items()}
    return LiveCluster(
        version=api.version,
        lists=bodies_by_key,
        # A collection is not found if its kind is not served; without objects, it is empty.
        unserved=frozenset(key.partition(" ")[0] for key, path in lists.items() if answers[path].status == NOT_FOUND),
        operators=operators,
        has_autoscaler=installed is not None and has_node_autoscaler(installed.deployments),
        admission=admission,
        bound_pods=pods,
        frameworks=None if configuration is None else _frameworks(configuration),
        kueue=configuration,
        secrets=secrets,
        # A tenant may not list namespaces, so each is read by name.
        namespaces=_existing_namespaces(settings, bodies_by_key["Namespace"])
        if is_owner
        else await _read_namespaces(api, settings),
        local_path_shared=None if installed is None else await _is_local_path_shared(api, installed),
    )


def _list_paths(settings: Settings, *, is_owner: bool) -> dict[str, str]:
    """Return the paths of the lists, by their keys in `Live.lists`."""
    workloads = [workload for _, workload in settings.runs_and_trials()]
    optional_kinds = {"Topology": settings.queues.topologies, "AdmissionCheck": settings.queues.admission_checks}
    kinds = (
        (*CLUSTER_SCOPED, *(kind for kind, items in optional_kinds.items() if items)) if is_owner else READ_BY_TENANTS
    )
    if names_runtimes(settings):
        kinds = (*kinds, CLUSTER_RUNTIME)
    path_by_key = {kind: paths.collection_path(api_version_of(kind), kind, None) for kind in kinds}
    for namespace in _used_namespaces(settings):
        for kind in ("LocalQueue", "PersistentVolumeClaim", "ResourceQuota"):
            path_by_key[f"{kind} {namespace}"] = paths.collection_path(api_version_of(kind), kind, namespace)
    for workload in workloads:
        kind, namespace = launch_kind(workload), workload.namespace
        # This list only shows whether the kind is served, so one item suffices.
        path_by_key[f"{kind} {namespace}"] = (
            f"{paths.collection_path(launch_version(workload), kind, namespace)}?limit=1"
        )
    return path_by_key


def names_runtimes(settings: Settings) -> bool:
    """Return whether a run names a ClusterTrainingRuntime."""
    references = (workload.runtime_reference for _, workload in settings.runs_and_trials())
    return any(reference is not None and reference.kind == CLUSTER_RUNTIME for reference in references)


def _used_namespaces(settings: Settings) -> list[str]:
    workload_namespaces = {workload.namespace for _, workload in settings.runs_and_trials()}
    return sorted(workload_namespaces | settings.volume_namespaces)


def api_version_of(kind: str) -> str:
    if kind in KINDS:
        return KINDS[kind].api_version
    if kind == CLUSTER_RUNTIME:
        return KINDS["TrainJob"].api_version
    if kind in _KUEUE_KINDS:
        return queues.API_VERSION
    return "storage.k8s.io/v1" if kind in _STORAGE_KINDS else "v1"


def _items(answer: Answer) -> tuple[Body, ...] | None:
    return None if answer.readable_body is None else tuple(answer.readable_body.get("items", ()))


async def read_controllers(api: Api, settings: Settings) -> InstalledControllers | None:
    """Return the objects among which controllers are found; None for a tenant, or if the user may not read them."""
    if settings.environment.profile != "owner":
        return None
    return parse_controllers(await get_all(api, CONTROLLER_LISTS))


async def read_kueue_configuration(api: Api, installed: InstalledControllers | None) -> Body | None:
    """Return the running Kueue's Configuration, or None if it is not installed or was not read.

    It includes the feature gates in the manager's arguments, where Kueue accepts them too.
    """
    controller = installed.find(OPERATORS["kueue"]) if installed else None
    if controller is None:
        return None
    text = await _read_mounted_value(api, controller.namespace, controller.pod_spec, CONFIG_KEY)
    if text is None:
        return None
    configuration: Body = yaml.load(text, Loader=yaml.CSafeLoader) or {}
    container = controller.container
    gates = parse_gate_arguments((*(container.get("command") or ()), *(container.get("args") or ())))
    return {**configuration, "featureGates": {**(configuration.get("featureGates") or {}), **gates}}


async def _read_secrets(api: Api, settings: Settings) -> dict[tuple[str, str], bool | None]:
    """Return whether each Secret that the environment refers to exists, by namespace and name; None: not readable."""
    secret_names = {(namespace, name) for _, namespace, name in secret_references(settings)}
    secret_by_path = {
        f"{paths.collection_path('v1', 'Secret', namespace)}/{name}": (namespace, name)
        for namespace, name in secret_names
    }
    answers = await get_all(api, secret_by_path, metadata_only=True)
    return {
        secret_by_path[path]: None if answer.readable_body is None else answer.is_success
        for path, answer in answers.items()
    }


def _existing_namespaces(settings: Settings, bodies: Sequence[Body] | None) -> dict[str, bool | None]:
    names = None if bodies is None else {body["metadata"]["name"] for body in bodies}
    return {name: None if names is None else name in names for name in _used_namespaces(settings)}


async def _read_namespaces(api: Api, settings: Settings) -> dict[str, bool | None]:
    """Return whether each namespace exists, by name; None: not readable.

    A read by name requires only a right in the namespace, unlike a list.
    """
    name_by_path = {
        f"{paths.collection_path('v1', 'Namespace', None)}/{name}": name for name in _used_namespaces(settings)
    }
    answers = await get_all(api, name_by_path, metadata_only=True)
    return {
        name_by_path[path]: None if answer.readable_body is None else answer.is_success
        for path, answer in answers.items()
    }


async def _is_local_path_shared(api: Api, installed: InstalledControllers) -> bool | None:
    """Return whether local-path-provisioner is configured with a shared file system; None if that is unknown."""
    for deployment in installed.deployments:
        pod = deployment["spec"]["template"]["spec"]
        if not any(split_image(container["image"])[0] == _LOCAL_PATH_IMAGE for container in pod["containers"]):
            continue
        text = await _read_mounted_value(api, deployment["metadata"]["namespace"], pod, "config.json")
        return None if text is None else "sharedFileSystemPath" in text
    return None


async def _read_mounted_value(api: Api, namespace: str, pod_spec: Body, key: str) -> str | None:
    """Return the value of a key in the ConfigMaps that a pod mounts, or None."""
    folder = paths.collection_path("v1", "ConfigMap", namespace)
    volumes = pod_spec.get("volumes") or ()
    config_map_paths = [f"{folder}/{volume['configMap']['name']}" for volume in volumes if "configMap" in volume]
    texts = ((answer.body.get("data") or {}).get(key) for answer in (await get_all(api, config_map_paths)).values())
    return next((text for text in texts if text is not None), None)


def _frameworks(configuration: Body) -> frozenset[str]:
    # Kueue's default: SetDefaults_Configuration in its apis/config/v1beta2/defaults.go.
    return frozenset((configuration.get("integrations") or {}).get("frameworks") or ("batch/job",))


async def _read_operators(api: Api, installed: InstalledControllers) -> dict[str, LiveOperator | None]:
    controller_by_operator = {name: installed.find(facts) for name, facts in OPERATORS.items()}
    return {
        name: await _read_operator(api, controller) if controller else None
        for name, controller in controller_by_operator.items()
    }


async def _read_operator(api: Api, controller: InstalledController) -> LiveOperator:
    return replace(
        _live_operator(controller), problems=() if controller.is_ready else await _read_problems(api, controller)
    )


def _live_operator(controller: InstalledController) -> LiveOperator:
    metadata = controller.body["metadata"]
    return LiveOperator(
        namespace=controller.namespace,
        name=metadata["name"],
        image=controller.container["image"],
        ready=controller.is_ready,
        release=(metadata.get("labels") or {}).get(RELEASE, ""),
        kind=controller.kind,
    )


def kueue_release(installed: InstalledControllers | None) -> str:
    """Return the release of the running Kueue; empty if it was not read or has no version."""
    controller = installed.find(OPERATORS["kueue"]) if installed else None
    return _live_operator(controller).version if controller else ""


async def _read_problems(api: Api, controller: InstalledController) -> tuple[str, ...]:
    pods: Sequence[Body] = controller.pods
    if controller.kind == "Deployment":
        labels = controller.body["spec"]["selector"].get("matchLabels", {})
        selector = quote(",".join(f"{key}={value}" for key, value in sorted(labels.items())))
        path = f"{paths.collection_path('v1', 'Pod', controller.namespace)}?labelSelector={selector}"
        try:
            pods = (await get_all(api, [path]))[path].body.get("items", ())
        except ClusterError:
            return ()
    return tuple(dict.fromkeys(problem for pod in pods for problem in pod_problems(pod)))
