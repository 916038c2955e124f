"""Reads of an environment's cluster for the preflight checks."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import yaml

from trainstack.kueue.feature_gates import parse_gate_arguments
from trainstack.live import paths
from trainstack.live.admission import grows, read_lists, read_topologies
from trainstack.live.client import NOT_FOUND, Answer, Api, ClusterError, connect, get_all, run
from trainstack.live.controllers import LISTS, Controller, Controllers, controllers, split_image
from trainstack.live.errors import status_message
from trainstack.live.webhooks import dry_run
from trainstack.objects.labels import RELEASE
from trainstack.platform import queues
from trainstack.platform.operators.kueue import CONFIG_KEY
from trainstack.preflight.live_context import CLUSTER_SCOPED, READ_BY_TENANTS, DryRun, Live, Operator
from trainstack.preflight.live_rules.secrets import secret_references
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.runs.status.kinds import KINDS, launch_version, launched_as
from trainstack.runs.status.pods import problems
from trainstack.settings.model import Settings

Body = Mapping[str, Any]
_OF_KUEUE = ("AdmissionCheck", "ClusterQueue", "LocalQueue", "ResourceFlavor", "Topology", "WorkloadPriorityClass")
_OF_STORAGE = ("StorageClass",)
_LOCAL_PATH = "local-path-provisioner"


def read_environment(settings: Settings, tried: Sequence[tuple[str, Body]]) -> Live:
    """Return the state of an environment's cluster, and the results of dry runs that create objects.

    For a tenant's profile, only its namespaces and READ_BY_TENANTS are read.

    Args:
        settings: the environment.
        manifests_with_paths: the manifests of launches, each with the path of its setting.

    Raises ClusterError if the cluster cannot be reached. Objects that the user may not read count as unknown.

    """
    live = run(_read(settings))
    answers = run(dry_run([manifest for _, manifest in tried], settings.cluster.context))
    results = tuple(
        DryRun(path, manifest["kind"], manifest["metadata"].get("namespace", ""), status, status_message(text))
        for (path, manifest), (status, text) in zip(tried, answers, strict=True)
    )
    return replace(live, dry_runs=results)


async def _read(settings: Settings) -> Live:
    api = await connect(settings.cluster.context)
    owner = settings.environment.profile == "owner"
    lists = _lists(settings, owner=owner)
    answers, found, admission = await asyncio.gather(
        get_all(api, lists.values()), read_controllers(api, settings), read_lists(api, settings)
    )
    admission, pods = await read_topologies(api, admission, settings)
    operators = None if found is None else await _operators(api, found)
    configuration = await read_configuration(api, found)
    secrets = await _secrets(api, settings)
    listed = {key: _items(answers[path]) for key, path in lists.items()}
    return Live(
        version=api.version,
        lists=listed,
        unserved=frozenset(key.partition(" ")[0] for key, path in lists.items() if answers[path].status == NOT_FOUND),
        operators=operators,
        grows=found is not None and grows(found.deployments),
        admission=admission,
        bound_pods=pods,
        frameworks=None if configuration is None else _frameworks(configuration),
        kueue=configuration,
        secrets=secrets,
        namespaces=_existing(settings, listed["Namespace"]) if owner else await _namespaces(api, settings),
        local_path_shared=None if found is None else await _local_path_shared(api, found),
    )


def _lists(settings: Settings, *, owner: bool) -> dict[str, str]:
    """Return the paths of the lists, by their keys in `Live.lists`."""
    workloads = [workload for _, workload in settings.trained()]
    declared = {"Topology": settings.queues.topologies, "AdmissionCheck": settings.queues.admission_checks}
    kinds = (*CLUSTER_SCOPED, *(kind for kind, items in declared.items() if items)) if owner else READ_BY_TENANTS
    found = {kind: paths.collection(version_of(kind), kind, None) for kind in kinds}
    for namespace in _used_namespaces(settings):
        for kind in ("LocalQueue", "PersistentVolumeClaim"):
            found[f"{kind} {namespace}"] = paths.collection(version_of(kind), kind, namespace)
    for workload in workloads:
        kind, namespace = launched_as(workload), workload.namespace
        # This list only shows whether the kind is served, so one item suffices.
        found[f"{kind} {namespace}"] = f"{paths.collection(launch_version(workload), kind, namespace)}?limit=1"
    return found


def _used_namespaces(settings: Settings) -> list[str]:
    trained = {workload.namespace for _, workload in settings.trained()}
    return sorted(trained | {volume.namespace for volume in settings.storage.volumes})


def version_of(kind: str) -> str:
    if kind in KINDS:
        return KINDS[kind].api_version
    if kind in _OF_KUEUE:
        return queues.API_VERSION
    return "storage.k8s.io/v1" if kind in _OF_STORAGE else "v1"


def _items(answer: Answer) -> tuple[Body, ...] | None:
    return None if answer.object is None else tuple(answer.object.get("items", ()))


async def read_controllers(api: Api, settings: Settings) -> Controllers | None:
    """Return the objects among which controllers are found; None for a tenant, or if the user may not read them."""
    if settings.environment.profile != "owner":
        return None
    return controllers(await get_all(api, LISTS))


async def read_configuration(api: Api, found: Controllers | None) -> Body | None:
    """Return the running Kueue's Configuration, or None if it is not installed or was not read.

    It includes the feature gates in the manager's arguments, where Kueue accepts them too.
    """
    controller = found.find(OPERATORS["kueue"]) if found else None
    if controller is None:
        return None
    text = await _mounted(api, controller.namespace, controller.pod_spec, CONFIG_KEY)
    if text is None:
        return None
    configuration: Body = yaml.load(text, Loader=yaml.CSafeLoader) or {}
    container = controller.container
    gates = parse_gate_arguments((*(container.get("command") or ()), *(container.get("args") or ())))
    return {**configuration, "featureGates": {**(configuration.get("featureGates") or {}), **gates}}


async def _secrets(api: Api, settings: Settings) -> dict[tuple[str, str], bool | None]:
    """Return whether each Secret that the environment refers to exists, by namespace and name; None: not readable."""
    named = {(namespace, name) for _, namespace, name in secret_references(settings)}
    at = {f"{paths.collection('v1', 'Secret', namespace)}/{name}": (namespace, name) for namespace, name in named}
    answers = await get_all(api, at, metadata_only=True)
    return {at[path]: None if answer.object is None else answer.found for path, answer in answers.items()}


def _existing(settings: Settings, listed: Sequence[Body] | None) -> dict[str, bool | None]:
    names = None if listed is None else {body["metadata"]["name"] for body in listed}
    return {name: None if names is None else name in names for name in _used_namespaces(settings)}


async def _namespaces(api: Api, settings: Settings) -> dict[str, bool | None]:
    """Return whether each namespace exists, by name; None: not readable.

    A read by name requires only a right in the namespace, unlike a list.
    """
    at = {f"{paths.collection('v1', 'Namespace', None)}/{name}": name for name in _used_namespaces(settings)}
    answers = await get_all(api, at, metadata_only=True)
    return {at[path]: None if answer.object is None else answer.found for path, answer in answers.items()}


async def _local_path_shared(api: Api, found: Controllers) -> bool | None:
    """Return whether local-path-provisioner is configured with a shared file system; None if that is unknown."""
    for deployment in found.deployments:
        pod = deployment["spec"]["template"]["spec"]
        if not any(split_image(container["image"])[0] == _LOCAL_PATH for container in pod["containers"]):
            continue
        text = await _mounted(api, deployment["metadata"]["namespace"], pod, "config.json")
        return None if text is None else "sharedFileSystemPath" in text
    return None


async def _mounted(api: Api, namespace: str, pod_spec: Body, key: str) -> str | None:
    """Return the value of a key in the ConfigMaps that a pod mounts, or None."""
    folder = paths.collection("v1", "ConfigMap", namespace)
    volumes = pod_spec.get("volumes") or ()
    mounted = [f"{folder}/{volume['configMap']['name']}" for volume in volumes if "configMap" in volume]
    texts = ((answer.body.get("data") or {}).get(key) for answer in (await get_all(api, mounted)).values())
    return next((text for text in texts if text is not None), None)


def _frameworks(configuration: Body) -> frozenset[str]:
    # Kueue's default: SetDefaults_Configuration in its apis/config/v1beta2/defaults.go.
    return frozenset((configuration.get("integrations") or {}).get("frameworks") or ("batch/job",))


async def _operators(api: Api, controllers: Controllers) -> dict[str, Operator | None]:
    found = {name: controllers.find(facts) for name, facts in OPERATORS.items()}
    return {name: await _operator(api, controller) if controller else None for name, controller in found.items()}


async def _operator(api: Api, controller: Controller) -> Operator:
    metadata = controller.body["metadata"]
    return Operator(
        namespace=controller.namespace,
        name=metadata["name"],
        image=controller.container["image"],
        ready=controller.ready,
        release=(metadata.get("labels") or {}).get(RELEASE, ""),
        problems=() if controller.ready else await _problems(api, controller),
        kind=controller.kind,
    )


async def _problems(api: Api, controller: Controller) -> tuple[str, ...]:
    pods: Sequence[Body] = controller.pods
    if controller.kind == "Deployment":
        labels = controller.body["spec"]["selector"].get("matchLabels", {})
        selector = quote(",".join(f"{key}={value}" for key, value in sorted(labels.items())))
        path = f"{paths.collection('v1', 'Pod', controller.namespace)}?labelSelector={selector}"
        try:
            pods = (await get_all(api, [path]))[path].body.get("items", ())
        except ClusterError:
            return ()
    return tuple(dict.fromkeys(problem for pod in pods for problem in problems(pod)))
