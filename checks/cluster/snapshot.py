"""What the cluster holds of an environment: its launches, its ledgers, and who owns what it would declare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from checks.cluster import paths
from checks.cluster.client import NOT_FOUND, Answer, ClusterError, read
from checks.launches import LiveLaunch, live_launch
from checks.ownership import Identity, identity
from manifests import labels
from settings.model import Settings
from workloads.records import Ledger, read_ledger, wrapper_sources

_LAUNCH_KINDS = (("v1", "Pod"), ("batch/v1", "Job"), ("kubeflow.org/v1", "PyTorchJob"))
# The pods of a Job bear its run too, but not the stack's mark: they are the Job's.


@dataclass(frozen=True)
class Runs:
    """The runs of a stack, as the cluster knows them."""

    live: tuple[LiveLaunch, ...]
    ledgers: tuple[Ledger, ...]
    wrappers: Mapping[str, str]
    """The sources of the wrappers that launches may still mount, by name."""


def run_namespaces(settings: Settings) -> tuple[str | None, ...]:
    """Where this environment has, or may have had, runs: namespaces, or None for all of them.

    All, because a run may be active in one that the files do not name any more. A tenant may read its own only.
    """
    if settings.environment.profile == "owner":
        return (None,)
    names = {each.name for each in settings.environment.namespaces}
    names |= {volume.namespace for volume in settings.storage.volumes}
    names |= {run.namespace for run in settings.workloads.runs}
    return tuple(sorted(names))


def read_runs(settings: Settings) -> Runs:
    """Read this stack's launches and ledgers; kinds and namespaces that do not exist hold none.

    Raises ClusterError where the cluster cannot be read.
    """
    namespaces, context = run_namespaces(settings), settings.cluster.context
    bodies = read_launches(settings.stack, namespaces, context)
    ledgers = _list([("v1", "ConfigMap")], namespaces, f"{labels.STACK}={settings.stack},{labels.LEDGER}", context)
    wrappers = _list([("v1", "ConfigMap")], namespaces, f"{labels.STACK}={settings.stack},{labels.WRAPPER}", context)
    return Runs(
        tuple(live_launch(body) for body in bodies),
        tuple(read_ledger(body) for body in ledgers),
        wrapper_sources(wrappers),
    )


def read_launches(stack: str, namespaces: Sequence[str | None], context: str | None) -> list[dict[str, Any]]:
    """The stack's live launches of every kind, whole, sorted by name."""
    selector = f"{labels.STACK}={stack},{labels.RUN}"
    return _list(_LAUNCH_KINDS, namespaces, selector, context)


def _list(
    kinds: Sequence[tuple[str, str]], namespaces: Sequence[str | None], selector: str, context: str | None
) -> list[dict[str, Any]]:
    asked = {
        f"{paths.collection(api_version, kind, namespace)}?labelSelector={quote(selector)}": (api_version, kind)
        for api_version, kind in kinds
        for namespace in namespaces
    }
    found = []
    for path, answer in read(list(asked), context).items():
        if not there(path, answer):
            continue
        api_version, kind = asked[path]
        # Items of a list do not say what they are.
        found += [{"apiVersion": api_version, "kind": kind, **item} for item in answer.body["items"]]
    return sorted(found, key=lambda body: str(body["metadata"]["name"]))


def read_labels(manifests: Iterable[Mapping[str, Any]], context: str | None) -> dict[Identity, dict[str, str]]:
    """The labels of those objects that exist, by identity."""
    asked = {paths.location(manifest): identity(manifest) for manifest in manifests}
    answers = read(list(asked), context, metadata_only=True)
    return {
        asked[path]: answer.body["metadata"].get("labels") or {}
        for path, answer in answers.items()
        if there(path, answer)
    }


def there(path: str, answer: Answer) -> bool:
    """Whether there is something. What may not be read is not nothing: a change must not be decided upon that."""
    if not answer.found and answer.status != NOT_FOUND:
        where, _, query = path.partition("?")
        raise ClusterError(
            f"the cluster answered {answer.status} to {'list' if query else 'get'} {where}, so it is not known what is "
            "there, and nothing is changed; ask its owner for that right, take another kubeconfig, or, where an "
            "environment may use only its own namespaces, say `profile: tenant`"
        )
    return answer.found
