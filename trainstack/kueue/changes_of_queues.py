"""Changes of a run's cluster queue that may make the run fit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainstack.kueue.candidate import ANOTHER_QUEUE, ANOTHER_RESOURCE, RemedyCandidate
from trainstack.kueue.field_paths import queue_path, quota_path
from trainstack.kueue.model import ClusterQueue, FlavorResource, Model, Quota, ResourceGroup, Usage, Workload
from trainstack.kueue.quantities import format_quantity
from trainstack.kueue.snapshot import QueueSnapshot
from trainstack.kueue.verdict import Change, Reason
from trainstack.kueue.what_if import WhatIf
from trainstack.settings.sections.queues import ClusterQueue as ClusterQueueSettings
from trainstack.settings.values.paths import named_element_paths


@dataclass(frozen=True, slots=True)
class QueueChanges:
    """Changes of settings, or of the object if the environment does not declare the cluster queue."""

    model: Model
    """With `is_declared` if the environment declares the cluster queue."""
    workload: Workload
    cq: QueueSnapshot
    queue_settings: ClusterQueueSettings | None

    @classmethod
    def for_workload(cls, what_if: WhatIf, workload: Workload, cq: QueueSnapshot) -> "QueueChanges":
        """Return the changes of the cluster queue of a workload."""
        queue_settings = next(
            (
                cluster_queue
                for cluster_queue in what_if.settings.queues.cluster_queues
                if cluster_queue.name == cq.spec.name
            ),
            None,
        )
        return cls(replace(what_if.model, is_declared=queue_settings is not None), workload, cq, queue_settings)

    def more_quota(self, shortages: Sequence[Reason]) -> Iterator[RemedyCandidate]:
        """Yield nominal quotas raised by the missing amounts, and raised borrowing limits, if all have one."""
        missing: dict[FlavorResource, int] = {}
        for reason in shortages:
            fr = (reason.flavor, reason.resource)
            missing[fr] = max(missing.get(fr, 0), reason.missing)
        quotas = {fr: self.cq.node.quota(fr) for fr in missing}
        raised_quotas = {fr: replace(quota, nominal=quota.nominal + missing[fr]) for fr, quota in quotas.items()}
        yield self._quota_raise(
            "nominalQuota", {fr: quota.nominal for fr, quota in quotas.items()}, raised_quotas, missing
        )
        limits = {fr: quota.borrowing_limit for fr, quota in quotas.items() if quota.borrowing_limit is not None}
        if len(limits) == len(quotas):
            raised_limits = {
                fr: replace(quotas[fr], borrowing_limit=limit + missing[fr]) for fr, limit in limits.items()
            }
            yield self._quota_raise("borrowingLimit", limits, raised_limits, missing)

    def _quota_raise(
        self, key: str, old_amounts: Usage, new_quotas: Mapping[FlavorResource, Quota], missing: Usage
    ) -> RemedyCandidate:
        texts, changes, size = [], [], 0.0
        for (flavor, resource), number in old_amounts.items():
            old = self._quota_text(flavor, resource, key) or format_quantity(resource, number)
            new = format_quantity(resource, number + missing[flavor, resource])
            texts.append(f"raise {key} of {resource} on {flavor} from {old} to {new}")
            changes.append(Change(quota_path(self.model, self.cq.spec.name, flavor, resource, key), old, new))
            total_requests = sum(pods.requests.get(resource, 0) for pods in self.workload.pod_sets)
            size += missing[flavor, resource] / max(1, total_requests)
        action, quotas = " and ".join(texts), {**self.cq.spec.quotas, **new_quotas}
        text = f"in cluster queue {self.cq.spec.name}, {action}"
        return self._candidate(size, text, action, changes, replace(self.cq.spec, quotas=quotas))

    def _quota_text(self, flavor: str, resource: str, key: str) -> str | None:
        """Return a declared quota as the files have it."""
        for group in self.queue_settings.resource_groups if self.queue_settings else ():
            for quota in (
                resource_quota
                for flavor_quotas in group.flavors
                if flavor_quotas.name == flavor
                for resource_quota in flavor_quotas.resources
            ):
                if quota.name == resource:
                    return quota.nominal_quota if key == "nominalQuota" else quota.borrowing_limit
        return None

    def wider_coverage(self, uncovered_reasons: Sequence[Reason]) -> Iterator[RemedyCandidate]:
        """Yield the first resource group with further resources, and with quota for the workload on each flavor."""
        spec = self.cq.spec
        if not spec.groups:
            return
        group, names = spec.groups[0], sorted({reason.resource for reason in uncovered_reasons})
        totals = {name: sum(pods.requests.get(name, 0) for pods in self.workload.pod_sets) for name in names}
        quotas = {(flavor, name): Quota(total) for flavor in group.flavors for name, total in totals.items()}
        groups = (ResourceGroup(group.covered_resources | set(names), group.flavors), *spec.groups[1:])
        amounts = {name: format_quantity(name, total) for name, total in totals.items()}
        action = f"cover {' and '.join(f'{name} (at least {amount})' for name, amount in amounts.items())}"
        wider_queue = replace(spec, groups=groups, quotas={**spec.quotas, **quotas})
        text = f"{action} in cluster queue {spec.name}"
        yield self._candidate(ANOTHER_RESOURCE, text, action, list(self._coverage_changes(amounts)), wider_queue)

    def _coverage_changes(self, amounts: Mapping[str, str]) -> Iterator[Change]:
        """Yield the changes of settings that add resources to the first group: Kueue requires one order of them."""
        if self.queue_settings is None:
            return
        group, path = self.queue_settings.resource_groups[0], f"{self._path()}.resourceGroups[0]"
        covered_resources = group.covered_resources
        yield Change(f"{path}.coveredResources", covered_resources, (*covered_resources, *amounts))
        new_quotas = tuple({"name": name, "nominalQuota": amount} for name, amount in amounts.items())
        for flavor_path, flavor in zip(
            named_element_paths(f"{path}.flavors", [flavor.name for flavor in group.flavors]),
            group.flavors,
            strict=True,
        ):
            quotas = tuple(quota.model_dump(by_alias=True, exclude_unset=True) for quota in flavor.resources)
            yield Change(f"{flavor_path}.resources", quotas, (*quotas, *new_quotas))

    def namespace_admission(self) -> Iterator[RemedyCandidate]:
        """Yield the cluster queue with the workload's namespace."""
        namespace, name = self.workload.namespace, self.cq.spec.name
        changes = []
        if self.queue_settings is not None and self.queue_settings.namespaces is not None:
            namespaces = self.queue_settings.namespaces
            changes = [Change(self._path("namespaces"), namespaces, (*namespaces, namespace))]
        text, action = f"add {namespace} to the namespaces of cluster queue {name}", f"admit namespace {namespace}"
        yield self._candidate(ANOTHER_QUEUE, text, action, changes, replace(self.cq.spec, namespace_selector=()))

    def _path(self, key: str = "") -> str:
        return queue_path(self.model, self.cq.spec.name, key)

    def _candidate(
        self, size: float, text: str, action: str, changes: Sequence[Change], queue: ClusterQueue
    ) -> RemedyCandidate:
        """Return the settings' changes with their text; without settings, what the owner of the queue may do."""
        if self.queue_settings is not None:
            return RemedyCandidate(size, text, tuple(changes))
        return RemedyCandidate(size, f"have the owner of cluster queue {queue.name} {action}", tuple(changes), queue)
