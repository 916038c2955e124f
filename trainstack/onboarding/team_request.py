"""A request for a new team, and its validation against the platform's settings. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainstack.settings.errors import suggest_name
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import ClusterQueue
from trainstack.settings.sections.tenants import Team
from trainstack.settings.values.quantities import canonical_quantity

_NODE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class TeamRequest:
    """The options of a command for a new team. Defaults replace values that are None or empty."""

    name: str
    namespace: str | None = None
    cohort: str | None = None
    flavor: str | None = None
    quota: Mapping[str, str]
    """Nominal quota by resource."""
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


def find_faults(platform: Settings, request: TeamRequest) -> list[str]:
    """Return the faults of a request, with remedies."""
    if "platform" not in platform.environment.layers or platform.environment.profile != "owner":
        return [f"{platform.stack} is not a platform: name the environment that declares the queues with -s"]
    quota_faults = list(_quota_faults(platform, request.quota))
    violations = [*_name_faults(request), *_choice_faults(platform, request), *quota_faults]
    if not quota_faults:
        violations += _contradiction_faults(platform, request)
    return violations


def nominal_quotas(queue: ClusterQueue) -> dict[tuple[str, str], str]:
    """Return the nominal quotas of a queue, by flavor and resource."""
    return {
        (flavor.name, quota.name): quota.nominal_quota
        for group in queue.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def _name_faults(request: TeamRequest) -> Iterator[str]:
    for name, kind in ((request.name, "team"), (request.namespace or request.name, "namespace")):
        if not _NAME.fullmatch(name):
            yield (
                f"{name!r} is not a valid name for a {kind}; use at most 40 lower-case letters, digits and '-', with a "
                "letter or digit at both ends"
            )


def _choice_faults(platform: Settings, request: TeamRequest) -> Iterator[str]:
    queues, stack = platform.queues, platform.stack
    queue_exists = request.name in [queue.name for queue in queues.cluster_queues]
    flavors, cohorts = [flavor.name for flavor in queues.flavors], [cohort.name for cohort in queues.cohorts]
    if request.flavor is not None and request.flavor not in flavors:
        yield f"{stack} has no flavor {request.flavor}; {suggest_name(request.flavor, flavors)}"
    elif request.flavor is None and not queue_exists and len(flavors) != 1:
        remedy = f"name one with --flavor: {', '.join(flavors)}" if flavors else "declare one under queues.flavors"
        yield f"{stack} has {len(flavors)} flavors for the quota; {remedy}"
    if request.cohort is not None and request.cohort not in cohorts:
        yield f"{stack} has no cohort {request.cohort}; {suggest_name(request.cohort, cohorts)}"
    elif request.cohort is None and not queue_exists and len(cohorts) > 1:
        yield f"{stack} has {len(cohorts)} cohorts; name one with --cohort: {', '.join(cohorts)}"


def _quota_faults(platform: Settings, quota: Mapping[str, str]) -> Iterator[str]:
    groups = (group for queue in platform.queues.cluster_queues for group in queue.resource_groups)
    known_resources = {*_NODE_RESOURCES, *(name for group in groups for name in group.covered_resources)}
    for resource, text in quota.items():
        if resource not in known_resources and "/" not in resource:
            yield (
                f"--quota {resource}={text}: unknown resource {resource}; known are "
                f"{', '.join(sorted(known_resources))}, and devices with their vendor's domain, such as nvidia.com/gpu"
            )
        try:
            canonical_quantity(text)
        except ValueError as error:
            yield f"--quota {resource}={text}: {error}"


def _contradiction_faults(platform: Settings, request: TeamRequest) -> Iterator[str]:
    """Yield requested values that differ from existing entries, which are never edited."""
    name, namespace = request.name, request.namespace or request.name
    remedy = f"edit it in Pulumi.{platform.stack}.yaml, or choose another name"
    for team in platform.tenants.teams:
        if team.name == name:
            for key, value in _team_differences(request, team):
                yield f"team {name} already exists with {key} {value}; {remedy}"
    for queue in platform.queues.cluster_queues:
        if queue.name == name:
            for difference in _queue_differences(request, queue):
                yield f"cluster queue {name} already exists {difference}; {remedy}"
    for local_queue in platform.queues.local_queues:
        if (local_queue.name, local_queue.namespace) == (name, namespace) and local_queue.cluster_queue != name:
            yield (
                f"local queue {namespace}/{name} already exists for cluster queue {local_queue.cluster_queue}; {remedy}"
            )


def _team_differences(request: TeamRequest, team: Team) -> Iterator[tuple[str, str]]:
    # The default of --namespace is the team's name, in every call.
    if (request.namespace or request.name) != team.namespace:
        yield "namespace", team.namespace
    if request.groups and request.groups != team.groups:
        yield "groups", ", ".join(team.groups) or "none"
    if request.users and request.users != team.users:
        yield "users", ", ".join(team.users) or "none"


def _queue_differences(request: TeamRequest, queue: ClusterQueue) -> Iterator[str]:
    if request.cohort is not None and request.cohort != queue.cohort:
        yield f"in cohort {queue.cohort or 'none'}"
    quotas = nominal_quotas(queue)
    flavors = sorted({flavor for flavor, _ in quotas})
    if request.flavor is not None and request.flavor not in flavors:
        yield f"on flavor {', '.join(flavors)}"
    for resource, text in request.quota.items():
        quantities = [quantity for (_, name), quantity in quotas.items() if name == resource]
        if canonical_quantity(text) not in quantities:
            yield f"with {resource} {' and '.join(quantities) or '0'}"
