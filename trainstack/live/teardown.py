"""Reading everything that the end of a stack depends on: all kinds that the API server has, whoever defined them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from kr8s.asyncio import Api

from trainstack.lifecycle.teardown.context import Body, LiveStack, has_label_of, owners
from trainstack.live import paths
from trainstack.live.client import Answer, ClusterError, connect, get_all, read, run
from trainstack.live.snapshot import launch_namespaces, read_launches, read_unlabelled, run_namespaces, there
from trainstack.objects.labels import STACK
from trainstack.objects.ownership import Identity
from trainstack.runs.launches import live_launch
from trainstack.runs.recorded import RecordedLaunch
from trainstack.settings.model import Settings

_DERIVED = {"ControllerRevision", "EndpointSlice", "Endpoints", "Event", "Lease"}
"""What controllers make of other objects, and take back by themselves."""
_WHOLE = ("ClusterQueue", "Cohort", "Job", "JobSet", "LocalQueue", "PersistentVolumeClaim", "Pod", "Workload")
"""The kinds of which more than the metadata is looked at, or which own such."""
_GROUPS = ("v1", "batch", "jobset.x-k8s.io", "kueue.x-k8s.io")
"""The groups of these kinds."""


@dataclass(frozen=True)
class ServedKind:
    """A kind that the API server has, in the version that it prefers."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def definition(self) -> str:
        """The name of its definition, where it has one."""
        return f"{self.plural}.{self.api_version.rpartition('/')[0]}"

    def path(self, namespace: str | None) -> str:
        """The path of its list; without a namespace, of all of them."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        within = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{root}{within}/{self.plural}"


def read_live_stack(
    settings: Settings,
    *,
    retained: Iterable[Identity],
    protected: Iterable[str] = (),
    stop: Iterable[str] = (),
    known: Iterable[Identity] | None = None,
    recorded: Sequence[RecordedLaunch] = (),
) -> LiveStack:
    """Read what `lifecycle.teardown.plan` decides upon. Nothing is written.

    Args:
        settings: the environment.
        retained: what the engine only forgets.
        protected: the volumes that the settings protect.
        stop: run ids and sweeps that may be stopped.
        known: what the stack's state holds.
        recorded: the launches in it.

    Raises ClusterError where the cluster cannot be read. A tenant's read is of its own namespaces, and of the kinds
    that it may read there.

    """
    namespaces, context = launch_namespaces(settings, recorded), settings.cluster.context
    launches = read_launches(settings.stack, namespaces, context)
    unlabelled = read_unlabelled(recorded, launches, context)
    parts = run(_read(settings.stack, namespaces, context))
    return LiveStack(
        stack=settings.stack,
        launches=(*map(live_launch, launches), *unlabelled),
        retained=frozenset(retained),
        protected=tuple(protected),
        stop=frozenset(stop),
        known=None if known is None else frozenset(known),
        **parts,
    )


def read_own(settings: Settings) -> tuple[Body, ...]:
    """The metadata of everything that bears the stack's mark. Raises ClusterError as `read_live_stack` does."""

    async def look() -> tuple[Body, ...]:
        api = await connect(settings.cluster.context)
        return await _own(api, await served_kinds(api), settings.stack, run_namespaces(settings))

    return run(look())


def read_namespace(name: str, context: str | None) -> tuple[Body, ...]:
    """The metadata of everything in one namespace. Raises ClusterError as `read_live_stack` does."""

    async def look() -> tuple[Body, ...]:
        api = await connect(context)
        return await _in_namespaces(api, await served_kinds(api), [name])

    return run(look())


def read_instances(definition: str, context: str | None) -> tuple[Body, ...]:
    """Return all objects of a definition's kind; none if it is not served. Raises like `read_live_stack`."""

    async def look() -> tuple[Body, ...]:
        api = await connect(context)
        return (await _instances(api, await served_kinds(api), [definition]))[definition]

    return run(look())


def read_kind(api_version: str, kind: str, context: str | None) -> tuple[Body, ...]:
    """Every object of a kind, in all namespaces, whole. Raises ClusterError as `read_live_stack` does."""
    path = paths.collection(api_version, kind, None)
    answer = read([path], context)[path]
    found = (answer.body.get("items") or ()) if there(path, answer) else []
    return tuple({"apiVersion": api_version, "kind": kind, **item} for item in found)


async def _read(stack: str, namespaces: Sequence[str | None], context: str | None) -> dict[str, Any]:
    api = await connect(context)
    kinds = await served_kinds(api)
    own = await _own(api, kinds, stack, namespaces)
    mine = [str(body["metadata"]["name"]) for body in own if body["kind"] == "Namespace"]
    crds = [str(body["metadata"]["name"]) for body in own if body["kind"] == "CustomResourceDefinition"]
    in_namespaces, instances, lists = await asyncio.gather(
        _in_namespaces(api, kinds, mine), _instances(api, kinds, crds), _whole(api, kinds, _WHOLE, namespaces)
    )
    return {"own": own, "in_namespaces": in_namespaces, "instances": instances, "lists": lists}


async def served_kinds(api: Api) -> list[ServedKind]:
    """Every kind that can be listed and deleted. A group whose server does not answer has none."""
    groups = (await get_all(api, ["/apis/"]))["/apis/"].body.get("groups", [])
    # The preferred version first: a kind that several versions have is read in that one.
    versions = ["v1"]
    for group in groups:
        first = group["preferredVersion"]["groupVersion"]
        versions += [first, *(each["groupVersion"] for each in group["versions"] if each["groupVersion"] != first)]
    asked = {version: f"/apis/{version}" if "/" in version else f"/api/{version}" for version in versions}
    answers = await asyncio.gather(*(_if_well(api, path) for path in asked.values()))
    found: dict[tuple[str, str], ServedKind] = {}
    for version, answer in zip(asked, answers, strict=True):
        for each in answer.body.get("resources", []) if answer else []:
            kind, verbs = each["kind"], set(each["verbs"])
            if "/" not in each["name"] and {"list", "delete"} <= verbs and kind not in _DERIVED:
                group_name = version.rpartition("/")[0]
                served = ServedKind(version, kind, each["name"], each["namespaced"])
                found.setdefault((group_name, each["name"]), served)
    return list(found.values())


async def _if_well(api: Api, path: str) -> Answer | None:
    try:
        return (await get_all(api, [path]))[path]
    except ClusterError:
        return None


async def _own(api: Api, kinds: Sequence[ServedKind], stack: str, namespaces: Sequence[str | None]) -> tuple[Body, ...]:
    selector = f"?labelSelector={quote(f'{STACK}={stack}')}"
    asked = _asked(kinds, namespaces, selector)
    found = await _list(api, asked, metadata_only=True, all_or_error=None in namespaces)
    # What another object controls is that one's, whichever labels it was given.
    return tuple(
        each
        for each in found
        if has_label_of(each, stack) and not any(owner.get("controller") for owner in owners(each))
    )


async def _in_namespaces(api: Api, kinds: Sequence[ServedKind], namespaces: Sequence[str]) -> tuple[Body, ...]:
    asked = _asked([each for each in kinds if each.namespaced], namespaces) if namespaces else {}
    return await _list(api, asked, metadata_only=True, all_or_error=True)


async def _instances(api: Api, kinds: Sequence[ServedKind], definitions: Sequence[str]) -> dict[str, tuple[Body, ...]]:
    result: dict[str, tuple[Body, ...]] = dict.fromkeys(definitions, ())
    for each in kinds:
        if each.definition in result:
            result[each.definition] = await _list(api, _asked([each], (None,)), all_or_error=True)
    return result


async def _whole(
    api: Api, kinds: Sequence[ServedKind], wanted: Sequence[str], namespaces: Sequence[str | None]
) -> dict[str, tuple[Body, ...]]:
    chosen = [each for each in kinds if each.kind in wanted and each.api_version.partition("/")[0] in _GROUPS]
    asked = _asked(chosen, namespaces)
    found = await _list(api, asked, all_or_error=None in namespaces)
    return {kind: tuple(each for each in found if each["kind"] == kind) for kind in wanted}


def _asked(kinds: Iterable[ServedKind], namespaces: Sequence[str | None], query: str = "") -> Mapping[str, ServedKind]:
    """The lists to read, by path; what is no namespace's only where all of them are read."""
    return {
        f"{kind.path(namespace)}{query}": kind
        for kind in kinds
        for namespace in namespaces
        if kind.namespaced or namespace is None
    }


async def _list(
    api: Api, asked: Mapping[str, ServedKind], *, metadata_only: bool = False, all_or_error: bool
) -> tuple[Body, ...]:
    """The objects of all lists, each with what it is. `all_or_error`: a list that may not be read is an error."""
    found: list[Body] = []
    for path, answer in (await get_all(api, asked, metadata_of_items=metadata_only)).items():
        kind = asked[path]
        if answer.found or (all_or_error and there(path, answer)):
            found += [
                {**item, "apiVersion": kind.api_version, "kind": kind.kind} for item in answer.body.get("items") or ()
            ]
    return tuple(found)
