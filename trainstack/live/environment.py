"""Reading what an environment needs of its cluster."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import yaml
from kr8s.asyncio import Api

from trainstack.live import paths
from trainstack.live.admission import grows, read_lists
from trainstack.live.client import NOT_FOUND, Answer, ClusterError, connect, get_all, run
from trainstack.live.controllers import LISTS, Controller, Controllers, controllers
from trainstack.live.webhooks import dry_run, status_message
from trainstack.objects.labels import RELEASE
from trainstack.platform import queues
from trainstack.platform.operators.kueue import CONFIG_KEY
from trainstack.preflight.live_context import CLUSTER_SCOPED, DryRun, Live, Operator
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.runs.status.kinds import KINDS, launched_as
from trainstack.runs.status.pods import problems
from trainstack.settings.model import Settings

Body = Mapping[str, Any]
_OF_KUEUE = ("ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass")
_OF_STORAGE = ("StorageClass",)


def read_environment(settings: Settings, asked: Sequence[tuple[str, Body]]) -> Live:
    """Read the cluster of an environment, and send objects as dry runs. Nothing is written.

    Under a tenant's profile only what is in its namespaces is asked for.

    Args:
        settings: the environment.
        asked: objects with the paths of what they are made from: the launches, as they would be now.

    Raises ClusterError where the cluster cannot be reached. What may not be read is left unknown.

    """
    live = run(_read(settings))
    answers = run(dry_run([manifest for _, manifest in asked], settings.cluster.context))
    told = tuple(
        DryRun(path, manifest["kind"], manifest["metadata"].get("namespace", ""), status, status_message(text))
        for (path, manifest), (status, text) in zip(asked, answers, strict=True)
    )
    return replace(live, dry_runs=told)


async def _read(settings: Settings) -> Live:
    api = await connect(settings.cluster.context)
    owner = settings.environment.profile == "owner"
    wanted = _wanted(settings, owner=owner)
    answers, version, found, admission = await asyncio.gather(
        get_all(api, wanted.values()), api.version(), read_controllers(api, settings), read_lists(api, settings)
    )
    operators = None if found is None else await _operators(api, found)
    said = await read_configuration(api, found)
    return Live(
        version=str(version.get("gitVersion", "")),
        lists={key: _items(answers[path]) for key, path in wanted.items()},
        unserved=frozenset(key.partition(" ")[0] for key, path in wanted.items() if answers[path].status == NOT_FOUND),
        operators=operators,
        grows=found is not None and grows(found.deployments),
        admission=admission,
        frameworks=None if said is None else _frameworks(said),
        kueue=said,
    )


def _wanted(settings: Settings, *, owner: bool) -> dict[str, str]:
    """The lists to ask for, by the key that they have in `Live.lists`."""
    workloads = [workload for _, workload in settings.trained()]
    found = {kind: paths.collection(version_of(kind), kind, None) for kind in CLUSTER_SCOPED if owner}
    for namespace in sorted(
        {each.namespace for each in workloads} | {each.namespace for each in settings.storage.volumes}
    ):
        for kind in ("LocalQueue", "PersistentVolumeClaim"):
            found[f"{kind} {namespace}"] = paths.collection(version_of(kind), kind, namespace)
    for each in workloads:
        kind = launched_as(each)
        # Whether the kind is served; what there is of it does not matter.
        found[f"{kind} {each.namespace}"] = f"{paths.collection(version_of(kind), kind, each.namespace)}?limit=1"
    return found


def version_of(kind: str) -> str:
    """The API version that a kind is asked for in."""
    if kind in KINDS:
        return KINDS[kind].api_version
    if kind in _OF_KUEUE:
        return queues.API_VERSION
    return "storage.k8s.io/v1" if kind in _OF_STORAGE else "v1"


def _items(answer: Answer) -> tuple[Body, ...] | None:
    return None if answer.object is None else tuple(answer.object.get("items", ()))


async def read_controllers(api: Api, settings: Settings) -> Controllers | None:
    """Where operators' controllers are looked for; None where that may not be read, and under a tenant's profile."""
    if settings.environment.profile != "owner":
        return None
    return controllers(await get_all(api, LISTS))


async def read_configuration(api: Api, found: Controllers | None) -> Body | None:
    """The running Kueue's Configuration; None where there is none, or it may not be read."""
    controller = found.find(OPERATORS["kueue"]) if found else None
    if controller is None:
        return None
    folder = paths.collection("v1", "ConfigMap", controller.namespace)
    volumes = controller.pod_spec.get("volumes") or ()
    paths_ = [f"{folder}/{volume['configMap']['name']}" for volume in volumes if "configMap" in volume]
    answers = await get_all(api, paths_)
    for path in paths_:
        text = (answers[path].body.get("data") or {}).get(CONFIG_KEY)
        if text is not None:
            said: Body = yaml.load(text, Loader=yaml.CSafeLoader) or {}
            return said
    return None


def _frameworks(said: Body) -> frozenset[str]:
    """What Kueue is told to manage; by its own default batch/job alone.

    Source: SetDefaults_Configuration in its apis/config/v1beta2/defaults.go.
    """
    return frozenset((said.get("integrations") or {}).get("frameworks") or ("batch/job",))


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
