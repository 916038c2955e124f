"""Resources that `--exclude` or `--target` leaves out of a change.

The engine responds to their registration as if they existed. With `--exclude`, it then stores their dependents with
references to missing resources, and refuses to read its state from then on.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pulumi
from pulumi.runtime import settings
from pulumi.runtime.proto import resource_pb2

from trainstack.objects.ownership import format_names
from trainstack.runs.recorded_launches import StateResource, state_resource

_HOOK = "left-out"


def refuse_dependents(state: Iterable[StateResource]) -> None:
    """Refuse, from here on, to create or edit a resource that depends on one that the change leaves out.

    `state` has the stored resources, which the engine also stores without an edit: such a dependency is removed.
    """
    # In a preview, no created resource has an id.
    if not pulumi.runtime.is_dry_run():
        monitor: Any = settings.get_monitor()
        stored_resources = {(resource.type, resource.name) for resource in state}
        monitor.RegisterResource = _Registrations(monitor.RegisterResource, stored_resources).register


class _Registrations:
    """The registrations of one program, which pass through it to the engine."""

    def __init__(self, send: Callable[[Any], Any], stored_resources: Collection[tuple[str, str]]) -> None:
        self.send, self.stored_resources = send, stored_resources
        self.excluded_urns: set[str] = set()
        self.missing_dependencies: dict[tuple[str, str], list[str]] = {}
        pulumi.ResourceHook(_HOOK, self.refuse)

    def register(self, request: Any) -> Any:
        """Register a resource, and return the engine's response. The SDK calls this in threads."""
        missing_urns = {*request.dependencies, *_property_dependencies(request)} & self.excluded_urns
        if missing_urns and request.custom:
            self.missing_dependencies[request.type, request.name] = sorted(map(_display_name, missing_urns))
            request.hooks.before_create.append(_HOOK)
            request.hooks.before_update.append(_HOOK)
        # A new resource keeps its dependencies for `--exclude-dependents`. A component has no object.
        if missing_urns and (not request.custom or (request.type, request.name) in self.stored_resources):
            _remove_dependencies(request, missing_urns)
        response = self.send(request)
        if request.custom and not response.id and response.result == resource_pb2.Result.SUCCESS:
            self.excluded_urns.add(response.urn)
        return response

    def refuse(self, args: pulumi.ResourceHookArgs) -> None:
        """Raise RunError with the missing dependencies of a resource."""
        raise pulumi.RunError(
            f"{args.name} depends on {format_names(self.missing_dependencies[args.type, args.name])}, which "
            "`--exclude` or `--target` leaves out of this change; leave both out (`--exclude-dependents`), or neither"
        )


def _property_dependencies(request: Any) -> set[str]:
    return {urn for dependencies in request.propertyDependencies.values() for urn in dependencies.urns}


def _remove_dependencies(request: Any, missing_urns: set[str]) -> None:
    urn_lists = [request.dependencies, *(dependencies.urns for dependencies in request.propertyDependencies.values())]
    for urns in urn_lists:
        urns[:] = [urn for urn in urns if urn not in missing_urns]


def _display_name(urn: str) -> str:
    """Return kind and name: `Job team/digits`."""
    resource = state_resource(urn, None)
    return f"{resource.type.rpartition(':')[2]} {resource.name}"
