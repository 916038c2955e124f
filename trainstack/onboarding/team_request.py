"""A request for a new team, held against the platform that is to serve it. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trainstack.settings.errors import nearest
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import ClusterQueue
from trainstack.settings.values.quantities import canonical

_NODE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


class TeamError(ValueError):
    """A team that cannot be added: every reason, with its remedy."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for; None and empty: choose."""

    name: str
    namespace: str | None = None
    cohort: str | None = None
    flavor: str | None = None
    quota: Mapping[str, str]
    """Nominal quota by resource."""
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


def faults(platform: Settings, request: Request) -> list[str]:
    """Why the team cannot be added: each reason with its remedy; none when it can."""
    if "platform" not in platform.environment.halves or platform.environment.profile != "owner":
        return [f"{platform.stack} is no platform: name the environment that declares the queues, with -s"]
    bad = list(_bad_quota(platform, request.quota))
    found = [*_bad_names(request), *_bad_choices(platform, request), *bad]
    if not bad:
        found += _contradictions(platform, request)
    return found


def nominal(queue: ClusterQueue) -> dict[tuple[str, str], str]:
    """A queue's nominal quota by flavor and resource."""
    return {
        (flavor.name, quota.name): quota.nominal_quota
        for group in queue.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    }


def _bad_names(request: Request) -> Iterator[str]:
    for word, what in ((request.name, "team"), (request.namespace or request.name, "namespace")):
        if not _NAME.fullmatch(word):
            yield (
                f"{word!r} is no name for a {what}; use at most 40 lower-case letters, digits and '-', with a letter "
                "or digit at both ends"
            )


def _bad_choices(platform: Settings, request: Request) -> Iterator[str]:
    queues, stack = platform.queues, platform.stack
    there = any(one.name == request.name for one in queues.cluster_queues)
    flavors, cohorts = [one.name for one in queues.flavors], [one.name for one in queues.cohorts]
    if request.flavor is not None and request.flavor not in flavors:
        yield f"no flavor of {stack} is {request.flavor}; {nearest(request.flavor, flavors)}"
    elif request.flavor is None and not there and len(flavors) != 1:
        several = f"name one with --flavor: {', '.join(flavors)}" if flavors else "declare one under queues.flavors"
        yield f"{stack} has {len(flavors)} flavors to count the quota on; {several}"
    if request.cohort is not None and request.cohort not in cohorts:
        yield f"no cohort of {stack} is {request.cohort}; {nearest(request.cohort, cohorts)}"
    elif request.cohort is None and not there and len(cohorts) > 1:
        yield f"{stack} has {len(cohorts)} cohorts; name one with --cohort: {', '.join(cohorts)}"


def _bad_quota(platform: Settings, quota: Mapping[str, str]) -> Iterator[str]:
    groups = (group for queue in platform.queues.cluster_queues for group in queue.resource_groups)
    known = {*_NODE_RESOURCES, *(name for group in groups for name in group.covered_resources)}
    for resource, text in quota.items():
        if resource not in known and "/" not in resource:
            yield (
                f"--quota {resource}={text}: no resource is {resource}; known are {', '.join(sorted(known))}, and a "
                "device has its vendor's domain before it, as nvidia.com/gpu has"
            )
        try:
            canonical(text)
        except ValueError as error:
            yield f"--quota {resource}={text}: {error}"


def _contradictions(platform: Settings, request: Request) -> Iterator[str]:
    """Where what was asked for and what is there already differ: a file is added to, never edited."""
    name, namespace = request.name, request.namespace or request.name
    remedy = f"edit it in Pulumi.{platform.stack}.yaml, or choose another name"
    for team in platform.tenants.teams:
        if team.name == name:
            for what, held in _differing_team(request, team.namespace, team.groups, team.users):
                yield f"team {name} is there already, with {what} {held}; {remedy}"
    for queue in platform.queues.cluster_queues:
        if queue.name == name:
            for held in _differing_queue(request, queue):
                yield f"cluster queue {name} is there already, {held}; {remedy}"
    for one in platform.queues.local_queues:
        if (one.name, one.namespace) == (name, namespace) and one.cluster_queue != name:
            yield f"local queue {namespace}/{name} is there already, of cluster queue {one.cluster_queue}; {remedy}"


def _differing_team(
    request: Request, namespace: str, groups: Iterable[str], users: Iterable[str]
) -> Iterator[tuple[str, str]]:
    # Without --namespace the team's own name is meant, on the first call and on each further one.
    if (request.namespace or request.name) != namespace:
        yield "namespace", namespace
    if request.groups and request.groups != groups:
        yield "groups", ", ".join(groups) or "none"
    if request.users and request.users != users:
        yield "users", ", ".join(users) or "none"


def _differing_queue(request: Request, queue: ClusterQueue) -> Iterator[str]:
    if request.cohort is not None and request.cohort != queue.cohort:
        yield f"in cohort {queue.cohort or 'none'}"
    quotas = nominal(queue)
    flavors = sorted({flavor for flavor, _ in quotas})
    if request.flavor is not None and request.flavor not in flavors:
        yield f"on flavor {', '.join(flavors)}"
    for resource, text in request.quota.items():
        held = [each for (_, one), each in quotas.items() if one == resource]
        if canonical(text) not in held:
            yield f"with {resource} {' and '.join(held) or '0'}"
