"""Reading what an environment needs of its cluster."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import yaml
from kr8s.asyncio import Api

from checks.cluster import paths
from checks.cluster.admission import DEPLOYMENTS, grows, read_lists
from checks.cluster.client import NOT_FOUND, Answer, ClusterError, connect, get_all, run
from checks.cluster.webhooks import dry_run, said
from checks.kinds import KINDS, LAUNCHED_AS
from checks.live import CLUSTER_SCOPED, OPERATORS, DryRun, Live, Operator, OperatorFacts
from checks.pods import problems
from manifests import queues
from manifests.kueue import CONFIG_KEY
from manifests.labels import RELEASE
from settings.model import Settings

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
        DryRun(path, manifest["kind"], manifest["metadata"].get("namespace", ""), status, said(text))
        for (path, manifest), (status, text) in zip(asked, answers, strict=True)
    )
    return replace(live, dry_runs=told)


async def _read(settings: Settings) -> Live:
    api = await connect(settings.cluster.context)
    owner = settings.environment.profile == "owner"
    wanted = _wanted(settings, owner=owner)
    answers, version, deployments, admission = await asyncio.gather(
        get_all(api, wanted.values()), api.version(), read_deployments(api, settings), read_lists(api, settings)
    )
    operators = None if deployments is None else await _operators(api, deployments)
    said = await read_configuration(api, deployments or ())
    return Live(
        version=str(version.get("gitVersion", "")),
        lists={key: _items(answers[path]) for key, path in wanted.items()},
        unserved=frozenset(key.partition(" ")[0] for key, path in wanted.items() if answers[path].status == NOT_FOUND),
        operators=operators,
        grows=grows(deployments or ()),
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
        kind = LAUNCHED_AS.get(each.kind, each.kind)
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


async def read_deployments(api: Api, settings: Settings) -> tuple[Body, ...] | None:
    """All Deployments; None where they may not be read, and under a tenant's profile."""
    if settings.environment.profile != "owner":
        return None
    return _items((await get_all(api, [DEPLOYMENTS]))[DEPLOYMENTS])


async def read_configuration(api: Api, deployments: Sequence[Body]) -> Body | None:
    """The running Kueue's Configuration; None where there is none, or it may not be read."""
    body = _find(OPERATORS["kueue"], deployments)
    volumes = body["spec"]["template"]["spec"].get("volumes") or () if body else ()
    names = [each["configMap"]["name"] for each in volumes if "configMap" in each]
    paths_ = [f"{paths.collection('v1', 'ConfigMap', body['metadata']['namespace'])}/{name}" for name in names if body]
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


async def _operators(api: Api, deployments: Sequence[Body]) -> dict[str, Operator | None]:
    found = {name: _find(facts, deployments) for name, facts in OPERATORS.items()}
    return {name: await _operator(api, body) if body else None for name, body in found.items()}


def _find(facts: OperatorFacts, deployments: Sequence[Body]) -> Body | None:
    """The operator's Deployment, in whatever namespace: by its name, else by its labels."""
    for body in deployments:
        if body["metadata"]["name"] in facts.names:
            return body
    for body in deployments:
        if facts.labels.items() <= (body["metadata"].get("labels") or {}).items():
            return body
    return None


async def _operator(api: Api, body: Body) -> Operator:
    metadata, spec, status = body["metadata"], body["spec"], body.get("status") or {}
    containers = spec["template"]["spec"]["containers"]
    # A proxy may stand beside the controller.
    manager = next((each for each in containers if each["name"] in ("manager", metadata["name"])), containers[0])
    ready = bool(status.get("readyReplicas"))
    return Operator(
        namespace=metadata["namespace"],
        name=metadata["name"],
        image=manager["image"],
        ready=ready,
        release=(metadata.get("labels") or {}).get(RELEASE, ""),
        problems=() if ready else await _problems(api, metadata["namespace"], spec["selector"].get("matchLabels", {})),
    )


async def _problems(api: Api, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    selector = quote(",".join(f"{key}={value}" for key, value in sorted(labels.items())))
    path = f"{paths.collection('v1', 'Pod', namespace)}?labelSelector={selector}"
    try:
        pods = (await get_all(api, [path]))[path].body.get("items", ())
    except ClusterError:
        return ()
    return tuple(dict.fromkeys(problem for pod in pods for problem in problems(pod)))
