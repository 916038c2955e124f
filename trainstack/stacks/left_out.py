"""Resources that `--exclude` or `--target` leaves out of a change.

The engine answers their registration as if they existed. With `--exclude`, it then stores what depends on them with
references to nothing, and refuses to read its own state from then on.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pulumi
from pulumi.runtime import settings
from pulumi.runtime.proto import resource_pb2

from trainstack.objects.ownership import listed
from trainstack.runs.recorded import StateResource, state_resource

_HOOK = "left-out"


def refuse_dependents(state: Iterable[StateResource]) -> None:
    """Refuse, from here on, to create or edit a resource that depends on one that the change leaves out.

    `state` has the resources that the engine stores also if they are not edited: without such a dependency.
    """
    # In a preview, no created resource has an id.
    if not pulumi.runtime.is_dry_run():
        monitor: Any = settings.get_monitor()
        stored = {(resource.type, resource.name) for resource in state}
        monitor.RegisterResource = _Registrations(monitor.RegisterResource, stored).register


class _Registrations:
    def __init__(self, send: Callable[[Any], Any], stored: Collection[tuple[str, str]]) -> None:
        self.send, self.stored = send, stored
        self.left_out: set[str] = set()
        self.needs: dict[tuple[str, str], list[str]] = {}
        pulumi.ResourceHook(_HOOK, self.refuse)

    def register(self, request: Any) -> Any:
        """Register a resource; called in threads."""
        missing = {*request.dependencies, *_of_properties(request)} & self.left_out
        if missing and request.custom:
            self.needs[request.type, request.name] = sorted(map(_shown, missing))
            request.hooks.before_create.append(_HOOK)
            request.hooks.before_update.append(_HOOK)
        # The engine needs the dependencies of a new resource for `--exclude-dependents`. A component has no object.
        if missing and (not request.custom or (request.type, request.name) in self.stored):
            _remove(request, missing)
        response = self.send(request)
        if request.custom and not response.id and response.result == resource_pb2.Result.SUCCESS:
            self.left_out.add(response.urn)
        return response

    def refuse(self, args: pulumi.ResourceHookArgs) -> None:
        raise pulumi.RunError(
            f"{args.name} depends on {listed(self.needs[args.type, args.name])}, which `--exclude` or `--target` "
            "leaves out of this change; leave both out (`--exclude-dependents`), or neither"
        )


def _of_properties(request: Any) -> set[str]:
    return {urn for dependencies in request.propertyDependencies.values() for urn in dependencies.urns}


def _remove(request: Any, missing: set[str]) -> None:
    lists = [request.dependencies, *(dependencies.urns for dependencies in request.propertyDependencies.values())]
    for urns in lists:
        urns[:] = [urn for urn in urns if urn not in missing]


def _shown(urn: str) -> str:
    """Return kind and name: `Job team/digits`."""
    resource = state_resource(urn, None)
    return f"{resource.type.rpartition(':')[2]} {resource.name}"
