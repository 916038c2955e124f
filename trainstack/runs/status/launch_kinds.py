"""The kinds of launches on a cluster, and what is read from a launch by its kind."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from trainstack.objects.launch_kinds import (
    ALL_LAUNCH_KINDS,
    OPTIONAL_LAUNCH_KINDS,
    STANDARD_LAUNCH_KINDS,
    GroupResource,
    plural,
)
from trainstack.runs.manifests.kind import Body, WorkloadKind
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.object import OBJECT
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload

_LAUNCH_KINDS: Mapping[str, str] = MappingProxyType({"DataLoader": "Job"})
"""The launches' kinds of the workload kinds that are launched as an object of another kind."""

KINDS: Mapping[str, WorkloadKind] = MappingProxyType(
    {name: kind for name, kind in WORKLOAD_KINDS.items() if name not in (*_LAUNCH_KINDS, "Object")}
)
"""The `WorkloadKind`s by the kind of the launch's object."""


def kind_of_launch(kind: str) -> WorkloadKind:
    """Return the `WorkloadKind` that reads launches of this kind; OBJECT for a kind that has no module."""
    return KINDS.get(kind, OBJECT)


def launch_kind(run: Workload) -> str:
    return run.object.kind if run.object else _LAUNCH_KINDS.get(run.kind, run.kind)


def display_kind(run: Workload) -> str:
    """Return the kind for messages: that of the launched object for a workload of kind Object."""
    return run.object.kind if run.object else run.kind


def launch_version(run: Workload) -> str:
    """Return the API version of the launch's object."""
    return run.object.api_version if run.object else KINDS[launch_kind(run)].api_version


def launch_resource(run: Workload) -> GroupResource:
    if run.object:
        return run.object.api_version.partition("/")[0], plural(run.object.kind)
    return ALL_LAUNCH_KINDS[launch_kind(run)]


def other_launch_kinds(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return the API versions and kinds of the launches of an environment, except LAUNCHES."""
    versioned_kinds = {(launch_version(run), launch_kind(run)) for _, run in settings.runs_and_trials()}
    return tuple(
        sorted(versioned_kind for versioned_kind in versioned_kinds if versioned_kind[1] not in STANDARD_LAUNCH_KINDS)
    )


def optional_kinds(settings: Settings) -> tuple[GroupResource, ...]:
    """Return the kinds beyond LAUNCHES that an environment launches, or that the Kueue that it installs manages."""
    resources = {launch_resource(run) for _, run in settings.runs_and_trials()} - {*STANDARD_LAUNCH_KINDS.values()}
    frameworks = settings.operators.kueue.configuration.frameworks if settings.operators.kueue else ()
    resources |= {resource for kind, resource in OPTIONAL_LAUNCH_KINDS.items() if KINDS[kind].framework in frameworks}
    return tuple(sorted(resources))


def framework_of(run: Workload) -> str:
    return run.object.framework if run.object else KINDS[launch_kind(run)].framework


def launch_conditions(body: Body) -> Sequence[Body]:
    """Return the conditions of a live launch; they are derived for a kind whose status has none."""
    return kind_of_launch(body["kind"]).conditions(body)


def mounted_claims(body: Body, companions: Iterable[Body] = ()) -> tuple[str, ...]:
    """Return the PersistentVolumeClaims that a launch's pods mount; for a TrainJob they are in its runtime."""
    volumes = (
        volume
        for pods in launched_pods(body, companions)
        for volume in pods.spec.get("volumes") or ()
        if "persistentVolumeClaim" in volume
    )
    return tuple(sorted({str(volume["persistentVolumeClaim"]["claimName"]) for volume in volumes}))
