"""Reads of the objects that a teardown depends on, of every kind that the API server serves."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from trainstack.lifecycle.teardown.live_stack import Body, LiveStack, has_label_of, launch_name, owners
from trainstack.lifecycle.teardown.plan import TeardownPlan, plan_full_teardown, plan_teardown_without_platform
from trainstack.lifecycle.teardown.users import kinds_of_users
from trainstack.live import paths
from trainstack.live.client import Api, connect, get_all, get_available, read, run
from trainstack.live.snapshot import (
    exists,
    launch_namespaces,
    read_launches,
    read_recorded_launch_names,
    read_unlabeled_launches,
    run_namespaces,
)
from trainstack.objects.labels import LAUNCH, STACK
from trainstack.objects.ownership import Identity
from trainstack.platform import queues
from trainstack.runs.launches import LiveLaunch, live_launch, utc_now
from trainstack.runs.recorded_launches import RecordedLaunch
from trainstack.runs.status.launch_kinds import KINDS
from trainstack.settings.model import Settings

_DERIVED_KINDS = {"ControllerRevision", "EndpointSlice", "Endpoints", "Event", "Lease"}
"""Kinds whose objects controllers create and delete."""
_FULLY_READ_KINDS = (
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "Job",
    "JobSet",
    "LocalQueue",
    "MultiKueueConfig",
    "PersistentVolumeClaim",
    "Pod",
    "ResourceFlavor",
    "Workload",
)
"""The kinds that are read with spec and status, not only with their metadata."""
_FULLY_READ_GROUPS = ("v1", "batch", "jobset.x-k8s.io", "kueue.x-k8s.io")
"""The API groups of `_FULLY_READ_KINDS`."""
_POD_OWNER_DEFINITIONS = frozenset(definition for kind in KINDS.values() for definition in kind.owners_of_pods)
"""Further kinds, by CustomResourceDefinition, that are read to find the launch that a pod belongs to."""


@dataclass(frozen=True)
class ServedKind:
    """A kind that the API server serves, in its preferred version."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition, if it has one."""
        return f"{self.plural}.{self.api_version.rpartition('/')[0]}"

    def path(self, namespace: str | None) -> str:
        namespace_part = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{paths.version_path(self.api_version)}{namespace_part}/{self.plural}"


def read_live_stack(
    settings: Settings,
    *,
    retained: Iterable[Identity],
    protected: Iterable[str] = (),
    stop: Iterable[str] = (),
    state_objects: Iterable[Identity] | None = None,
    recorded: Sequence[RecordedLaunch] = (),
) -> LiveStack:
    """Return the objects that `lifecycle.teardown.plan` depends on.

    For a tenant, they are those in its namespaces, of the kinds that it may read there.

    Args:
        settings: the environment.
        retained: the objects that the engine retains.
        protected: the volumes that the settings protect.
        stop: run ids and sweeps that may be stopped.
        state_objects: the objects in the stack's state; None: the state was not read.
        recorded: the launches in the state.

    Raises ClusterError if the cluster cannot be read.

    """
    namespaces, context = launch_namespaces(settings, recorded), settings.cluster.context
    launches = read_stack_launches(settings, recorded)
    state_identities = None if state_objects is None else frozenset(state_objects)
    # Another client may have removed the stack's label from a definition in the state.
    definitions = [name for kind, _, name in state_identities or () if kind == "CustomResourceDefinition"]
    live_parts = run(_read_live_parts(settings.stack, namespaces, definitions, context))
    names = _recorded_launch_names(settings, recorded, live_parts["labeled_objects"], live_parts["lists"])
    return LiveStack(
        recorded_launches=names,
        stack=settings.stack,
        launches=launches,
        retained=frozenset(retained),
        protected=tuple(protected),
        stop=frozenset(stop),
        state_identities=state_identities,
        **live_parts,
    )


def plan_teardown(
    settings: Settings,
    *,
    keep_platform: bool,
    retained: Iterable[Identity],
    protected: Iterable[str],
    stop: Iterable[str],
    state_objects: Iterable[Identity],
    recorded: Sequence[RecordedLaunch],
) -> TeardownPlan:
    """Read the cluster, and plan the teardown.

    `keep_platform`: keep the platform, and read the other objects only as far as the user may read them. The other
    arguments are those of `read_live_stack`. Raises ClusterError if the cluster cannot be read.
    """
    if not keep_platform:
        live = read_live_stack(
            settings, retained=retained, protected=protected, stop=stop, state_objects=state_objects, recorded=recorded
        )
        return plan_full_teardown(live, utc_now())
    state_identities, retained_identities = frozenset(state_objects), frozenset(retained)
    definitions = {identity for identity in state_identities if identity[0] == "CustomResourceDefinition"}
    users = read_users(settings, (state_identities - retained_identities) | definitions, recorded)
    live = replace(
        users,
        retained=retained_identities,
        protected=tuple(protected),
        stop=frozenset(stop),
        state_identities=state_identities,
    )
    return plan_teardown_without_platform(live, utc_now())


def read_users(settings: Settings, deleted: Collection[Identity], recorded: Sequence[RecordedLaunch] = ()) -> LiveStack:
    """Return the stack's launches, and the objects that may use deleted objects, as far as the user may read them.

    Raises ClusterError if the launches cannot be read.
    """
    bodies, launches = _read_bodies_and_launches(settings, recorded)
    lists = read_kinds(settings, kinds_of_users(deleted), recorded)
    in_namespaces, instances = run(_read_contents(deleted, settings.cluster.context))
    return LiveStack(
        recorded_launches=_recorded_launch_names(settings, recorded, bodies, lists),
        stack=settings.stack,
        labeled_objects=bodies,
        launches=launches,
        lists=lists,
        in_namespaces=in_namespaces,
        instances=instances,
    )


def read_kinds(
    settings: Settings, kinds: Mapping[str, Collection[str | None]], recorded: Sequence[RecordedLaunch] = ()
) -> dict[str, tuple[Body, ...]]:
    """Return the objects by kind, as far as the user may read them.

    `kinds`: the namespaces to read by kind; None: all namespaces, or for a tenant those of its launches.
    """
    namespaces = launch_namespaces(settings, recorded)
    kind_by_path = {
        paths.collection_path(_version(kind), kind, namespace): kind
        for kind, requested_namespaces in kinds.items()
        for namespace in (
            requested_namespaces if None in namespaces or None not in requested_namespaces else namespaces
        )
    }
    bodies_by_kind: defaultdict[str, tuple[Body, ...]] = defaultdict(tuple)
    for path, answer in read([*kind_by_path], settings.cluster.context).items() if kind_by_path else ():
        kind = kind_by_path[path]
        bodies_by_kind[kind] += tuple(answer.items(_version(kind), kind))
    return dict(bodies_by_kind)


def _version(kind: str) -> str:
    return "v1" if kind in ("PersistentVolumeClaim", "Pod") else queues.API_VERSION


async def _read_contents(
    deleted: Collection[Identity], context: str | None
) -> tuple[tuple[Body, ...], dict[str, tuple[Body, ...]]]:
    """Return the metadata of the objects in deleted namespaces, and the instances of deleted definitions."""
    namespaces = [name for kind, _, name in deleted if kind == "Namespace"]
    definitions = [name for kind, _, name in deleted if kind == "CustomResourceDefinition"]
    if not namespaces and not definitions:
        return (), {}
    api = await connect(context)
    served = await read_served_kinds(api)
    return await asyncio.gather(
        _read_namespace_contents(api, served, namespaces, all_or_error=False),
        _read_instances(api, served, definitions, all_or_error=False),
    )


def read_stack_launches(settings: Settings, recorded: Sequence[RecordedLaunch] = ()) -> tuple[LiveLaunch, ...]:
    """Return the stack's launches. Raises ClusterError as `read_live_stack` does."""
    return _read_bodies_and_launches(settings, recorded)[1]


def _recorded_launch_names(
    settings: Settings,
    recorded: Sequence[RecordedLaunch],
    bodies: Iterable[Body],
    lists: Mapping[str, Sequence[Body]],
) -> frozenset[str]:
    """Return the names of the stack's recorded launches; none if all pods and Workloads belong to `bodies`.

    In that case, the names are not needed, and the ledgers are not read.
    """
    live_names = {launch_name(body) for body in bodies} | {""}
    if all(launch_name(body) in live_names for kind in ("Pod", "Workload") for body in lists.get(kind, ())):
        return frozenset()
    names_in_state = {launch.labels[LAUNCH] for launch in recorded if LAUNCH in launch.labels}
    return frozenset(names_in_state | read_recorded_launch_names(settings, launch_namespaces(settings, recorded)))


def _read_bodies_and_launches(
    settings: Settings, recorded: Sequence[RecordedLaunch]
) -> tuple[tuple[Body, ...], tuple[LiveLaunch, ...]]:
    """Return the objects with labels of launches, and the launches, including recorded ones without labels."""
    bodies = read_launches(settings, launch_namespaces(settings, recorded))
    unlabelled = read_unlabeled_launches(recorded, bodies, settings.cluster.context)
    return tuple(bodies), (*map(live_launch, bodies), *unlabelled)


def read_stack_objects(settings: Settings) -> tuple[Body, ...]:
    """Return the metadata of the objects with the stack's label. Raises ClusterError as `read_live_stack` does."""

    async def work() -> tuple[Body, ...]:
        api = await connect(settings.cluster.context)
        kinds, namespaces = await read_served_kinds(api), run_namespaces(settings)
        return await _read_stack_objects(api, kinds, settings.stack, namespaces, all_or_error=None in namespaces)

    return run(work())


def read_namespace(name: str, context: str | None) -> tuple[Body, ...]:
    """Return the metadata of a namespace's objects. Raises ClusterError as `read_live_stack` does."""

    async def work() -> tuple[Body, ...]:
        api = await connect(context)
        return await _read_namespace_contents(api, await read_served_kinds(api), [name])

    return run(work())


def read_instances(definition: str, context: str | None) -> tuple[Body, ...]:
    """Return the objects of a definition's kind; () if it is not served. Raises as `read_live_stack` does."""

    async def work() -> tuple[Body, ...]:
        api = await connect(context)
        return (await _read_instances(api, await read_served_kinds(api), [definition]))[definition]

    return run(work())


def read_kind(api_version: str, kind: str, context: str | None) -> tuple[Body, ...]:
    """Return the objects of a kind in all namespaces. Raises ClusterError as `read_live_stack` does."""
    path = paths.collection_path(api_version, kind, None)
    answer = read([path], context)[path]
    return tuple(answer.items(api_version, kind)) if exists(path, answer) else ()


async def _read_live_parts(
    stack: str, namespaces: Sequence[str | None], definitions: Iterable[str], context: str | None
) -> dict[str, Any]:
    api, all_or_error = await connect(context), None in namespaces
    kinds = await read_served_kinds(api)
    stack_objects = await _read_stack_objects(api, kinds, stack, namespaces, all_or_error=all_or_error)
    own_namespaces = [str(body["metadata"]["name"]) for body in stack_objects if body["kind"] == "Namespace"]
    own_definitions = [
        str(body["metadata"]["name"]) for body in stack_objects if body["kind"] == "CustomResourceDefinition"
    ]
    in_namespaces, instances, lists = await asyncio.gather(
        _read_namespace_contents(api, kinds, own_namespaces),
        _read_instances(api, kinds, [*dict.fromkeys((*own_definitions, *definitions))]),
        _read_full_objects(api, kinds, namespaces, all_or_error=all_or_error),
    )
    return {"labeled_objects": stack_objects, "in_namespaces": in_namespaces, "instances": instances, "lists": lists}


async def read_served_kinds(api: Api) -> list[ServedKind]:
    """Return every kind with the verbs `list` and `delete`, except those of an unavailable aggregated API."""
    groups = (await get_all(api, ["/apis/"]))["/apis/"].body.get("groups", [])
    # The preferred version is first, so that a kind in several versions is read in the preferred one.
    versions = ["v1"]
    for group in groups:
        preferred = group["preferredVersion"]["groupVersion"]
        versions += [preferred, *(item["groupVersion"] for item in group["versions"])]
    by_version = {version: paths.version_path(version) for version in versions}
    answers = await get_available(api, by_version.values())
    # The core is not an aggregated API. If it is unavailable, this request raises the error.
    answers |= await get_all(api, [by_version["v1"]] if by_version["v1"] not in answers else ())
    kind_by_name: dict[tuple[str, str], ServedKind] = {}
    for version, path in by_version.items():
        for item in answers[path].body.get("resources", []) if path in answers else []:
            kind, name = item["kind"], item["name"]
            if "/" not in name and {"list", "delete"} <= {*item["verbs"]} and kind not in _DERIVED_KINDS:
                served = ServedKind(version, kind, name, item["namespaced"])
                kind_by_name.setdefault((version.rpartition("/")[0], name), served)
    return list(kind_by_name.values())


async def _read_stack_objects(
    api: Api, kinds: Sequence[ServedKind], stack: str, namespaces: Sequence[str | None], *, all_or_error: bool
) -> tuple[Body, ...]:
    lists = _list_paths(kinds, namespaces, f"?labelSelector={quote(f'{STACK}={stack}')}")
    bodies = await _read_lists(api, lists, metadata_only=True, all_or_error=all_or_error)
    # An object with a controller belongs to the controller, whatever its labels.
    return tuple(
        body
        for body in bodies
        if has_label_of(body, stack) and not any(owner.get("controller") for owner in owners(body))
    )


async def _read_namespace_contents(
    api: Api, kinds: Sequence[ServedKind], namespaces: Sequence[str], *, all_or_error: bool = True
) -> tuple[Body, ...]:
    lists = _list_paths([kind for kind in kinds if kind.namespaced], namespaces) if namespaces else {}
    return await _read_lists(api, lists, metadata_only=True, all_or_error=all_or_error)


async def _read_instances(
    api: Api, kinds: Sequence[ServedKind], definitions: Sequence[str], *, all_or_error: bool = True
) -> dict[str, tuple[Body, ...]]:
    bodies_by_definition: dict[str, tuple[Body, ...]] = dict.fromkeys(definitions, ())
    for kind in kinds:
        if kind.definition in bodies_by_definition:
            bodies_by_definition[kind.definition] = await _read_lists(
                api, _list_paths([kind], (None,)), all_or_error=all_or_error
            )
    return bodies_by_definition


async def _read_full_objects(
    api: Api, kinds: Sequence[ServedKind], namespaces: Sequence[str | None], *, all_or_error: bool
) -> dict[str, tuple[Body, ...]]:
    full_kinds = [
        kind
        for kind in kinds
        if (kind.kind in _FULLY_READ_KINDS and kind.api_version.partition("/")[0] in _FULLY_READ_GROUPS)
        or kind.definition in _POD_OWNER_DEFINITIONS
    ]
    bodies = await _read_lists(api, _list_paths(full_kinds, namespaces), all_or_error=all_or_error)
    return {kind.kind: tuple(body for body in bodies if body["kind"] == kind.kind) for kind in full_kinds}


def _list_paths(
    kinds: Iterable[ServedKind], namespaces: Sequence[str | None], query: str = ""
) -> Mapping[str, ServedKind]:
    """Return the kinds by the paths of their lists. Cluster-scoped kinds are read only with all namespaces (None)."""
    return {
        f"{kind.path(namespace)}{query}": kind
        for kind in kinds
        for namespace in namespaces
        if kind.namespaced or namespace is None
    }


async def _read_lists(
    api: Api, kind_by_path: Mapping[str, ServedKind], *, metadata_only: bool = False, all_or_error: bool
) -> tuple[Body, ...]:
    """Return the objects of all lists; leave out lists that the user may not read.

    `all_or_error`: raise ClusterError instead, since a plan for the whole cluster must not miss objects.
    """
    bodies: list[Body] = []
    for path, answer in (await get_all(api, kind_by_path, metadata_of_items=metadata_only)).items():
        kind = kind_by_path[path]
        if answer.is_success or (all_or_error and exists(path, answer)):
            bodies += answer.items(kind.api_version, kind.kind)
    return tuple(bodies)
