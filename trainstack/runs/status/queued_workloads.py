"""The workloads of an environment that Kueue queues, and their pod sets, with the paths of their settings."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.kind import Body, LaunchedPods, RunPodSet
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.runs.manifests.user_manifest import manifest_pod_sets
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.paths import named_element_paths


def queued_workloads(settings: Settings) -> Iterator[tuple[str, Workload]]:
    """Yield the workloads that Kueue queues, by path: the runs, and of each sweep one trial or its Indexed Job."""
    runs, sweeps = settings.workloads.runs, settings.sweeps.sweeps
    yield from zip(named_element_paths("workloads.runs", [run.name for run in runs]), runs, strict=True)
    for path, sweep in zip(named_element_paths("sweeps.sweeps", [sweep.name for sweep in sweeps]), sweeps, strict=True):
        job_size = {"completions": len(sweep.sets) or 1, "parallelism": sweep.parallelism}
        yield f"{path}.run", sweep.run.model_copy(update=job_size if sweep.form == "indexed" else {})


def pod_sets(path: str, run: Workload) -> Iterator[RunPodSet]:
    """Yield the pod sets of a run, the leading one (of rank 0) first."""
    if run.manifest is None:
        yield from WORKLOAD_KINDS[run.kind].pod_sets(path, run)
        return
    # Other rules report a manifest without what its kind needs.
    with suppress(WorkloadError):
        yield from manifest_pod_sets(path, run)


def pod_sets_by_setting(path: str, run: Workload, field: str) -> dict[str, RunPodSet]:
    """Return the paths at which a setting of a run's pods applies, each with its first pod set."""
    paths = dict[str, RunPodSet]()
    for pods in pod_sets(path, run):
        paths.setdefault(pods.setting_path(field), pods)
    return paths


def launched_pod_sets(
    path: str, run: Workload, launch: Body, companions: Iterable[Body]
) -> Iterator[tuple[RunPodSet, LaunchedPods]]:
    """Yield the pods of a run's launch, with the pod set of the settings that they are built from."""
    launched, declared_sets = launched_pods(launch, companions), [*pod_sets(path, run)]
    if run.runtime_reference is not None:
        # The settings have one pod set; the runtime may have further Jobs.
        declared_sets *= len(launched)
    yield from zip(declared_sets, launched, strict=True)
