"""What a teardown does: what goes, stage by stage, what stays and why, and what stands against it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from trainstack.lifecycle.teardown.context import Body, Scene, is_ours, owners, whose
from trainstack.lifecycle.teardown.users import foreign_users
from trainstack.objects.labels import RUN
from trainstack.objects.launch_kinds import LAUNCHES
from trainstack.objects.ownership import Identity, identity, shown
from trainstack.runs.launches import LiveLaunch, age, wait_or_stop
from trainstack.settings.model import Settings

STAGES = (
    "runs",
    "volumes",
    "local queues",
    "cluster queues",
    "flavors, cohorts, priorities",
    "operators",
    "storage classes",
    "definitions",
    "namespaces",
)
"""The order: a queue goes after what waits in it, a controller after what only it can let go, a namespace last."""
_STAGE_OF = {
    "PersistentVolumeClaim": "volumes",
    "PersistentVolume": "volumes",
    "LocalQueue": "local queues",
    "ClusterQueue": "cluster queues",
    "ResourceFlavor": "flavors, cohorts, priorities",
    "Cohort": "flavors, cohorts, priorities",
    "WorkloadPriorityClass": "flavors, cohorts, priorities",
    "StorageClass": "storage classes",
    "CustomResourceDefinition": "definitions",
    "Namespace": "namespaces",
}
_OF_RUNS = (*LAUNCHES, "TrainingRuntime")
_VOLUMES = ("PersistentVolumeClaim", "PersistentVolume")
_NAMED_AT_ONCE = 5
"""Of many objects so many are named."""


@dataclass(frozen=True)
class Plan:
    """The end of a stack."""

    goes: Mapping[str, tuple[Identity, ...]]
    """By stage, in the order of STAGES; empty stages too."""
    stays: Mapping[Identity, str]
    """What stays, and why."""
    active: tuple[str, ...]
    """The runs that wait or run and would be stopped; of those that nobody named, `refusals` tells too."""
    refusals: tuple[str, ...]
    """Why nothing may be deleted, each with its remedy; empty when the teardown may go on."""

    @property
    def going(self) -> frozenset[Identity]:
        """Everything that goes."""
        return frozenset(each for several in self.goes.values() for each in several)


def decide(scene: Scene, now: datetime) -> Plan:
    """Plan the end of a stack; `now` is for the age of its runs."""
    stays = dict(_stays(scene))
    going = frozenset(map(identity, scene.ours)) - stays.keys()
    goes = {
        stage: tuple(sorted((each for each in going if stage_of(each, scene) == stage), key=str)) for stage in STAGES
    }
    active = [launch for launch in scene.launches if launch.active]
    refusals = [
        *(_protected(each, scene.stack) for each in scene.protected),
        *(_active(launch, scene.stack, now) for launch in active if not _named(launch, scene.stop)),
        *_unknown(scene, going),
        *(f"{each}: whose it is has to end, move or delete it first" for each in foreign_users(scene, going)),
    ]
    return Plan(goes, stays, tuple(sorted(launch.run_id for launch in active)), tuple(refusals))


def stage_of(who: Identity, scene: Scene) -> str:
    """The stage in which an object goes."""
    kind = who[0]
    if kind in _STAGE_OF:
        return _STAGE_OF[kind]
    return "runs" if kind in _OF_RUNS or who in _kept_for_runs(scene) else "operators"


def _kept_for_runs(scene: Scene) -> set[Identity]:
    """Ledgers, wrappers and parameter files: the ConfigMaps outside of what a release brings."""
    operators = {each["metadata"].get("namespace") for each in scene.of("Deployment")}
    return {
        identity(each)
        for each in scene.of("ConfigMap")
        if RUN in each["metadata"]["labels"] or each["metadata"]["namespace"] not in operators
    }


def _stays(scene: Scene) -> Iterator[tuple[Identity, str]]:
    forgotten = _forgotten(scene)
    yield from ((who, "an earlier `destroy` left it") for who in forgotten if who[0] not in _VOLUMES)
    volumes = {identity(each) for each in scene.of(*_VOLUMES)} & (scene.retained | forgotten)
    for who in volumes:
        yield who, "its data is kept" if who[0] == "PersistentVolumeClaim" else "its folder on the node holds data"
    for each in scene.of("Namespace"):
        if reason := _namespace_stays(scene, each["metadata"]["name"], volumes):
            yield identity(each), reason
    for each in scene.of("CustomResourceDefinition"):
        # Those that have not ended are in the way anyhow.
        if reason := definition_stays(scene.instances.get(each["metadata"]["name"], ()), scene):
            yield identity(each), reason


def _forgotten(scene: Scene) -> set[Identity]:
    """What the engine forgets when it destroys, and so may have forgotten before."""
    if scene.known is None:
        return set()
    return {identity(each) for each in scene.of(*_VOLUMES, "Namespace", "CustomResourceDefinition")} - scene.known


def _namespace_stays(scene: Scene, name: str, volumes: set[Identity]) -> str:
    held = sorted(volume for _, namespace, volume in volumes if namespace == name)
    if held:
        return f"it holds the retained volume {', '.join(held)}"
    if ("Namespace", None, name) not in scene.retained:
        return ""
    return volumes_of_others([each for each in scene.beside if each["metadata"].get("namespace") == name], scene.stack)


def volumes_of_others(beside: list[Body], stack: str) -> str:
    """Why a namespace stays that only others have volumes in; empty when there are none."""
    claims = [each for each in beside if each["kind"] == "PersistentVolumeClaim" and not is_ours(each, stack)]
    return f"it holds {_several([f'{identity(each)[2]} {whose(each)}' for each in claims])}" if claims else ""


def definition_stays(instances: tuple[Body, ...], scene: Scene) -> str:
    """Why a definition stays; empty when everything of its kind is this stack's."""
    mine = {str(each["metadata"]["uid"]) for each in scene.ours}
    others = [
        shown(identity(each))
        for each in instances
        if not is_ours(each, scene.stack) and not any(owner["uid"] in mine for owner in owners(each))
    ]
    return f"others have objects of this kind: {_several(others)}" if others else ""


def _several(said: list[str]) -> str:
    more = len(said) - _NAMED_AT_ONCE
    return ", ".join(sorted(said)[:_NAMED_AT_ONCE]) + (f" and {more} more" if more > 0 else "")


def _named(launch: LiveLaunch, stop: frozenset[str]) -> bool:
    return launch.run_id in stop or (launch.sweep is not None and launch.sweep.name in stop)


def _protected(volume: str, stack: str) -> str:
    return (
        f"{volume} is protected, so nothing is torn down; if that is meant, set `protect: false` on it in "
        f"Pulumi.{stack}.yaml and run `trainstack up -s {stack}` first (with `retain: true` it stays even so)"
    )


def _active(launch: LiveLaunch, stack: str, now: datetime) -> str:
    name = launch.sweep.name if launch.sweep else launch.run_id
    return (
        f"{shown((launch.kind, launch.namespace, launch.name))} (run {launch.run_id}) is {launch.phase} since "
        f"{age(launch, now)}; {wait_or_stop(launch, f' -s {stack}')}: "
        f"trainstack teardown -s {stack} --stop {name}"
    )


def _unknown(scene: Scene, going: frozenset[Identity]) -> list[str]:
    """What bears our mark and is not in the state: the engine would leave it, and it may be another checkout's."""
    unknown = [] if scene.known is None else [shown(who) for who in going - scene.known]
    if not unknown:
        return []
    said = (
        f"{_several(unknown)}: the mark of stack {scene.stack!r} is on it, but this checkout's state does not know it: "
        "of an interrupted `up`, of a data loader at work, or of another checkout's stack of this name. `trainstack up "
        f"-s {scene.stack}` takes over what is declared; else delete it with kubectl if it may go"
    )
    return [said]


def protected(settings: Settings) -> tuple[str, ...]:
    """The volumes that an environment protects."""
    if "training" not in settings.environment.halves:
        return ()
    return tuple(
        f"PersistentVolumeClaim {each.namespace}/{each.name}" for each in settings.storage.volumes if each.protect
    )
