"""Changes of a run's settings that may make the run fit."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainstack.kueue.candidate import ANOTHER_QUEUE, RemedyCandidate
from trainstack.kueue.changes_of_nodes import candidate_for_flavor
from trainstack.kueue.changes_of_requests import PodSetPairs, smaller_pods, without_resources
from trainstack.kueue.model import Workload
from trainstack.kueue.snapshot import QueueSnapshot
from trainstack.kueue.verdict import Change, Reason
from trainstack.kueue.what_if import WhatIf
from trainstack.runs.manifests.kind import RunPodSet as PodSettings
from trainstack.runs.status.queued_workloads import pod_sets
from trainstack.settings.sections.workloads import Workload as Run
from trainstack.settings.values.paths import child_path


@dataclass(frozen=True, slots=True)
class RunChanges:
    what_if: WhatIf
    workload: Workload
    run: Run
    pod_sets: PodSetPairs

    @classmethod
    def for_workload(cls, what_if: WhatIf, workload: Workload) -> "RunChanges":
        """Return the changes of a declared workload."""
        run = what_if.runs[workload.path]
        pairs = zip(workload.pod_sets, pod_sets(workload.path, run), strict=True)
        return cls(what_if, workload, run, tuple(pairs))

    def other_queues(self) -> Iterator[RemedyCandidate]:
        """Yield the other queues of the workload's namespace."""
        workload, idle = self.workload, self.what_if.idle_simulator.idle_snapshot
        shrinks = any(pods.min_count is not None for pods in workload.pod_sets)
        for (namespace, name), local_queue in (self.what_if.model.local_queues or {}).items():
            cq = idle.cluster_queues.get(local_queue.cluster_queue)
            if namespace != workload.namespace or name == workload.queue or cq is None:
                continue
            if shrinks or cq.may_hold(workload):
                change = Change(f"{workload.path}.queue", self.run.queue, name)
                yield RemedyCandidate(ANOTHER_QUEUE, f"use queue {name}", (change,))

    def smaller_pods(self, shortages: Sequence[Reason]) -> Iterator[RemedyCandidate]:
        """Yield the smallest reduction of each container's requests that helps."""
        for on_same_flavor in (True, False):
            args = self.pod_sets, self.what_if.model, shortages, self.workload.path
            candidate = smaller_pods(*args, on_same_flavor=on_same_flavor)
            if candidate is not None and self._fits(candidate.changes):
                yield candidate
                return

    def fewer_resources(self, uncovered_reasons: Sequence[Reason]) -> Iterator[RemedyCandidate]:
        yield from without_resources(self.pod_sets, self.what_if.model, uncovered_reasons, self.workload.path)

    def access_to_flavor(self, cq: QueueSnapshot, reason: Reason) -> Iterator[RemedyCandidate]:
        """Yield what makes the pods tolerate and select the nodes of the reason's flavor."""
        flavor = (self.what_if.model.flavors or {})[reason.flavor]
        keys = next(group.compared_keys(flavor) for group in cq.group_of.values() if reason.flavor in group.names)
        pods, settings = next((pods, settings) for pods, settings in self.pod_sets if pods.name == reason.pod_set)
        candidate = candidate_for_flavor(flavor, keys, settings, pods)
        if candidate is not None:
            yield candidate

    def fewer_pods(self, shortages: Sequence[Reason]) -> Iterator[RemedyCandidate]:
        """Yield, for each pod set, the largest number of its pods that fits."""
        names = {reason.pod_set for reason in shortages}
        for pods, pod_settings in self.pod_sets:
            if pods.name in names and pods.count > 1:
                candidates = map(self._largest_fitting_count, self._pod_counts(pod_settings))
                yield from filter(None, [next(filter(None, candidates), None)])

    def _pod_counts(self, pods: PodSettings) -> Iterator["_PodCount"]:
        """Yield the settings with the number of pods, each an alternative."""
        run, path = self.run, self.workload.path
        if run.replicated_jobs:
            job = next(job for job in run.replicated_jobs if job.name == pods.name)
            yield _PodCount({f"{pods.path}.replicas": job.replicas})
            # The pods of one Job work together: those that would only start later are left out.
            keys = ("parallelism", "completions") if job.completions == job.parallelism else ("parallelism",)
            yield _PodCount({f"{pods.path}.{key}": job.parallelism for key in keys})
        elif run.roles:
            # Kueue counts the nodes of a TrainJob together.
            role = "Worker" if run.kind == "TrainJob" else pods.name
            min_replicas = run.elastic.min_replicas if run.elastic and role == "Worker" else 1
            if role in run.roles:
                yield _PodCount(
                    {f"{child_path(f'{path}.roles', role)}.replicas": run.roles[role].replicas}, min_replicas
                )
        elif (sweep := self.what_if.sweeps.get(path)) is not None and sweep.form == "indexed":
            yield _PodCount({f"{path.removesuffix('.run')}.parallelism": sweep.parallelism or 1})
        else:
            if run.min_parallelism is not None:
                yield _PodCount({f"{path}.minParallelism": run.min_parallelism})
            removals = (
                () if run.min_parallelism is None else (Change(f"{path}.minParallelism", run.min_parallelism, None),)
            )
            yield _PodCount({f"{path}.parallelism": run.parallelism}, removals=removals)

    def _largest_fitting_count(self, pod_count: "_PodCount") -> RemedyCandidate | None:
        """Return the largest smaller number with which the run fits."""
        old_count = max(pod_count.settings.values())
        smaller_counts = range(old_count - 1, pod_count.minimum - 1, -1)
        index = bisect_left(smaller_counts, x=True, key=lambda count: self._fits(pod_count.changes(count)))
        if index == len(smaller_counts):
            return None
        count = smaller_counts[index]
        setting_names = [path.removeprefix(f"{self.workload.path}.") for path in pod_count.settings]
        text = f"lower {' and '.join(f'{path} from {old_count} to {count}' for path in setting_names)}"
        if pod_count.removals:
            text += " and remove " + " and ".join(
                change.path.removeprefix(f"{self.workload.path}.") for change in pod_count.removals
            )
        return RemedyCandidate((old_count - count) / old_count, text, pod_count.changes(count))

    def _fits(self, changes: Iterable[Change]) -> bool:
        verdict = self.what_if.verdict(self.workload.path, changes)
        return verdict is not None and verdict.fits


@dataclass(frozen=True, slots=True)
class _PodCount:
    """Settings of one number of pods, which are changed together."""

    settings: Mapping[str, int]
    """The values by path."""
    minimum: int = 1
    removals: tuple[Change, ...] = ()
    """Changes that remove settings which contradict a smaller number."""

    def changes(self, count: int) -> tuple[Change, ...]:
        return (*(Change(path, old_count, count) for path, old_count in self.settings.items()), *self.removals)
