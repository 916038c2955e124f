"""Smaller or fewer requests in a run's settings.

What Kueue counts of a pod is not the value of a setting: sidecars and the overhead of a runtime class are added, and
transformations count other resources. A setting is lowered by what is missing, so that its other parts stay.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainstack.kueue.candidate import ANOTHER_RESOURCE, RemedyCandidate
from trainstack.kueue.model import Model, PodSet
from trainstack.kueue.quantities import WHOLE, format_quantity, to_billionths
from trainstack.kueue.verdict import Change, Reason
from trainstack.runs.manifests.kind import RunPodSet as PodSettings
from trainstack.settings.sections.workloads import Resources
from trainstack.settings.values.kubernetes import HUGE_PAGES, is_extended_resource
from trainstack.settings.values.paths import child_path

PodSetPairs = Sequence[tuple[PodSet, PodSettings]]
"""A workload's pod sets as Kueue counts them and as the settings have them."""


@dataclass(frozen=True, slots=True)
class _ContainerAmount:
    """A container's amount of a resource."""

    path: str
    """Of the resources."""
    resource: str
    resources: Resources

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields to change: devices and huge pages have equal requests and limits."""
        name = self.resource
        has_equal_limits = is_extended_resource(name) or name.startswith(HUGE_PAGES)
        keys_with_resource = [key for key in ("requests", "limits") if name in getattr(self.resources, key)]
        return tuple(keys_with_resource if has_equal_limits else keys_with_resource[:1])

    @property
    def text(self) -> str:
        text: str = getattr(self.resources, self.keys[0])[self.resource]
        return text

    def lower_by(self, billionths: int) -> str | None:
        """Return the amount lowered by at least this much; None if nothing remains."""
        step = _step(self.resource)
        page = self.resource.removeprefix(HUGE_PAGES)
        if page != self.resource:
            step = to_billionths(page)
        remaining = (to_billionths(self.text) - billionths) // step * step
        return format_quantity(self.resource, remaining // _step(self.resource)) if remaining > 0 else None

    def changes(self, new_amount: str | None) -> Iterator[Change]:
        for key in self.keys:
            old_amount = getattr(self.resources, key)[self.resource]
            yield Change(child_path(f"{self.path}.{key}", self.resource), old_amount, new_amount)


def smaller_pods(
    pod_sets: PodSetPairs, model: Model, shortages: Sequence[Reason], run_path: str, *, on_same_flavor: bool
) -> RemedyCandidate | None:
    """Return the containers' requests, lowered to the available quota; None if nothing of one would remain.

    `on_same_flavor`: whether pod sets with the same setting are on one flavor, so that all of them free quota.
    """
    reductions: dict[tuple[str, str], tuple[_ContainerAmount, int]] = {}
    for reason in shortages:
        index, (pods, pod_settings) = next(
            indexed_pair for indexed_pair in enumerate(pod_sets) if indexed_pair[1][0].name == reason.pod_set
        )
        sources = _sources(pod_settings, model, reason.resource)
        amount, per_unit = next((source for source in sources if source[1]), (None, 0))
        if amount is None:
            return None
        # The shortage includes the requests of earlier pod sets, which decrease with a setting that they share.
        shared_counts = [
            earlier.count
            for earlier, earlier_settings in pod_sets[:index]
            if on_same_flavor and earlier_settings.resources_path == amount.path
        ]
        missing = -(-reason.missing // max(1, pods.count + sum(shared_counts))) * _step(reason.resource)
        if amount.resource != reason.resource:
            # Only whole units of the input are counted.
            missing = -(-missing // per_unit) * WHOLE
        key = (amount.path, amount.resource)
        reductions[key] = (amount, max(missing, reductions.get(key, (amount, 0))[1]))
    changes: list[Change] = []
    size = 0.0
    for amount, billionths in reductions.values():
        new_amount = amount.lower_by(billionths)
        if new_amount is None:
            return None
        changes += amount.changes(new_amount)
        size += billionths / to_billionths(amount.text)
    texts = [f"{change.path} from {change.before} to {change.after}" for change in changes]
    return RemedyCandidate(size, f"lower {_join_settings(texts, run_path)}", tuple(changes))


def without_resources(
    pod_sets: PodSetPairs, model: Model, uncovered_reasons: Sequence[Reason], run_path: str
) -> Iterator[RemedyCandidate]:
    """Yield the settings without the resources that the cluster queue does not cover, if others remain."""
    names = {reason.resource for reason in uncovered_reasons}
    removals: dict[str, Change] = {}
    for pods, pod_settings in pod_sets:
        amounts = [amount for name in names for amount, _ in _sources(pod_settings, model, name)]
        changes = [
            change
            for amount in amounts
            for key in ("requests", "limits")
            if amount.resource in getattr(pod_settings.resources, key)
            for change in [_removal(amount, key)]
        ]
        removals |= {change.path: change for change in changes}
        if not pods.own_resources - {amount.resource for amount in amounts}:
            return
    yield RemedyCandidate(ANOTHER_RESOURCE, f"remove {_join_settings(removals, run_path)}", tuple(removals.values()))


def _removal(amount: _ContainerAmount, key: str) -> Change:
    old_amount = getattr(amount.resources, key)[amount.resource]
    return Change(child_path(f"{amount.path}.{key}", amount.resource), old_amount, None)


def _sources(pod_settings: PodSettings, model: Model, resource: str) -> Iterator[tuple[_ContainerAmount, int]]:
    """Yield the settings of which Kueue counts the resource: its own, and inputs of transformations.

    With the amount that Kueue counts for one unit of a setting, in billionths.
    """
    own_transformation = model.transformations.get(resource)
    counted_per_unit = {resource: WHOLE} if own_transformation is None or not own_transformation.replaces else {}
    for name, transformation in model.transformations.items():
        if resource in transformation.outputs:
            counted_per_unit.setdefault(name, transformation.outputs[resource])
    for name, per_unit in counted_per_unit.items():
        if name in pod_settings.resources.requests or name in pod_settings.resources.limits:
            yield _ContainerAmount(pod_settings.resources_path, name, pod_settings.resources), per_unit


def _join_settings(paths: Sequence[str] | Mapping[str, Change], run_path: str) -> str:
    """Join settings, those of the run without its path."""
    return " and ".join(path.removeprefix(f"{run_path}.") for path in paths)


def _step(resource: str) -> int:
    """Return the unit of Kueue's integers, in billionths."""
    return 10**6 if resource == "cpu" else WHOLE
