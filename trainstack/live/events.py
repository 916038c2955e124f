"""Reading the events of runs' objects: launches, Workloads, pods, Services and volume claims."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainstack.live.client import Answer, RightsError, read
from trainstack.live.companions import companion_paths, companions
from trainstack.live.progress import paths_of
from trainstack.runs.status.events import EventView, events_of


def read_events(bodies: Sequence[Mapping[str, Any]], all_names: Sequence[str], context: str | None) -> list[EventView]:
    """The events of these launches and of what belongs to them, oldest first.

    Args:
        bodies: the live launches.
        all_names: the names of all live launches.
        context: the kubeconfig's context; None: its current one.

    Raises ClusterError; RightsError where events may not be read.

    """
    runtimes = companion_paths(bodies)
    beside = read(runtimes, context) if runtimes else {}
    asked = [paths_of(body, companions(body, beside)) for body in bodies]
    lists = [path for each in asked for path in (each.pods, each.workloads)]
    objects = [path for each in asked for path in each.claims.values()]
    namespaces = dict.fromkeys(body["metadata"]["namespace"] for body in bodies)
    wanted = {namespace: f"/api/v1/namespaces/{namespace}/events" for namespace in namespaces}
    answers = read([*wanted.values(), *lists, *objects], context)
    there = [*bodies, *(item for path in lists for item in answers[path].body.get("items", ()))]
    there += [answers[path].body for path in objects if answers[path].found]
    return events_of(
        (event for namespace, path in wanted.items() for event in _events(answers[path], namespace)),
        {str(each["metadata"]["uid"]) for each in there},
        {str(body["metadata"]["name"]) for body in bodies},
        all_names,
    )


def _events(answer: Answer, namespace: str) -> list[Mapping[str, Any]]:
    if answer.object is None:
        raise RightsError(
            f"the events of namespace {namespace} may not be read with these credentials; who administers the "
            "namespace can grant it: the right to list events"
        )
    return list(answer.object.get("items", []))
