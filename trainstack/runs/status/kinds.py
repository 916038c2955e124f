"""How the launches of each kind are followed on a cluster."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from trainstack.objects.launch_kinds import ALL_LAUNCHES, LAUNCHES, OPTIONAL, Resource, plural
from trainstack.runs.manifests.kind import Body, WorkloadKind
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.object import OBJECT
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload

_LAUNCHED_AS: Mapping[str, str] = MappingProxyType({"DataLoader": "Job"})
"""Kinds of workloads that are launched as an object of another kind."""

KINDS: Mapping[str, WorkloadKind] = MappingProxyType(
    {name: kind for name, kind in WORKLOAD_KINDS.items() if name not in (*_LAUNCHED_AS, "Object")}
)
"""By the kind of the launch's object."""


def kind_of_launch(kind: str) -> WorkloadKind:
    """How launches of this kind are read, also of a kind that only workloads of kind Object have."""
    return KINDS.get(kind, OBJECT)


def launched_as(run: Workload) -> str:
    return run.object.kind if run.object else _LAUNCHED_AS.get(run.kind, run.kind)


def shown_kind(run: Workload) -> str:
    """The kind in messages: of an Object that of its object."""
    return run.object.kind if run.object else run.kind


def launch_version(run: Workload) -> str:
    """The API version of the launch's object."""
    return run.object.api_version if run.object else KINDS[launched_as(run)].api_version


def launch_resource(run: Workload) -> Resource:
    if run.object:
        return run.object.api_version.partition("/")[0], plural(run.object.kind)
    return ALL_LAUNCHES[launched_as(run)]


def declared_kinds(settings: Settings) -> tuple[tuple[str, str], ...]:
    """The API versions and kinds of the launches of an environment, except LAUNCHES."""
    declared = {(launch_version(run), launched_as(run)) for _, run in settings.trained()}
    return tuple(sorted(each for each in declared if each[1] not in LAUNCHES))


def optional_kinds(settings: Settings) -> tuple[Resource, ...]:
    """The kinds of launches beyond LAUNCHES that an environment has, or that the Kueue that it installs manages."""
    used = {launch_resource(run) for _, run in settings.trained()} - {*LAUNCHES.values()}
    frameworks = settings.operators.kueue.configuration.frameworks if settings.operators.kueue else ()
    used |= {resource for kind, resource in OPTIONAL.items() if KINDS[kind].framework in frameworks}
    return tuple(sorted(used))


def framework_of(run: Workload) -> str:
    return run.object.framework if run.object else KINDS[launched_as(run)].framework


def launch_conditions(body: Body) -> Sequence[Body]:
    """The conditions of a live launch, also of a kind that has none in its status."""
    return kind_of_launch(body["kind"]).conditions(body)


def claims(body: Body, companions: Iterable[Body] = ()) -> tuple[str, ...]:
    """The PersistentVolumeClaims that a launch's pods mount; for a TrainJob they are in its runtime."""
    volumes = (
        volume
        for pods in launched_pods(body, companions)
        for volume in pods.spec.get("volumes") or ()
        if "persistentVolumeClaim" in volume
    )
    return tuple(sorted({str(volume["persistentVolumeClaim"]["claimName"]) for volume in volumes}))
