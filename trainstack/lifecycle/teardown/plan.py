"""The plan of a teardown: deleted objects by stage, retained objects with reasons, and refusals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from trainstack.lifecycle.teardown.live_stack import Body, LiveStack, describe_owner, has_label_of, owners
from trainstack.lifecycle.teardown.users import foreign_users
from trainstack.objects.labels import RUN, SECTION
from trainstack.objects.launch_kinds import ALL_LAUNCH_KINDS
from trainstack.objects.ownership import Identity, format_identity, format_names, identity
from trainstack.runs.launches import LiveLaunch, launch_age, wait_or_stop
from trainstack.settings.model import Settings

_VOLUMES = ("PersistentVolumeClaim", "PersistentVolume")
_RETENTION_REASONS = {
    "PersistentVolumeClaim": "its data is kept",
    "PersistentVolume": "its folder on the node has data",
    "Namespace": "it has, or may have, retained volumes",
    "CustomResourceDefinition": "others may have objects of this kind",
}
"""Why the engine retains an object, by kind."""
STAGES: Mapping[str, tuple[str, ...]] = {
    "runs": (*ALL_LAUNCH_KINDS, "TrainingRuntime"),
    "volumes": _VOLUMES,
    "other objects": (),
    "local queues": ("LocalQueue",),
    "cluster queues": ("ClusterQueue",),
    "flavors, cohorts, priorities": ("ResourceFlavor", "Cohort", "AdmissionCheck", "WorkloadPriorityClass"),
    "topologies, parameters of checks": (
        "Topology",
        "ProvisioningRequestConfig",
        "MultiKueueConfig",
        "MultiKueueCluster",
    ),
    "operators": (),
    "storage classes": ("StorageClass",),
    "definitions": ("CustomResourceDefinition",),
    "namespaces": ("Namespace",),
}
"""The kinds of each stage. Objects of other kinds have the label SECTION, or else belong to operators. Queues are
deleted after their workloads, and controllers after the objects with their finalizers."""


@dataclass(frozen=True)
class TeardownPlan:
    """The consequences of a teardown, which a command shows before it starts."""

    stages: Mapping[str, tuple[Identity, ...]]
    """The deleted objects by stage, in the order of STAGES; some stages are empty."""
    retention_reasons: Mapping[Identity, str]
    """The reasons why objects remain."""
    active_runs: tuple[str, ...]
    """The pending and running runs that would be stopped."""
    refusals: tuple[str, ...]
    """Why nothing may be deleted, with remedies."""

    @property
    def deleted(self) -> frozenset[Identity]:
        return frozenset(key for objects in self.stages.values() for key in objects)


def plan_full_teardown(live: LiveStack, now: datetime) -> TeardownPlan:
    """Plan the teardown of a whole stack. `now` determines the age of its runs."""
    retention_reasons = dict(_retention_reasons(live))
    deleted = frozenset(map(identity, live.labeled_objects)) - retention_reasons.keys()
    # A ConfigMap can belong to a run or to an operator, so that the kind alone does not determine its stage.
    other_objects = _other_objects(live)
    objects_of_runs = _objects_of_runs(live) - other_objects
    stage_by_object = {
        key: "runs" if key in objects_of_runs else "other objects" if key in other_objects else _stage_of_kind(key[0])
        for key in deleted
    }
    stages = {
        stage: tuple(sorted((key for key in deleted if stage_by_object[key] == stage), key=str)) for stage in STAGES
    }
    # Definitions that remain count as deleted for their users: nothing reconciles the instances without the operator.
    definitions = {identity(body) for body in live.labeled_objects_of("CustomResourceDefinition")}
    definitions |= {key for key in live.state_identities or () if key[0] == "CustomResourceDefinition"}
    refusals = [
        *(_protection_refusal(volume, live.stack) for volume in live.protected),
        *_active_run_refusals(live, now, f"trainstack destroy -s {live.stack}"),
        *_unrecorded_object_refusals(live, deleted),
        *_user_refusals(live, deleted | definitions),
    ]
    return TeardownPlan(stages, retention_reasons, _active_run_ids(live), tuple(refusals))


def plan_teardown_without_platform(live: LiveStack, now: datetime) -> TeardownPlan:
    """Plan the deletion of the objects in a stack's state, without those that the engine retains.

    `live` has only the objects that the user may read, so that a deployer's rights suffice. Users of deleted objects
    that are not in `live` are not reported.
    """
    state_identities = live.state_identities or frozenset()
    deleted = sorted(state_identities - live.retained, key=str)
    launches = _launches(live)
    stage_by_object = {key: "runs" if key in launches else _stage_of_kind(key[0]) for key in deleted}
    stages = {stage: tuple(key for key in deleted if stage_by_object[key] == stage) for stage in STAGES}
    retention_reasons = {
        key: _RETENTION_REASONS.get(key[0], "the engine retains it") for key in state_identities & live.retained
    }
    refusals = [
        *(_protection_refusal(volume, live.stack) for volume in live.protected),
        *_active_run_refusals(live, now, f"trainstack destroy -s {live.stack} --keep-platform"),
        *_user_refusals(
            live, frozenset(deleted) | {key for key in state_identities if key[0] == "CustomResourceDefinition"}
        ),
    ]
    return TeardownPlan(stages, retention_reasons, _active_run_ids(live), tuple(refusals))


def _user_refusals(live: LiveStack, deleted: frozenset[Identity]) -> list[str]:
    return [f"{user}; ask its owner to end, move or delete it first" for user in foreign_users(live, deleted)]


def _active_run_ids(live: LiveStack) -> tuple[str, ...]:
    return tuple(sorted(launch.run_id for launch in live.launches if launch.is_active))


def _active_run_refusals(live: LiveStack, now: datetime, command: str) -> Iterator[str]:
    """Yield a refusal for each active run that may not be stopped; `command` with `--stop` is the remedy."""
    for launch in live.launches:
        if launch.is_active and not _may_be_stopped(launch, live.stop):
            name = launch.sweep.name if launch.sweep else launch.run_id
            yield (
                f"{format_identity((launch.kind, launch.namespace, launch.name))} (run {launch.run_id}) has been "
                f"{launch.phase} for {launch_age(launch, now)}; {wait_or_stop(launch)}: {command} --stop {name}"
            )


def _launches(live: LiveStack) -> set[Identity]:
    return {(launch.kind, launch.namespace, launch.name) for launch in live.launches}


def _stage_of_kind(kind: str) -> str:
    return next((stage for stage, kinds in STAGES.items() if kind in kinds), "operators")


def _objects_of_runs(live: LiveStack) -> set[Identity]:
    """Return launches and their ConfigMaps (ledgers, wrappers, parameter files), but no ConfigMap of an operator."""
    operators = {body["metadata"].get("namespace") for body in live.labeled_objects_of("Deployment")}
    return _launches(live) | {
        identity(body)
        for body in live.labeled_objects_of("ConfigMap")
        if RUN in body["metadata"]["labels"] or body["metadata"]["namespace"] not in operators
    }


def _other_objects(live: LiveStack) -> set[Identity]:
    """Return the objects of section `objects`, except for volumes."""
    return {
        identity(body)
        for body in live.labeled_objects
        if SECTION in body["metadata"]["labels"] and body["kind"] not in _VOLUMES
    }


def _retention_reasons(live: LiveStack) -> Iterator[tuple[Identity, str]]:
    """Yield the objects that remain, with the reasons."""
    forgotten_objects = _objects_left_by_earlier_destroy(live)
    yield from (
        (key, "an earlier `destroy --keep-platform` left it") for key in forgotten_objects if key[0] not in _VOLUMES
    )
    volumes = {identity(body) for body in live.labeled_objects_of(*_VOLUMES)} & (live.retained | forgotten_objects)
    for volume in volumes:
        yield volume, "its data is kept" if volume[0] == "PersistentVolumeClaim" else "its folder on the node has data"
    for body in live.labeled_objects_of("Namespace"):
        if reason := _namespace_retention_reason(live, body["metadata"]["name"], volumes):
            yield identity(body), reason
    for body in live.labeled_objects_of("CustomResourceDefinition"):
        if reason := definition_retention_reason(live.instances.get(body["metadata"]["name"], ()), live):
            yield identity(body), reason


def _objects_left_by_earlier_destroy(live: LiveStack) -> set[Identity]:
    """Return the objects that an earlier `destroy` may have removed from the state and left in the cluster."""
    if live.state_identities is None:
        return set()
    return {
        identity(body) for body in live.labeled_objects_of(*_VOLUMES, "Namespace", "CustomResourceDefinition")
    } - live.state_identities


def _namespace_retention_reason(live: LiveStack, name: str, volumes: set[Identity]) -> str:
    namespace_identity: Identity = ("Namespace", None, name)
    is_recorded = live.state_identities is None or namespace_identity in live.state_identities
    # The engine deletes a namespace whose retained volumes are no longer declared, so these are users that refuse it.
    if is_recorded and namespace_identity not in live.retained:
        return ""
    retained_volumes = sorted(volume for _, namespace, volume in volumes if namespace == name)
    if retained_volumes:
        return f"it holds the retained volume {', '.join(retained_volumes)}"
    if namespace_identity not in live.retained:
        return ""
    claims = [
        f"{identity(body)[2]} {describe_owner(body)}"
        for body in live.in_namespaces
        if body["kind"] == "PersistentVolumeClaim"
        and body["metadata"]["namespace"] == name
        and not has_label_of(body, live.stack)
    ]
    return f"it holds {format_names(sorted(claims))}" if claims else ""


def definition_retention_reason(instances: tuple[Body, ...], live: LiveStack) -> str:
    """Return why a definition remains, or an empty string if all objects of its kind are the stack's."""
    own_uids = {str(body["metadata"]["uid"]) for body in live.labeled_objects}
    foreign_objects = [
        format_identity(identity(body))
        for body in instances
        if not has_label_of(body, live.stack) and not any(owner["uid"] in own_uids for owner in owners(body))
    ]
    return f"others have objects of this kind: {format_names(sorted(foreign_objects))}" if foreign_objects else ""


def _may_be_stopped(launch: LiveLaunch, stop: frozenset[str]) -> bool:
    return launch.run_id in stop or (launch.sweep is not None and launch.sweep.name in stop)


def _protection_refusal(volume: str, stack: str) -> str:
    return (
        f"{volume} is protected, so nothing is deleted; to continue, set `protect: false` on it in "
        f"Pulumi.{stack}.yaml and run `trainstack up -s {stack}` (with `retain: true`, it still remains)"
    )


def _unrecorded_object_refusals(live: LiveStack, deleted: frozenset[Identity]) -> Iterator[str]:
    # The engine would leave objects that are not in the state.
    unrecorded_objects = (
        sorted(format_identity(key) for key in deleted - live.state_identities)
        if live.state_identities is not None
        else []
    )
    if unrecorded_objects:
        yield (
            f"{format_names(unrecorded_objects)}: labelled with stack {live.stack!r}, but not in this checkout's "
            "state. An interrupted `up`, an active data loader, or another checkout's stack of this name created it. "
            f"`trainstack up -s {live.stack}` takes over declared objects; delete others with kubectl if they are not "
            "needed"
        )


def protected_volumes(settings: Settings) -> tuple[str, ...]:
    if "training" not in settings.environment.layers:
        return ()
    return tuple(
        f"PersistentVolumeClaim {claim.namespace}/{claim.name}" for claim in settings.storage.volumes if claim.protect
    )
