"""What the cluster holds of an environment: its launches, its ledgers, and who owns what it would declare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from checks.cluster import paths
from checks.cluster.client import FORBIDDEN, NOT_FOUND, Answer, ClusterError, RightsError, read
from checks.kinds import KINDS
from checks.launches import LiveLaunch, live_launch
from checks.ownership import Identity, identity
from checks.recorded import RecordedLaunch, merged
from manifests import labels
from settings.model import Settings
from workloads.parameter_file import Data
from workloads.records import Claim, Ledger, read_claim, read_ledger, wrapper_sources

LAUNCH_KINDS = tuple((facts.api_version, kind) for kind, facts in KINDS.items())
# The pods of a Job bear its run too, but not the stack's mark: they are the Job's.


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
    """Of all these objects, also of those that are being deleted."""


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
    bodies = read_launches(settings.stack, namespaces, context)
    config_maps, wrappers, files = (
        _list([("v1", "ConfigMap")], namespaces, f"{labels.STACK}={settings.stack},{marked}", context)
        for marked in (labels.LEDGER, labels.WRAPPER, f"{labels.SWEEP},!{labels.LEDGER}")
    )
    config_maps = [body for body in config_maps if "deletionTimestamp" not in body["metadata"]]
    ledgers = [read_ledger(body) for body in config_maps]
    live = [live_launch(body) for body in bodies if "deletionTimestamp" not in body["metadata"]]
    live += read_unlabelled(merged(recorded, ledgers), bodies, context)
    made = {launch.launch for launch in live} | {launch.labels.get(labels.LAUNCH, "") for launch in recorded}
    open_claims = [claim for claim in map(read_claim, config_maps) if claim and claim.ledger.launch_name not in made]
    unmade = {claim.ledger.run_id for claim in open_claims}
    return Runs(
        tuple(live),
        tuple(ledger for ledger in ledgers if ledger.run_id not in unmade),
        wrapper_sources(wrappers),
        {str(body["metadata"]["name"]): body.get("data") or {} for body in files},
        tuple(open_claims),
        {identity(body): body["metadata"] for body in (*bodies, *config_maps, *wrappers, *files)},
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
    """The recorded launches that exist, are not being deleted, and are not among those that were found by label."""
    known = {identity(body) for body in labelled}
    by_path = {
        paths.location(launch.manifest): launch
        for launch in recorded
        if (launch.kind, launch.namespace, launch.name) not in known
    }
    found = []
    for path, answer in read(list(by_path), context).items():
        if not there(path, answer):
            continue
        launch, body = by_path[path], {**by_path[path].manifest, **answer.body}
        if "deletionTimestamp" not in body["metadata"] and launch.is_same(body["metadata"]):
            found.append(live_launch(launch.with_labels(body), launch.lost(body)))
    return found


def read_launches(stack: str, namespaces: Sequence[str | None], context: str | None) -> list[dict[str, Any]]:
    """The stack's live launches of every kind, whole, sorted by name.

    A tenant may lack rights on a kind that it does not use: where none of its ledgers is of that kind it has launched
    none, and may not.
    """
    forbidden: dict[str, tuple[Answer, str]] = {}
    selector = f"{labels.STACK}={stack},{labels.RUN},{labels.LAUNCH}"
    found = _list(LAUNCH_KINDS, namespaces, selector, context, forbidden)
    if forbidden:
        ledgers = _list([("v1", "ConfigMap")], namespaces, f"{labels.STACK}={stack},{labels.LEDGER}", context)
        launched = {str(read_ledger(body).launch["kind"]) for body in ledgers}
        for path, (answer, kind) in forbidden.items():
            if kind in launched:
                there(path, answer)
    return found


def _list(
    kinds: Sequence[tuple[str, str]],
    namespaces: Sequence[str | None],
    selector: str,
    context: str | None,
    forbidden: dict[str, tuple[Answer, str]] | None = None,
) -> list[dict[str, Any]]:
    """What bears the labels. `forbidden` takes, by path, what may not be read in a namespace; else that fails."""
    asked = {
        f"{paths.collection(api_version, kind, namespace)}?labelSelector={quote(selector)}": (api_version, kind)
        for api_version, kind in kinds
        for namespace in namespaces
    }
    found = []
    for path, answer in read(list(asked), context).items():
        api_version, kind = asked[path]
        if forbidden is not None and answer.status == FORBIDDEN and _in_namespace(path):
            forbidden[path] = (answer, kind)
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
        remedy = (
            "ask the platform's owner for that right (`trainstack:tenants` in the platform's environment gives a team "
            "all that it needs), or take another kubeconfig"
            if _in_namespace(where)
            else "ask its owner for that right, take another kubeconfig, or, where an environment may use only its own "
            "namespaces, say `profile: tenant`"
        )
        problem = RightsError if answer.status == FORBIDDEN else ClusterError
        raise problem(
            f"the cluster answered {answer.status} to {'list' if query else 'get'} {where}, so it is not known what is "
            f"there, and nothing is changed; {remedy}"
        )
    return answer.found
