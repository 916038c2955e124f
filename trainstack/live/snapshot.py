"""What the cluster holds of an environment: its launches, its ledgers, and who owns what it would declare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from trainstack.live import paths
from trainstack.live.client import FORBIDDEN, NOT_FOUND, PAGE, Answer, ClusterError, RightsError, read, read_lists
from trainstack.objects import labels
from trainstack.objects.ownership import Identity, identity, listed
from trainstack.runs.launches import LiveLaunch, live_launch
from trainstack.runs.names import ledger_name
from trainstack.runs.parameter_file import Data
from trainstack.runs.recorded import RecordedLaunch, launch_of, merged
from trainstack.runs.records import Claim, Ledger, read_claim, read_ledger, wrapper_sources
from trainstack.runs.status.kinds import KINDS
from trainstack.settings.model import Settings

LAUNCH_KINDS = tuple((facts.api_version, kind) for kind, facts in KINDS.items())
# The pods of a Job bear its run too, but not the stack's mark: they are the Job's.
_ONE_BY_ONE = 20
"""Recorded launches of one kind in one namespace that are read one by one. If there are more, a list tells first which
of them still exist."""
_ASK_FOR_RIGHT = (
    "ask the platform's owner for that right (`trainstack:tenants` in the platform's environment gives a team all that "
    "it needs, and so do the roles of `trainstack rights`), or take another kubeconfig"
)


@dataclass(frozen=True)
class Runs:
    """The runs of a stack, as the cluster knows them."""

    live: tuple[LiveLaunch, ...]
    ledgers: tuple[Ledger, ...]
    wrappers: Mapping[str, str]
    """The sources of the wrappers that launches may still mount, by name."""
    files: Mapping[str, Data] = field(default_factory=dict)
    """The parameter files of sweeps that launches may still mount, by name."""
    claims: tuple[Claim, ...] = ()
    """Ledgers of launches that were claimed, and that neither the cluster nor the engine's state has."""
    metadata: Mapping[Identity, Mapping[str, Any]] = field(default_factory=dict)
    """Of all these objects, also of those that are being deleted, and of launches that lost a label."""


def run_namespaces(settings: Settings) -> tuple[str | None, ...]:
    """Where this environment has, or may have had, runs: namespaces, or None for all of them.

    All, because a run may be active in one that the files do not name any more. A tenant may read its own only.
    """
    if settings.environment.profile == "owner":
        return (None,)
    environment = settings.environment
    names = {*(each.name for each in environment.namespaces), *environment.existing.namespaces}
    names |= {volume.namespace for volume in settings.storage.volumes}
    names |= {run.namespace for _, run in settings.trained()}
    return tuple(sorted(names))


def read_runs(settings: Settings, recorded: Sequence[RecordedLaunch] = ()) -> Runs:
    """Read this stack's launches and ledgers; kinds and namespaces that do not exist hold none.

    What is being deleted is gone already: whatever is decided, it stays no longer. Launches are found by their labels,
    and those without by the engine's state and by the ledgers.

    Args:
        settings: the environment.
        recorded: the launches in the engine's state, where that is at hand.

    Raises ClusterError where the cluster cannot be read.
    """
    context, namespaces = settings.cluster.context, launch_namespaces(settings, recorded)
    marked = _read_marked(settings.stack, namespaces, context)
    bodies = [body for body in marked if _is_launch(body)]
    config_maps, wrappers, files = (
        _list([("v1", "ConfigMap")], namespaces, f"{labels.STACK}={settings.stack},{label}", context)
        for label in (labels.LEDGER, labels.WRAPPER, f"{labels.SWEEP},!{labels.LEDGER}")
    )
    config_maps = [body for body in config_maps if "deletionTimestamp" not in body["metadata"]]
    ledgers = [read_ledger(body) for body in config_maps]
    live = [live_launch(body) for body in bodies if "deletionTimestamp" not in body["metadata"]]
    live += read_unlabelled(merged(recorded, ledgers), bodies, context)
    made = {launch.launch for launch in live} | {launch.labels.get(labels.LAUNCH, "") for launch in recorded}
    open_claims = [claim for claim in map(read_claim, config_maps) if claim and claim.ledger.launch_name not in made]
    unmade = {claim.ledger.run_id for claim in open_claims}
    # A launch that lost another label still shows which state owns it. A command's data loader has no state.
    declared = [body for body in marked if labels.STATE in (body["metadata"].get("annotations") or {})]
    return Runs(
        tuple(live),
        tuple(ledger for ledger in ledgers if ledger.run_id not in unmade),
        wrapper_sources(wrappers),
        {str(body["metadata"]["name"]): body.get("data") or {} for body in files},
        tuple(open_claims),
        {identity(body): body["metadata"] for body in (*bodies, *declared, *config_maps, *wrappers, *files)},
    )


def launch_namespaces(settings: Settings, recorded: Sequence[RecordedLaunch]) -> tuple[str | None, ...]:
    """Where launches are looked for: a tenant may have moved a run, whose active launch is where it was before."""
    namespaces = run_namespaces(settings)
    if None in namespaces:
        return namespaces
    return tuple(sorted({*filter(None, namespaces), *(launch.namespace for launch in recorded)}))


def read_unlabelled(
    recorded: Iterable[RecordedLaunch], labelled: Sequence[Mapping[str, Any]], context: str | None
) -> list[LiveLaunch]:
    """The recorded launches that exist, are not being deleted, and are not among those that were found by label.

    Raises RightsError where the user may not read whether one of them exists.
    """
    known = {identity(body) for body in labelled}
    by_path = {
        paths.location(launch.manifest): launch
        for launch in recorded
        if (launch.kind, launch.namespace, launch.name) not in known
    }
    found = []
    for path, read_body in _read_existing(by_path, context).items():
        launch, body = by_path[path], {**by_path[path].manifest, **read_body}
        if "deletionTimestamp" not in body["metadata"] and launch.is_same(body["metadata"]):
            found.append(live_launch(launch.with_labels(body), launch.lost(body)))
    return found


def _read_existing(launches: Mapping[str, RecordedLaunch], context: str | None) -> dict[str, dict[str, Any]]:
    """Those of the launches' objects that exist, whole, by path.

    A stack may remember thousands of launches whose objects went long ago.
    """
    gone, unlistable = _look_for_many(launches, context)
    answers = _read([path for path in launches if path not in gone], context)
    denied = [path for path, answer in answers.items() if answer.status == FORBIDDEN and path not in unlistable]
    answers |= _read_by_list(denied, context)
    if unknown := [launches[path] for path, answer in answers.items() if answer.status == FORBIDDEN]:
        raise _unknown(unknown)
    return {path: answer.body for path, answer in answers.items() if there(path, answer)}


def _look_for_many(launches: Iterable[str], context: str | None) -> tuple[set[str], set[str]]:
    """Which of the launches' objects are gone, and which belong to a list that may not be read; both by path.

    Only where there are many of one kind in one namespace: the list also has every other object of that kind there.
    """
    by_list: dict[str, list[str]] = {}
    for path in launches:
        by_list.setdefault(f"{path.rpartition('/')[0]}?limit={PAGE}", []).append(path)
    asked = [path for path, several in by_list.items() if len(several) > _ONE_BY_ONE]
    gone: set[str] = set()
    unlistable: set[str] = set()
    for path, answer in (read_lists(asked, context) if asked else {}).items():
        if answer.status == FORBIDDEN:
            unlistable.update(by_list[path])
            continue
        items = answer.body["items"] if there(path, answer) else ()
        names = {str(item["metadata"]["name"]) for item in items}
        gone.update(each for each in by_list[path] if each.rpartition("/")[2] not in names)
    return gone, unlistable


def _read_by_list(objects: Iterable[str], context: str | None) -> dict[str, Answer]:
    """The answers that GETs of these objects would have, for a user who may list a kind and not get it.

    The roles of `trainstack rights` allow `list` for every kind of launch, and `get` only for those that are declared.
    """
    asked = {}
    for path in objects:
        where, _, name = path.rpartition("/")
        asked[f"{where}?fieldSelector={quote(f'metadata.name={name}')}"] = path
    found = {}
    for path, answer in _read(list(asked), context).items():
        items = answer.body.get("items") or ()
        one = Answer(answer.status, items[0]) if items else Answer(NOT_FOUND, {})
        found[asked[path]] = one if answer.found else answer
    return found


def _read(asked: Sequence[str], context: str | None) -> dict[str, Answer]:
    """Like `read`, which connects to the cluster even if nothing is asked."""
    return read(asked, context) if asked else {}


def read_launches(stack: str, namespaces: Sequence[str | None], context: str | None) -> list[dict[str, Any]]:
    """The stack's live launches of every kind, whole, sorted by name. Raises ClusterError as `read_runs` does."""
    return [body for body in _read_marked(stack, namespaces, context) if _is_launch(body)]


def _is_launch(body: Mapping[str, Any]) -> bool:
    marks: Mapping[str, str] = body["metadata"]["labels"]
    return labels.RUN in marks and labels.LAUNCH in marks


def _read_marked(stack: str, namespaces: Sequence[str | None], context: str | None) -> list[dict[str, Any]]:
    """The stack's objects of all kinds of launches: those of runs, and the data loaders of commands.

    A tenant may lack rights on a kind that it does not use: where none of a namespace's ledgers is of that kind it has
    launched none there, and may not.
    """
    forbidden: set[tuple[str, str]] = set()
    found = _list(LAUNCH_KINDS, namespaces, f"{labels.STACK}={stack}", context, forbidden)
    if forbidden:
        ledgers = _list([("v1", "ConfigMap")], namespaces, f"{labels.STACK}={stack},{labels.LEDGER}", context)
        launched = [launch_of(read_ledger(body)) for body in ledgers]
        if unknown := [launch for launch in launched if (launch.kind, launch.namespace) in forbidden]:
            raise _unknown(unknown)
    return found


def _list(
    kinds: Sequence[tuple[str, str]],
    namespaces: Sequence[str | None],
    selector: str,
    context: str | None,
    forbidden: set[tuple[str, str]] | None = None,
) -> list[dict[str, Any]]:
    """What bears the labels. `forbidden` takes kind and namespace of what may not be read in one; else that fails."""
    asked = {
        f"{paths.collection(api_version, kind, namespace)}?labelSelector={quote(selector)}": (
            api_version,
            kind,
            namespace,
        )
        for api_version, kind in kinds
        for namespace in namespaces
    }
    found = []
    for path, answer in read(list(asked), context).items():
        api_version, kind, namespace = asked[path]
        if forbidden is not None and answer.status == FORBIDDEN and namespace is not None:
            forbidden.add((kind, namespace))
            continue
        if not there(path, answer):
            continue
        # Items of a list do not say what they are.
        found += [{"apiVersion": api_version, "kind": kind, **item} for item in answer.body["items"]]
    return sorted(found, key=lambda body: str(body["metadata"]["name"]))


def read_metadata(manifests: Iterable[Mapping[str, Any]], context: str | None) -> dict[Identity, dict[str, Any]]:
    """The metadata of those objects that exist, by identity."""
    asked = {paths.location(manifest): identity(manifest) for manifest in manifests}
    answers = read(list(asked), context, metadata_only=True)
    return {asked[path]: answer.body["metadata"] for path, answer in answers.items() if there(path, answer)}


def _in_namespace(path: str) -> bool:
    """Whether the path is of something in a namespace, and not of a namespace."""
    return "/" in path.partition("/namespaces/")[2].partition("?")[0]


def there(path: str, answer: Answer) -> bool:
    """Whether there is something. What may not be read is not nothing: a change must not be decided upon that."""
    if not answer.found and answer.status != NOT_FOUND:
        where, _, query = path.partition("?")
        told = (
            f"the cluster answered {answer.status} to {'list' if query else 'get'} {where}, so it is not known what is "
            "there, and nothing is changed"
        )
        if answer.status != FORBIDDEN:
            raise ClusterError(f"{told}; try again")
        remedy = (
            _ASK_FOR_RIGHT
            if _in_namespace(where)
            else "ask its owner for that right, take another kubeconfig, or, where an environment may use only its own "
            "namespaces, say `profile: tenant`"
        )
        raise RightsError(f"{told}; {remedy}")
    return answer.found


def _unknown(launches: Iterable[RecordedLaunch]) -> RightsError:
    """The refusal of a change while it is not known whether these launches still exist: none may be made twice."""
    ledgers: dict[tuple[str, str, str], set[str]] = {}
    for launch in launches:
        plural = paths.collection(launch.api_version, launch.kind, None).rpartition("/")[2]
        resource = f"{plural}.{launch.api_version.rpartition('/')[0]}".strip(".")
        ledger = ledger_name(launch.labels.get(labels.RUN, launch.name))
        ledgers.setdefault((resource, launch.namespace, launch.kind), set()).add(ledger)
    return RightsError(
        "\n".join(
            f"the cluster answered 403 to list {resource} in namespace {namespace}, so it cannot be determined "
            f"which of the {kind} objects recorded in its ledgers still exist, and nothing is changed; "
            f"{_ASK_FOR_RIGHT}. The ledgers: {listed(sorted(names))}"
            for (resource, namespace, kind), names in sorted(ledgers.items())
        )
    )
