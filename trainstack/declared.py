"""Everything that an environment declares, as manifests in the order of their creation.

`everything` is pure; `read_inputs` is the edge, where the files are read that a manifest depends on.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainstack.objects.labels import Manifest
from trainstack.platform import namespaces, networks, queues, secrets, storage, tenants
from trainstack.platform.operators.install import OperatorError, OperatorManifests, in_order, of_release, pinned
from trainstack.platform.operators.kueue import kueue
from trainstack.platform.operators.release import ReleaseError, read_release
from trainstack.platform.operators.trainer import jobset, trainer
from trainstack.platform.operators.training_operator import training_operator
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import Facts, run_id
from trainstack.runs.images.images import workload_reference
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.build import companions, manifest, plan
from trainstack.runs.manifests.trial_names import PlannedTrial
from trainstack.runs.manifests.trial_names import trials as trials_of
from trainstack.runs.parameter_file import file_config_map, file_name
from trainstack.runs.records import Ledger, ledger_config_map, wrapper_config_map, wrapper_reference
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Manifest as ReleaseManifest
from trainstack.settings.sections.workloads import Workload
from trainstack.sweeps.launches import PlannedSweep

WRAPPER = Path("trainstack/runs/wrapper/run.py")
"""The wrapper's source, relative to the project."""
CACHE = Path(".trainstack/cache")
"""Parsed releases, relative to the project."""
DOWNLOADS = Path(".trainstack/manifests")
"""Where the releases that are given by URL are kept, named by their sha256, relative to the project."""


class InputsError(ValueError):
    """Files that the environment names and that are not there: all of them, sorted."""


FAULTS = (InputsError, ReleaseError, OperatorError, WorkloadError)
"""What `read_inputs` and `everything` raise where files or settings are wrong. Any other error is a bug."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the manifests depend on beside the settings."""

    releases: Mapping[str, tuple[Manifest, ...]] = field(default_factory=dict)
    """The objects of the releases of the operators that are installed from here, by the operator's name."""
    images: Mapping[str, str] = field(default_factory=dict)
    """From a folder of this repository to the reference of the image that it makes."""
    data_digests: Mapping[str, str] = field(default_factory=dict)
    """From a data manifest of this repository to its sha256."""
    wrapper: str = ""
    """The wrapper's source; empty when no workload is managed."""
    commit: str = ""
    """The commit that runs are recorded with; empty where none is known."""


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A workload with the launch it would have now."""

    workload: Workload
    launch: Launch
    manifest: Manifest
    companions: tuple[Manifest, ...] = ()


def everything(settings: Settings, inputs: Inputs) -> list[Manifest]:
    """All objects of the stack: those of the halves that the environment holds.

    Raises WorkloadError or OperatorError, which say what cannot be built and what would help.
    """
    result: list[Manifest] = []
    if "platform" in settings.environment.halves:
        result += platform(settings, inputs)
    if "training" in settings.environment.halves:
        result += training(settings, inputs)
    return result


def platform(settings: Settings, inputs: Inputs) -> list[Manifest]:
    """The owners' half: namespaces, rights of teams, storage classes, volumes on hosts, Secrets, operators, queues.

    The order is that of trainstack/stacks/platform.py and of the components that it declares.
    """
    stack, queued = settings.stack, settings.queues
    return [
        *(
            manifest
            for each in settings.environment.namespaces
            for manifest in (namespaces.namespace(each, stack), *networks.policies(each, stack))
        ),
        *(each for team in settings.tenants.teams for each in tenants.rights(team, stack)),
        *(storage.storage_class(each, stack) for each in settings.storage.classes),
        *(storage.persistent_volume(each, stack) for each in settings.storage.persistent_volumes),
        *(secrets.secret(each, stack) for each in settings.secrets.secrets),
        *in_order(operators(settings, inputs).values()),
        *(queues.priority_class(each, stack) for each in queued.priority_classes),
        *(queues.cohort(each, stack) for each in queued.cohorts),
        *(queues.resource_flavor(each, stack) for each in queued.flavors),
        *(queues.cluster_queue(each, stack) for each in queued.cluster_queues),
        *(queues.local_queue(each, stack) for each in queued.local_queues),
    ]


def training(settings: Settings, inputs: Inputs) -> list[Manifest]:
    """The researchers' half: Secrets, where it stands alone; claims; wrappers; launches and ledgers of runs and sweeps.

    The order is that of trainstack/stacks/training.py and of the components that it declares: a ledger comes after its
    launch.
    """
    planned = runs(settings, inputs)
    alone = "platform" not in settings.environment.halves
    return [
        *(secrets.secret(each, settings.stack) for each in settings.secrets.secrets if alone),
        *(storage.claim(each, settings.stack) for each in settings.storage.volumes),
        *wrappers(settings, inputs),
        *(each for run in planned for each in (*run.companions, run.manifest)),
        *(ledger_config_map(settings.stack, ledger(run)) for run in planned),
        *(each for sweep in sweeps(settings, inputs) for each in _objects(sweep)),
    ]


def _objects(planned: PlannedSweep) -> list[Manifest]:
    """Everything of a sweep of which nothing is launched yet, and whose trials need not wait for each other."""
    run_ids, files = tuple(planned.trials), planned.file
    if not run_ids:
        return []
    if planned.sweep.form == "indexed":
        data = planned.batch_file(run_ids)
        files = {file_name(planned.sweep.name, data): data}
        launched = [planned.batch(run_ids, next(iter(files)))]
    else:
        launched = [planned.job(run_id) for run_id in run_ids]
    name, namespace, stack = planned.sweep.name, planned.sweep.run.namespace, planned.stack
    return [
        *(file_config_map(file, name, namespace, stack, data) for file, data in files.items()),
        *(dict(each) for one in launched for each in one.objects),
        *(ledger_config_map(stack, each) for each in launched),
    ]


def operators(settings: Settings, inputs: Inputs) -> dict[str, OperatorManifests]:
    """The operators by name, in the order of their installation: Kueue's webhooks stand before what others create.

    Their images bear their digests, where there are pins.
    """
    declared = [namespace.name for namespace in settings.environment.namespaces]
    installs, releases, stack = settings.operators, inputs.releases, settings.stack
    result = {}
    if installs.kueue is not None:
        result["kueue"] = kueue(releases["kueue"], installs.kueue, stack, declared)
    if installs.training_operator is not None:
        wanted, release = installs.training_operator, releases["training-operator"]
        init = {"init_container_image": settings.pinned(wanted.init_container_image)}
        result["training-operator"] = training_operator(release, wanted.model_copy(update=init), stack, declared)
    if installs.jobset is not None:
        result["jobset"] = jobset(releases["jobset"], installs.jobset, stack, declared)
    if installs.trainer is not None:
        result["trainer"] = trainer(releases["trainer"], installs.trainer, stack, declared)
    return {
        name: of_release(pinned(operator, settings.pinned), installs.installs[name].manifest.version)
        for name, operator in result.items()
    }


def runs(settings: Settings, inputs: Inputs) -> list[PlannedRun]:
    """The runs as they would be launched now."""
    result = []
    for workload in settings.workloads.runs:
        launch = plan(workload, settings.stack, facts(workload, settings, inputs))
        built = manifest(workload, settings.stack, launch)
        others = companions(workload, settings.stack, launch)
        result.append(PlannedRun(workload=workload, launch=launch, manifest=built, companions=others))
    return result


def trials(settings: Settings, inputs: Inputs) -> dict[str, tuple[PlannedTrial, ...]]:
    """By sweep: its trials, in the order of their numbers."""
    result = {}
    for sweep in settings.sweeps.sweeps:
        shared = facts(sweep.run, settings, inputs)
        planned = []
        for trial in trials_of(sweep):
            own = replace(shared, parameters=trial.parameters)
            planned.append(PlannedTrial(trial=trial, run_id=run_id(trial.workload, own), facts=own))
        result[sweep.name] = tuple(planned)
    return result


def sweeps(settings: Settings, inputs: Inputs) -> list[PlannedSweep]:
    """The sweeps as they would be launched now."""
    planned = trials(settings, inputs)
    return [
        PlannedSweep(sweep, settings.stack, facts(sweep.run, settings, inputs), planned[sweep.name])
        for sweep in settings.sweeps.sweeps
    ]


def wrappers(settings: Settings, inputs: Inputs) -> list[Manifest]:
    """The wrapper, once for each namespace with a managed workload."""
    used = sorted({workload.namespace for _, workload in settings.trained() if workload.managed})
    return [wrapper_config_map(namespace, settings.stack, inputs.wrapper) for namespace in used]


def ledger(run: PlannedRun) -> Ledger:
    """What to remember of a run once it is launched."""
    return Ledger(
        run_id=run.launch.run_id,
        workload=run.workload.name,
        namespace=run.workload.namespace,
        attempt=run.workload.attempt,
        launch_name=run.launch.name,
        launch=run.manifest,
        companions=run.companions,
    )


def facts(workload: Workload, settings: Settings, inputs: Inputs) -> Facts:
    """What a workload's launch depends on beside its own settings. Images bear their digests, where there are pins."""
    return Facts(
        image=settings.pinned(image(workload, inputs)),
        data_digest=None if workload.data is None else inputs.data_digests[workload.data.manifest],
        wrapper=wrapper_reference(inputs.wrapper),
        commit=inputs.commit,
        git_image=None if workload.code is None else settings.pinned(settings.cluster.git_image),
    )


def image(workload: Workload, inputs: Inputs) -> str:
    """The reference of a workload's image, as settings or the content of its folder say it."""
    return workload.image.name or inputs.images[workload.image.build or ""]


def read_inputs(settings: Settings, root: Path, *, commit: str, cache: Path | None = None) -> Inputs:
    """Read what the manifests of an environment depend on.

    Args:
        settings: the environment.
        root: the project's folder.
        commit: what runs are recorded with.
        cache: as in `read_release`.

    Raises InputsError with everything that is missing, or ReleaseError.

    """
    faults: list[str] = []
    wanted = [workload for _, workload in settings.trained()]
    builds = {workload.image.build for workload in wanted if workload.image.build is not None}
    manifests = {workload.data.manifest for workload in wanted if workload.data is not None}
    images = _collect(
        builds, lambda build: workload_reference(root / build, settings.cluster.registry), "image.build", faults
    )
    data = _collect(manifests, lambda name: _sha256(root / name), "data.manifest", faults)
    if faults:
        raise InputsError("\n".join(sorted(faults)))
    return Inputs(
        releases={
            name: _release(install.manifest, root, cache) for name, install in settings.operators.installs.items()
        },
        images=images,
        data_digests=data,
        wrapper=(root / WRAPPER).read_text(encoding="utf-8") if any(each.managed for each in wanted) else "",
        commit=commit,
    )


def release_path(release: ReleaseManifest, root: Path) -> Path:
    """The file of a release: the given one, or the place of a download."""
    return root / (release.path if release.path is not None else DOWNLOADS / f"{release.sha256}.yaml")


def _release(release: ReleaseManifest, root: Path, cache: Path | None) -> tuple[Manifest, ...]:
    return tuple(read_release(release_path(release, root), release.sha256, cache))


def _collect(names: Iterable[str], read: Callable[[str], str], setting: str, faults: list[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = read(name)
        except OSError as error:
            faults.append(f"trainstack:workloads: {setting}: {name}: {error.strerror or error}; correct the path")
    return found


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
