"""Reads of the events of runs' objects: launches, Workloads, pods, Services and volume claims."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainstack.live.client import Answer, RightsError, read
from trainstack.live.companions import companion_paths, companions
from trainstack.live.run_views import paths_of_launch
from trainstack.runs.status.events import EventView, run_events


def read_events(bodies: Sequence[Mapping[str, Any]], all_names: Sequence[str], context: str | None) -> list[EventView]:
    """Return the events of launches and of their objects, oldest first.

    `all_names`: the names of all live launches. Raises ClusterError, and RightsError if the user may not read events.
    """
    runtime_paths = companion_paths(bodies)
    companion_answers = read(runtime_paths, context) if runtime_paths else {}
    launch_paths = [paths_of_launch(body, companions(body, companion_answers)) for body in bodies]
    list_paths = [path for launch in launch_paths for path in (launch.pods, launch.workloads)]
    claim_paths = [path for launch in launch_paths for path in launch.claims.values()]
    namespaces = dict.fromkeys(body["metadata"]["namespace"] for body in bodies)
    event_list_by_namespace = {namespace: f"/api/v1/namespaces/{namespace}/events" for namespace in namespaces}
    answers = read([*event_list_by_namespace.values(), *list_paths, *claim_paths], context)
    related_bodies = [*bodies, *(item for path in list_paths for item in answers[path].body.get("items", ()))]
    related_bodies += [answers[path].body for path in claim_paths if answers[path].is_success]
    return run_events(
        (
            event
            for namespace, path in event_list_by_namespace.items()
            for event in _parse_events(answers[path], namespace)
        ),
        {str(body["metadata"]["uid"]) for body in related_bodies},
        {str(body["metadata"]["name"]) for body in bodies},
        all_names,
    )


def _parse_events(answer: Answer, namespace: str) -> list[Mapping[str, Any]]:
    if answer.readable_body is None:
        raise RightsError(
            f"the events of namespace {namespace} may not be read with these credentials; ask the namespace's "
            "administrator for the right to list events"
        )
    return list(answer.readable_body.get("items", []))
