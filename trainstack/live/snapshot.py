"""Reads of an environment's launches and ledgers, and of the metadata of declared objects."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from trainstack.live import paths
from trainstack.live.client import (
    FORBIDDEN,
    NOT_FOUND,
    PAGE_SIZE,
    Answer,
    ClusterError,
    RightsError,
    read,
    read_lists,
    read_server_time,
)
from trainstack.objects import labels
from trainstack.objects.launch_kinds import ALL_LAUNCH_KINDS, STANDARD_LAUNCH_KINDS, plural
from trainstack.objects.ownership import Identity, format_names, identity
from trainstack.runs.launches import LiveLaunch, live_launch
from trainstack.runs.ledgers import Claim, Ledger, is_claim, read_claim, read_ledger, wrapper_sources
from trainstack.runs.names import ledger_name
from trainstack.runs.parameter_file import FileContents, read_parameter_file
from trainstack.runs.recorded_launches import RecordedLaunch, launch_from_ledger, merge_recorded_launches
from trainstack.runs.status.launch_kinds import KINDS, other_launch_kinds
from trainstack.settings.model import Settings

LAUNCH_KINDS = tuple((facts.api_version, kind) for kind, facts in KINDS.items())
_ALWAYS_LISTED = tuple((version, kind) for version, kind in LAUNCH_KINDS if kind in STANDARD_LAUNCH_KINDS)
"""The kinds of launches that are listed for every environment."""
_MAX_INDIVIDUAL_LAUNCHES = 20
"""The maximum number of recorded launches of one kind in one namespace that are read individually. If there are more,
a list first shows which of them exist."""
_MAX_INDIVIDUAL_OBJECTS = 2
"""The maximum number of objects of a collection that are read individually instead of with a list."""
_RIGHT_REMEDY = (
    "ask the platform's owner for that right (`trainstack:tenants` in the platform's environment gives a team all that "
    "it needs, and so do the roles of `trainstack rights`), or use another kubeconfig"
)


@dataclass(frozen=True)
class LiveRuns:
    """A stack's live launches and its ledgers, without terminating ones, and the objects that launches mount."""

    live: tuple[LiveLaunch, ...]
    ledgers: tuple[Ledger, ...]
    wrappers: Mapping[str, str]
    """The sources of the wrappers that launches may mount, by name."""
    files: Mapping[str, FileContents] = field(default_factory=dict)
    """The parameter files of sweeps that launches may mount, by name."""
    claims: tuple[Claim, ...] = ()
    """The claims of launches that are neither in the cluster nor in Pulumi's state."""
    metadata: Mapping[Identity, Mapping[str, Any]] = field(default_factory=dict)
    """The metadata of all objects that were read, including terminating ones and launches that lost a label."""


def run_namespaces(settings: Settings) -> tuple[str | None, ...]:
    """Return the namespaces in which the environment may have runs; None: all of them.

    A run may be active in a namespace that is no longer declared. A tenant may read only its own namespaces.
    """
    if settings.environment.profile == "owner":
        return (None,)
    environment = settings.environment
    names = {*(namespace.name for namespace in environment.namespaces), *environment.existing.namespaces}
    names |= settings.volume_namespaces
    names |= {run.namespace for _, run in settings.runs_and_trials()}
    return tuple(sorted(names))


def read_runs(settings: Settings, recorded: Sequence[RecordedLaunch] = ()) -> LiveRuns:
    """Return this stack's launches and ledgers, except for terminating ones.

    Launches are found by their labels; those that lost their labels are found by the ledgers and by `recorded`, the
    launches in Pulumi's state. Raises ClusterError if the cluster cannot be read.
    """
    context, namespaces = settings.cluster.context, launch_namespaces(settings, recorded)
    labeled_bodies = _read_labeled_bodies(settings, namespaces)
    bodies = [body for body in labeled_bodies if _is_launch(body)]
    config_maps, wrappers, files = (
        _list_objects([("v1", "ConfigMap")], namespaces, f"{labels.STACK}={settings.stack},{label}", context)
        for label in (labels.LEDGER, labels.WRAPPER, f"{labels.SWEEP},!{labels.LEDGER}")
    )
    config_maps = [body for body in config_maps if "deletionTimestamp" not in body["metadata"]]
    ledgers = [read_ledger(body) for body in config_maps]
    live = [live_launch(body) for body in bodies if "deletionTimestamp" not in body["metadata"]]
    live += read_unlabeled_launches(merge_recorded_launches(recorded, ledgers), bodies, context)
    launch_names = {launch.launch for launch in live} | {launch.labels.get(labels.LAUNCH, "") for launch in recorded}
    open_claims = _open_claims(config_maps, launch_names, context)
    claimed_run_ids = {claim.ledger.run_id for claim in open_claims}
    # A launch that lost its other labels still has the annotation of its state. A command's data loader has none.
    annotated_bodies = [body for body in labeled_bodies if labels.STATE in (body["metadata"].get("annotations") or {})]
    return LiveRuns(
        tuple(live),
        tuple(ledger for ledger in ledgers if ledger.run_id not in claimed_run_ids),
        wrapper_sources(wrappers),
        {str(body["metadata"]["name"]): read_parameter_file(body) for body in files},
        tuple(open_claims),
        {identity(body): body["metadata"] for body in (*bodies, *annotated_bodies, *config_maps, *wrappers, *files)},
    )


def _open_claims(
    config_maps: Iterable[Mapping[str, Any]], launch_names: Collection[str], context: str | None
) -> list[Claim]:
    """Return the claims of launches whose names are not in `launch_names`."""
    claims = [body for body in config_maps if is_claim(body) and read_ledger(body).launch_name not in launch_names]
    # Only an interrupted `up` leaves claims, so this request is rarely sent.
    read_at = read_server_time(context) if claims else None
    return [read_claim(body, read_at) for body in claims]


def launch_namespaces(settings: Settings, recorded: Sequence[RecordedLaunch]) -> tuple[str | None, ...]:
    """Return the namespaces in which launches are read, including those of a tenant's recorded launches.

    A run may be active in a namespace that the tenant no longer declares.
    """
    namespaces = run_namespaces(settings)
    if None in namespaces:
        return namespaces
    return tuple(sorted({*filter(None, namespaces), *(launch.namespace for launch in recorded)}))


def read_unlabeled_launches(
    recorded: Iterable[RecordedLaunch], labeled_bodies: Sequence[Mapping[str, Any]], context: str | None
) -> list[LiveLaunch]:
    """Return the recorded launches that exist, are not terminating, and are not in `labeled_bodies`.

    Raises RightsError if the user has no right to read whether a launch exists.
    """
    labeled_identities = {identity(body) for body in labeled_bodies}
    launch_by_path = {
        paths.object_path(launch.manifest): launch
        for launch in recorded
        if (launch.kind, launch.namespace, launch.name) not in labeled_identities
    }
    launches = []
    for path, read_body in _read_existing_launches(launch_by_path, context).items():
        launch, body = launch_by_path[path], {**launch_by_path[path].manifest, **read_body}
        if "deletionTimestamp" not in body["metadata"] and launch.is_same(body["metadata"]):
            launches.append(live_launch(launch.with_labels(body), launch.lost_labels(body)))
    return launches


def _read_existing_launches(launches: Mapping[str, RecordedLaunch], context: str | None) -> dict[str, dict[str, Any]]:
    """Return the objects of launches that exist, by path.

    There may be thousands of recorded launches, most of which no longer exist. Raises RightsError.
    """
    missing, unlistable = _find_missing_launches(launches, context)
    answers = _read([path for path in launches if path not in missing], context)
    denied = [path for path, answer in answers.items() if answer.status == FORBIDDEN and path not in unlistable]
    answers |= _read_by_list(denied, context)
    if unknown_launches := [launches[path] for path, answer in answers.items() if answer.status == FORBIDDEN]:
        raise _unknown_launches_error(unknown_launches)
    return {path: answer.body for path, answer in answers.items() if exists(path, answer)}


def _find_missing_launches(launch_paths: Iterable[str], context: str | None) -> tuple[set[str], set[str]]:
    """Return the paths of launches that a list shows to be missing, and of those whose list the user may not read.

    Only many launches of one kind in one namespace are listed, since the list has all objects of the kind.
    """
    launch_paths_by_list: dict[str, list[str]] = {}
    for path in launch_paths:
        launch_paths_by_list.setdefault(f"{path.rpartition('/')[0]}?limit={PAGE_SIZE}", []).append(path)
    lists = [path for path, objects in launch_paths_by_list.items() if len(objects) > _MAX_INDIVIDUAL_LAUNCHES]
    missing: set[str] = set()
    unlistable: set[str] = set()
    for path, answer in (read_lists(lists, context, metadata_of_items=True) if lists else {}).items():
        if answer.status == FORBIDDEN:
            unlistable.update(launch_paths_by_list[path])
            continue
        items = answer.body["items"] if exists(path, answer) else ()
        names = {str(item["metadata"]["name"]) for item in items}
        missing.update(name for name in launch_paths_by_list[path] if name.rpartition("/")[2] not in names)
    return missing, unlistable


def _read_by_list(object_paths: Iterable[str], context: str | None) -> dict[str, Answer]:
    """Return the responses for objects that are read through lists with a field selector, by the objects' paths.

    The roles of `trainstack rights` allow `list` for every kind of launch, and `get` only for declared kinds.
    """
    object_path_by_list = {}
    for path in object_paths:
        collection, _, name = path.rpartition("/")
        object_path_by_list[f"{collection}?fieldSelector={quote(f'metadata.name={name}')}"] = path
    answers = {}
    for path, answer in _read(list(object_path_by_list), context).items():
        items = answer.body.get("items") or ()
        item = Answer(answer.status, items[0]) if items else Answer(NOT_FOUND, {})
        answers[object_path_by_list[path]] = item if answer.is_success else answer
    return answers


def _read(object_paths: Sequence[str], context: str | None) -> dict[str, Answer]:
    # `read` connects to the cluster even without paths.
    return read(object_paths, context) if object_paths else {}


def read_launches(settings: Settings, namespaces: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return the stack's live launches without their managed fields, sorted by name.

    Raises ClusterError as `read_runs` does.
    """
    return [body for body in _read_labeled_bodies(settings, namespaces, managed_fields=False) if _is_launch(body)]


def read_recorded_launch_names(settings: Settings, namespaces: Sequence[str | None]) -> set[str]:
    """Return the names of the launches that the stack's ledgers record. Raises ClusterError as `read_runs` does."""
    return {ledger.launch_name for ledger in _read_ledgers(settings, namespaces)}


def _read_ledgers(settings: Settings, namespaces: Sequence[str | None]) -> list[Ledger]:
    selector = f"{labels.STACK}={settings.stack},{labels.LEDGER}"
    return [
        read_ledger(body)
        for body in _list_objects([("v1", "ConfigMap")], namespaces, selector, settings.cluster.context)
    ]


def _is_launch(body: Mapping[str, Any]) -> bool:
    return all(label in body["metadata"]["labels"] for label in (labels.RUN, labels.LAUNCH))


def _read_labeled_bodies(
    settings: Settings, namespaces: Sequence[str | None], *, managed_fields: bool = True
) -> list[dict[str, Any]]:
    """Return the stack's objects of all kinds of launches, including commands' data loaders.

    A tenant may lack the right to list a kind. Raises RightsError only if a ledger of the namespace records a launch of
    that kind.
    """
    forbidden: set[tuple[str, str]] = set()
    context, selector = settings.cluster.context, f"{labels.STACK}={settings.stack}"
    # The ledgers name further kinds, since `up` writes a ledger before its launch. A teardown deletes the ledger before
    # its launch has ended, so the declared kinds are listed too.
    ledger_bodies = _list_objects([("v1", "ConfigMap")], namespaces, f"{selector},{labels.KIND}", context)
    launches = [
        launch_from_ledger(read_ledger(body)) for body in ledger_bodies if labels.KIND in body["metadata"]["labels"]
    ]
    kinds = sorted({*other_launch_kinds(settings), *((launch.api_version, launch.kind) for launch in launches)})
    _refuse_irregular_kinds(kinds, context)
    listed_bodies = _list_objects(
        (*_ALWAYS_LISTED, *kinds), namespaces, selector, context, forbidden, managed_fields=managed_fields
    )
    # If launches of a kind were created in two versions, the list of each version has all of them.
    bodies = list({body["metadata"]["uid"]: body for body in listed_bodies}.values())
    if forbidden:
        ledger_launches = map(launch_from_ledger, _read_ledgers(settings, namespaces))
        if unknown_launches := [launch for launch in ledger_launches if (launch.kind, launch.namespace) in forbidden]:
            raise _unknown_launches_error(unknown_launches)
    return bodies


def _refuse_irregular_kinds(kinds: Iterable[tuple[str, str]], context: str | None) -> None:
    """Raise ClusterError if the cluster serves a kind at a path other than `paths.collection_path`.

    Reads would not find the kind's launches. A change would launch them again, or delete them while they are active.
    """
    versions = {
        paths.version_path(api_version): api_version for api_version, kind in kinds if kind not in ALL_LAUNCH_KINDS
    }
    for path, answer in _read(list(versions), context).items():
        for resource in answer.body.get("resources") or () if exists(path, answer) else ():
            kind, name = resource["kind"], resource["name"]
            is_regular = name == plural(kind) and resource["namespaced"]
            if (versions[path], kind) in kinds and "/" not in name and not is_regular:
                scope = "" if resource["namespaced"] else ", which is not in a namespace"
                raise ClusterError(
                    f"the cluster serves {kind} of {versions[path]} as {name}{scope}, and Trainstack finds launches "
                    f"only of namespaced kinds with the usual plural, {plural(kind)}; nothing is changed"
                )


def _list_objects(
    kinds: Sequence[tuple[str, str]],
    namespaces: Sequence[str | None],
    selector: str,
    context: str | None,
    forbidden: set[tuple[str, str]] | None = None,
    *,
    managed_fields: bool = True,
) -> list[dict[str, Any]]:
    """Return the objects of these kinds that `selector` selects, sorted by name.

    `forbidden` receives the kind and namespace of each list that the user may not read; without it, such a list raises
    RightsError.
    """
    kind_by_path = {
        f"{paths.collection_path(api_version, kind, namespace)}?labelSelector={quote(selector)}&limit={PAGE_SIZE}": (
            api_version,
            kind,
            namespace,
        )
        for api_version, kind in kinds
        for namespace in namespaces
    }
    bodies = []
    for path, answer in read_lists(list(kind_by_path), context, managed_fields=managed_fields).items():
        api_version, kind, namespace = kind_by_path[path]
        if forbidden is not None and answer.status == FORBIDDEN and namespace is not None:
            forbidden.add((kind, namespace))
        elif exists(path, answer):
            bodies += answer.items(api_version, kind)
    return sorted(bodies, key=lambda body: str(body["metadata"]["name"]))


def read_metadata(
    manifests: Iterable[Mapping[str, Any]],
    context: str | None,
    *,
    stack_to_list: str | None = None,
    readable_only: bool = False,
) -> dict[Identity, dict[str, Any]]:
    """Return the metadata of the objects that exist, by identity.

    `readable_only`: leave out objects that the user may not read, instead of raising ClusterError.

    `stack_to_list`: the stack whose label selects several objects of a kind in one list. Secrets, objects without the
    label, and objects that the user may not list are read individually.
    """
    identity_by_path = {paths.object_path(manifest): identity(manifest) for manifest in manifests}
    metadata_by_path = _read_listed_metadata(identity_by_path, stack_to_list, context) if stack_to_list else {}
    metadata_by_identity = {
        identity_by_path[path]: metadata for path, metadata in metadata_by_path.items() if path in identity_by_path
    }
    answers = read(
        [path for path, object_identity in identity_by_path.items() if object_identity not in metadata_by_identity],
        context,
        metadata_only=True,
    )
    return metadata_by_identity | {
        identity_by_path[path]: answer.body["metadata"]
        for path, answer in answers.items()
        if answer.is_success or (not readable_only and exists(path, answer))
    }


def _read_listed_metadata(
    objects: Mapping[str, Identity], stack: str, context: str | None
) -> dict[str, dict[str, Any]]:
    """Return the metadata of the stack's objects, by path, from lists of the kinds with several of these objects."""
    count_by_collection = Counter(path.rpartition("/")[0] for path, (kind, *_) in objects.items() if kind != "Secret")
    collections_by_kind: dict[str, list[str]] = {}
    for collection in count_by_collection:
        collections_by_kind.setdefault(_all_namespaces_path(collection), []).append(collection)
    query = f"?labelSelector={quote(f'{labels.STACK}={stack}')}&limit={PAGE_SIZE}"

    def read_answers(collections: Iterable[str]) -> dict[str, Answer]:
        lists = {f"{collection}{query}": collection for collection in collections}
        answers = read_lists([*lists], context, metadata_of_items=True) if lists else {}
        return {lists[path]: answer for path, answer in answers.items()}

    listed_kinds = {
        kind
        for kind, collections in collections_by_kind.items()
        if len(collections) > 1 and sum(count_by_collection[item] for item in collections) > _MAX_INDIVIDUAL_OBJECTS
    }
    answers = read_answers(listed_kinds)
    # A user who may not list a kind in all namespaces may list it in some. If not, or if the kind is not served yet,
    # the objects are read individually.
    unread = [
        collections
        for kind, collections in collections_by_kind.items()
        if kind not in answers or not answers[kind].is_success
    ]
    answers |= read_answers(
        collection
        for collections in unread
        for collection in collections
        if count_by_collection[collection] > _MAX_INDIVIDUAL_OBJECTS
    )
    return {
        _item_path(collection, item["metadata"]): item["metadata"]
        for collection, answer in answers.items()
        for item in answer.body.get("items") or ()
    }


def _all_namespaces_path(collection: str) -> str:
    """Return the path of a collection's kind in all namespaces: `/apis/batch/v1/jobs`."""
    parent, _, plural_name = collection.rpartition("/")
    return f"{parent.partition('/namespaces/')[0]}/{plural_name}"


def _item_path(collection: str, metadata: Mapping[str, Any]) -> str:
    version, _, plural_name = _all_namespaces_path(collection).rpartition("/")
    namespace = metadata.get("namespace")
    namespace_part = f"/namespaces/{namespace}" if namespace else ""
    return f"{version}{namespace_part}/{plural_name}/{metadata['name']}"


def exists(path: str, answer: Answer) -> bool:
    """Return whether the object or list exists. Raises ClusterError if that is unknown, to prevent a wrong change."""
    if not answer.is_success and answer.status != NOT_FOUND:
        location, _, query = path.partition("?")
        problem = (
            f"the cluster answered {answer.status} to {'list' if query else 'get'} {location}, so it is unknown what "
            "exists there, and nothing is changed"
        )
        if answer.status != FORBIDDEN:
            raise ClusterError(f"{problem}; try again")
        is_in_namespace = "/" in location.partition("/namespaces/")[2]
        remedy = (
            _RIGHT_REMEDY
            if is_in_namespace
            else "ask its owner for that right, use another kubeconfig, or, if the environment uses only its own "
            "namespaces, set `profile: tenant`"
        )
        raise RightsError(f"{problem}; {remedy}")
    return answer.is_success


def _unknown_launches_error(launches: Iterable[RecordedLaunch]) -> RightsError:
    """Return the error of a change that would repeat launches if they still exist, which the user may not read."""
    ledgers: dict[tuple[str, str, str], set[str]] = {}
    for launch in launches:
        resource = f"{plural(launch.kind)}.{launch.api_version.rpartition('/')[0]}".strip(".")
        ledger = ledger_name(launch.labels.get(labels.RUN, launch.name))
        ledgers.setdefault((resource, launch.namespace, launch.kind), set()).add(ledger)
    return RightsError(
        "\n".join(
            f"the cluster answered 403 to list {resource} in namespace {namespace}, so it cannot be determined "
            f"which of the {kind} objects recorded in its ledgers still exist, and nothing is changed; "
            f"{_RIGHT_REMEDY}. The ledgers: {format_names(sorted(names))}"
            for (resource, namespace, kind), names in sorted(ledgers.items())
        )
    )
