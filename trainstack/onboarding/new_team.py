"""Additions to the platform's environment for a new team, and the team's own environment. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from trainstack.errors import TrainstackError
from trainstack.onboarding.team_request import TeamRequest, find_faults, nominal_quotas
from trainstack.onboarding.yaml_additions import FileAddition, add_section_entries
from trainstack.settings.loading.load import SharedNames
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import ClusterQueue
from trainstack.settings.values.quantities import amount, canonical_quantity

DEFAULT_QUOTA = {"cpu": "4", "memory": "16Gi"}
"""The quota of a request without one: enough for a few small runs. The owner can raise it in the reviewed file.
Other resources of the cohort's queues have quota 0, so that the team can borrow them."""
VOLUME_SIZE = "10Gi"
_NO_NAMES = SharedNames()
_TEAM_FILE_HEADER = """\
# The stack of team {name}: its runs, on the queue and with the rights that the environment {platform} declares.
# It needs no rights outside of namespace {namespace}.
config:
"""


@dataclass(frozen=True, kw_only=True)
class NewTeamPlan:
    """The changes of files for a new team."""

    entries: tuple[FileAddition, ...]
    """Additions to the platform's file."""
    existing_entries: tuple[str, ...]
    """The paths of entries that exist already."""
    choices: Mapping[str, str]
    """Descriptions of what the team gets, by subject."""
    team_file: str
    """The text of the team's own file."""


def plan_new_team(
    platform: Settings, request: TeamRequest, project: str, shared: SharedNames = _NO_NAMES
) -> NewTeamPlan:
    """Return the missing entries of the platform's file, and the team's own file.

    `project`: its name in Pulumi.yaml. `shared`: names that the entries of the team's file must not have.

    Raises TrainstackError with all faults: invalid names, unknown flavors or cohorts, bad quantities, and entries that
    differ.
    """
    if violations := find_faults(platform, request):
        raise TrainstackError("\n".join(violations))
    name, queues = request.name, platform.queues
    namespace = request.namespace or name
    namespaces = {declared_namespace.name for declared_namespace in platform.environment.namespaces}
    namespaces |= {*platform.environment.existing.namespaces}
    existing_queue = next((queue for queue in queues.cluster_queues if queue.name == name), None)
    # Existing entries are never edited, so a second call with the same request adds nothing.
    exists_by_path = {
        "environment.namespaces": namespace in namespaces,
        "queues.clusterQueues": existing_queue is not None,
        "queues.localQueues": (name, namespace) in [(queue.name, queue.namespace) for queue in queues.local_queues],
        "tenants.teams": name in [team.name for team in platform.tenants.teams],
    }
    cohort = _requested_or_only(request.cohort, [cohort.name for cohort in queues.cohorts])
    flavor = _requested_or_only(request.flavor, [flavor.name for flavor in queues.flavors])
    quota = _quota(platform, request, cohort, flavor or "")
    members = {"groups": list(request.groups), "users": list(request.users)}
    # Without members, the team's rights belong to a service account, for which the platform can issue a kubeconfig.
    subjects: dict[str, Any] = {key: name_by_path for key, name_by_path in members.items() if name_by_path} or {
        "serviceAccount": name
    }
    resources = [
        {"name": resource, "nominalQuota": int(quantity) if quantity.isdecimal() else quantity}
        for resource, quantity in quota.items()
    ]
    values: dict[str, dict[str, Any]] = {
        "environment.namespaces": {"name": namespace},
        "queues.clusterQueues": {
            "name": name,
            **({"cohort": cohort} if cohort else {}),
            "namespaces": [namespace],
            "resourceGroups": [
                {"coveredResources": list(quota), "flavors": [{"name": flavor, "resources": resources}]},
            ],
        },
        "queues.localQueues": {"name": name, "namespace": namespace, "clusterQueue": name},
        "tenants.teams": {"name": name, "namespace": namespace, **subjects},
    }
    entries = tuple(
        FileAddition(tuple(path.split(".")), values[path]) for path, exists in exists_by_path.items() if not exists
    )
    name_by_path = {"environment.namespaces": namespace}
    return NewTeamPlan(
        entries=entries,
        existing_entries=tuple(
            f"{path}[{name_by_path.get(path, name)}]" for path, exists in exists_by_path.items() if exists
        ),
        choices={
            "namespace": namespace,
            **_describe_quota(existing_queue, cohort, flavor or "", quota, request),
            **({} if exists_by_path["tenants.teams"] else {"rights": _describe_subjects(subjects)}),
        },
        team_file=_team_file(platform, name, namespace, project, shared),
    )


def _quota(platform: Settings, request: TeamRequest, cohort: str | None, flavor: str) -> dict[str, str]:
    borrowed_quota = {
        resource: "0"
        for queue in platform.queues.cluster_queues
        if cohort is not None and queue.cohort == cohort
        for name, resource in nominal_quotas(queue)
        if name == flavor and resource not in DEFAULT_QUOTA
    }
    requested_quota = {resource: canonical_quantity(text) for resource, text in request.quota.items()}
    return {**DEFAULT_QUOTA, **borrowed_quota, **requested_quota}


def _team_file(platform: Settings, name: str, namespace: str, project: str, shared: SharedNames) -> str:
    """Return the text of the team's own file: access to the platform, a volume, and an example run."""
    classes = _storage_class_names(platform)
    storage_class = classes[0] if classes else "standard"
    claim = _unused_name("training", shared.volumes)
    volume = {"name": claim, "namespace": namespace, "storageClass": storage_class, "size": VOLUME_SIZE}
    run = {
        "name": _unused_name("hello", shared.runs),
        "kind": "Job",
        "namespace": namespace,
        "queue": name,
        "managed": False,
        "image": {"name": platform.cluster.loader.image},
        "command": ["sh", "-c", "echo hello from $(hostname) | tee /mnt/training/hello"],
        "volumes": [{"volume": claim, "mountPath": "/mnt/training"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "runAsUser": 1000,
    }
    # The team's data loader has the team's queue, so `queue` is not copied.
    cluster = platform.cluster.model_dump(
        by_alias=True,
        exclude_defaults=True,
        include={"local": True, "registry": True, "loader": {"image", "name", "naming", "resources"}},
    )
    reference_comment = (
        "The stack whose outputs list the queues. Remove the line if the team cannot read that stack's state."
    )
    size_comment = "Choose size and access modes; the class is the platform's."
    # A stack reads the outputs of another one in the same backend.
    environment = platform.environment.model_dump(by_alias=True, exclude_defaults=True, include={"state": True})
    entries = [
        *(FileAddition(("environment", key), value, replaces_value=True) for key, value in environment.items()),
        FileAddition(("environment", "profile"), "tenant", replaces_value=True),
        FileAddition(("environment", "layers"), ["training"], replaces_value=True),
        FileAddition(
            ("environment", "platform"),
            f"organization/{project}/{platform.stack}",
            replaces_value=True,
            comment=reference_comment,
        ),
        FileAddition(
            ("environment", "existing"),
            {"namespaces": [namespace], "storageClasses": [storage_class]},
            replaces_value=True,
            comment="Existing objects of the platform or the cluster that the team uses.",
        ),
        *(FileAddition(("cluster", key), value, replaces_value=True) for key, value in cluster.items()),
        FileAddition(
            ("storage", "volumes"),
            {**volume, "accessModes": _access_modes(platform, storage_class)},
            comment=size_comment,
        ),
        FileAddition(
            ("queues", "priorityClasses"),
            None,
            replaces_value=True,
            comment="The platform declares those of defaults.yaml.",
        ),
        FileAddition(
            ("workloads", "runs"),
            run,
            comment="An example to replace: it shows that queue, volume and rights work.",
        ),
    ]
    return add_section_entries(
        _TEAM_FILE_HEADER.format(name=name, platform=platform.stack, namespace=namespace), entries
    )


def _unused_name(name: str, taken_names: Collection[str]) -> str:
    """Return the name. If an entry of that name would inherit shared values, append a number."""
    numbered_names = (f"{name}-{number}" for number in count(2))
    return (
        name
        if name not in taken_names
        else next(numbered_name for numbered_name in numbered_names if numbered_name not in taken_names)
    )


def _storage_class_names(platform: Settings) -> list[str]:
    storage = platform.storage
    provisioned_classes = [
        storage_class.name
        for storage_class in storage.classes
        if storage_class.provisioner != "kubernetes.io/no-provisioner"
    ]
    volume_classes = (volume.storage_class for volume in storage.volumes if volume.storage_class)
    return [*provisioned_classes, *platform.environment.existing.storage_classes, *volume_classes]


def _access_modes(platform: Settings, storage_class: str) -> list[str]:
    modes_in_use = (volume.access_modes for volume in platform.storage.volumes if volume.storage_class == storage_class)
    return list(next(modes_in_use, ("ReadWriteMany",)))


def _requested_or_only(requested: str | None, names: list[str]) -> str | None:
    return requested if requested is not None else names[0] if len(names) == 1 else None


def _describe_quota(
    existing_queue: ClusterQueue | None, cohort: str | None, flavor: str, quota: Mapping[str, str], request: TeamRequest
) -> dict[str, str]:
    if existing_queue is not None:
        cohort = existing_queue.cohort
        quotas = ", ".join(
            f"{name} {value} on flavor {flavor}" for (flavor, name), value in nominal_quotas(existing_queue).items()
        )
    else:
        quotas = ", ".join(
            f"{name} {value}"
            + ("" if name in request.quota else " (to be borrowed)" if not amount(value) else " (default)")
            for name, value in quota.items()
        )
        quotas += f" on flavor {flavor}"
    return {"quota": quotas, "cohort": cohort or "none: it neither lends nor borrows"}


def _describe_subjects(subjects: Mapping[str, Any]) -> str:
    if "serviceAccount" in subjects:
        return f"service account {subjects['serviceAccount']} (default: no other subject was given)"
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in subjects.items())
