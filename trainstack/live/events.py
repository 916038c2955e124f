"""Reads of the events of runs' objects: launches, Workloads, pods, Services and volume claims."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainstack.live.client import Answer, RightsError, read
from trainstack.live.companions import companion_paths, companions
from trainstack.live.progress import paths_of
from trainstack.runs.status.events import EventView, events_of


def read_events(bodies: Sequence[Mapping[str, Any]], all_names: Sequence[str], context: str | None) -> list[EventView]:
    """Return the events of launches and of their objects, oldest first.

    `all_names`: the names of all live launches. Raises ClusterError, and RightsError if the user may not read events.
    """
    runtimes = companion_paths(bodies)
    referenced = read(runtimes, context) if runtimes else {}
    launches = [paths_of(body, companions(body, referenced)) for body in bodies]
    lists = [path for launch in launches for path in (launch.pods, launch.workloads)]
    objects = [path for launch in launches for path in launch.claims.values()]
    namespaces = dict.fromkeys(body["metadata"]["namespace"] for body in bodies)
    events = {namespace: f"/api/v1/namespaces/{namespace}/events" for namespace in namespaces}
    answers = read([*events.values(), *lists, *objects], context)
    found = [*bodies, *(item for path in lists for item in answers[path].body.get("items", ()))]
    found += [answers[path].body for path in objects if answers[path].found]
    return events_of(
        (event for namespace, path in events.items() for event in _events(answers[path], namespace)),
        {str(body["metadata"]["uid"]) for body in found},
        {str(body["metadata"]["name"]) for body in bodies},
        all_names,
    )


def _events(answer: Answer, namespace: str) -> list[Mapping[str, Any]]:
    if answer.object is None:
        raise RightsError(
            f"the events of namespace {namespace} may not be read with these credentials; ask the namespace's "
            "administrator for the right to list events"
        )
    return list(answer.object.get("items", []))
