"""What a new team needs, as additions to the platform's environment and as an environment of the team's own.

Pure: from the platform's settings and a request to entries of files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainstack.onboarding.editing import Entry, with_entries
from trainstack.onboarding.team_request import Request, TeamError, faults, nominal
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import ClusterQueue
from trainstack.settings.values.quantities import amount, canonical

DEFAULT_QUOTA = {"cpu": "4", "memory": "16Gi"}
"""Enough for a few small runs; the owner raises it in the reviewed file. Resources that others' queues in the cohort
cover get 0: to be borrowed."""
VOLUME_SIZE = "10Gi"
_HEAD = """\
# The stack of team {name}: what it trains, on the queue and with the rights that the environment {platform} gives it.
# It needs no right outside of namespace {namespace}.
config:
"""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to write."""

    entries: tuple[Entry, ...]
    """Additions to the platform's file; none when everything is there."""
    kept: tuple[str, ...]
    """What is there already, by path."""
    chosen: Mapping[str, str]
    """What the team gets, in words, by subject."""
    team: str
    """The text of the team's own file."""


def plan(platform: Settings, request: Request) -> Plan:
    """What the platform's file lacks of the team, and the team's own file.

    Raises TeamError with every fault: a name that is none, an unknown flavor or cohort, a bad quantity, something of
    that name that says otherwise.
    """
    if found := faults(platform, request):
        raise TeamError("\n".join(found))
    name, queues = request.name, platform.queues
    namespace = request.namespace or name
    there = {
        "environment.namespaces": namespace in _namespaces(platform),
        "queues.clusterQueues": any(one.name == name for one in queues.cluster_queues),
        "queues.localQueues": any((one.name, one.namespace) == (name, namespace) for one in queues.local_queues),
        "tenants.teams": any(one.name == name for one in platform.tenants.teams),
    }
    cohort = _only(request.cohort, [one.name for one in queues.cohorts])
    flavor = _only(request.flavor, [one.name for one in queues.flavors])
    held = next((one for one in queues.cluster_queues if one.name == name), None)
    quota = _quota(platform, request, cohort, flavor or "")
    subjects: dict[str, Any] = {"groups": list(request.groups)} if request.groups else {}
    subjects |= {"users": list(request.users)} if request.users else {}
    subjects = subjects or {"serviceAccount": name}
    things: dict[str, dict[str, Any]] = {
        "environment.namespaces": {"name": namespace},
        "queues.clusterQueues": {
            "name": name,
            **({"cohort": cohort} if cohort else {}),
            "namespaces": [namespace],
            "resourceGroups": [
                {
                    "coveredResources": list(quota),
                    "flavors": [
                        {
                            "name": flavor,
                            "resources": [{"name": one, "nominalQuota": _number(each)} for one, each in quota.items()],
                        }
                    ],
                }
            ],
        },
        "queues.localQueues": {"name": name, "namespace": namespace, "clusterQueue": name},
        "tenants.teams": {"name": name, "namespace": namespace, **subjects},
    }
    entries = tuple(Entry(tuple(path.split(".")), things[path]) for path, known in there.items() if not known)
    names = {"environment.namespaces": namespace}
    return Plan(
        entries=entries,
        kept=tuple(f"{path}[{names.get(path, name)}]" for path, known in there.items() if known),
        chosen={
            "namespace": namespace,
            **(_held_in_words(held) if held else _in_words(cohort, flavor or "", quota, request)),
            **({} if there["tenants.teams"] else {"rights": _who(subjects)}),
        },
        team=_team_file(platform, name, namespace),
    )


def _quota(platform: Settings, request: Request, cohort: str | None, flavor: str) -> dict[str, str]:
    lent = {
        quota.name: "0"
        for queue in platform.queues.cluster_queues
        if cohort is not None and queue.cohort == cohort
        for group in queue.resource_groups
        for each in group.flavors
        if each.name == flavor
        for quota in each.resources
    }
    asked = {resource: canonical(text) for resource, text in request.quota.items()}
    return {**DEFAULT_QUOTA, **{one: lent[one] for one in lent if one not in DEFAULT_QUOTA}, **asked}


def _team_file(platform: Settings, name: str, namespace: str) -> str:
    """A tenant's environment: one volume, and one run as an example that needs no image of the team's."""
    classes = _classes(platform)
    storage_class = classes[0] if classes else "standard"
    volume = {"name": "training", "namespace": namespace, "storageClass": storage_class, "size": VOLUME_SIZE}
    run = {
        "name": "hello",
        "kind": "Job",
        "namespace": namespace,
        "queue": name,
        "managed": False,
        "image": {"name": platform.cluster.loader.image},
        "command": ["sh", "-c", "echo hello from $(hostname) | tee /mnt/training/hello"],
        "volumes": [{"volume": "training", "mountPath": "/mnt/training"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "runAsUser": 1000,
    }
    # The queue of its loader is the team's own.
    cluster = platform.cluster.model_dump(
        by_alias=True,
        exclude_defaults=True,
        include={"registry": True, "loader": {"image", "name", "naming", "resources"}},
    )
    reference = "Its outputs tell the queues. Leave the line out where the team cannot read that stack's state."
    size = "Size and access modes to choose; the class is the platform's."
    entries = [
        Entry(("environment", "profile"), "tenant", whole=True),
        Entry(("environment", "halves"), ["training"], whole=True),
        Entry(("environment", "platform"), f"organization/trainstack/{platform.stack}", whole=True, comment=reference),
        Entry(
            ("environment", "existing"),
            {"namespaces": [namespace], "storageClasses": [storage_class]},
            whole=True,
            comment="What the platform, or the cluster, has for the team.",
        ),
        *(Entry(("cluster", key), value, whole=True) for key, value in cluster.items()),
        Entry(("storage", "volumes"), {**volume, "accessModes": _access_modes(platform, storage_class)}, comment=size),
        Entry(
            ("queues", "priorityClasses"), None, whole=True, comment="The platform declares what defaults.yaml brings."
        ),
        Entry(
            ("workloads", "runs"),
            run,
            comment="An example, to be replaced: it shows that queue, volume and rights are there.",
        ),
    ]
    return with_entries(_HEAD.format(name=name, platform=platform.stack, namespace=namespace), entries)


def _classes(platform: Settings) -> list[str]:
    storage = platform.storage
    named = [one.name for one in storage.classes if one.provisioner != "kubernetes.io/no-provisioner"]
    return [*named, *platform.environment.existing.storage_classes, *(one.storage_class for one in storage.volumes)]


def _access_modes(platform: Settings, storage_class: str) -> list[str]:
    used = [one.access_modes for one in platform.storage.volumes if one.storage_class == storage_class]
    return list(used[0]) if used else ["ReadWriteMany"]


def _namespaces(platform: Settings) -> set[str]:
    environment = platform.environment
    return {*(one.name for one in environment.namespaces), *environment.existing.namespaces}


def _only(asked: str | None, there: list[str]) -> str | None:
    return asked if asked is not None else there[0] if len(there) == 1 else None


def _number(quantity: str) -> str | int:
    return int(quantity) if quantity.isdecimal() else quantity


def _in_words(cohort: str | None, flavor: str, quota: Mapping[str, str], request: Request) -> dict[str, str]:
    said = [
        f"{resource} {each}"
        + ("" if resource in request.quota else " (to be borrowed)" if not amount(each) else " (default)")
        for resource, each in quota.items()
    ]
    return {"quota": f"{', '.join(said)} on flavor {flavor}", "cohort": cohort or "none: it neither lends nor borrows"}


def _held_in_words(queue: ClusterQueue) -> dict[str, str]:
    said = [f"{resource} {each} on flavor {flavor}" for (flavor, resource), each in nominal(queue).items()]
    return {"quota": ", ".join(said), "cohort": queue.cohort or "none: it neither lends nor borrows"}


def _who(subjects: Mapping[str, Any]) -> str:
    if "serviceAccount" in subjects:
        return f"service account {subjects['serviceAccount']} (default: nobody else was named)"
    return "; ".join(f"{what} {', '.join(names)}" for what, names in subjects.items())
