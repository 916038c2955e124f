"""Smaller or fewer requests in a run's settings.

What Kueue counts of a pod is not the value of a setting: sidecars and the overhead of a runtime class are added, and
transformations count other resources. A setting is lowered by what is missing, so that its other parts stay.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainstack.kueue.candidate import ANOTHER_RESOURCE, Candidate
from trainstack.kueue.model import Model, PodSet
from trainstack.kueue.quantities import WHOLE, exact, quantity
from trainstack.kueue.verdict import Change, Reason
from trainstack.runs.manifests.kind import PodSet as DeclaredPods
from trainstack.settings.sections.workloads import Resources
from trainstack.settings.values.kubernetes import HUGE_PAGES, is_extended
from trainstack.settings.values.paths import child

Pods = Sequence[tuple[PodSet, DeclaredPods]]
"""A workload's pod sets as Kueue counts them and as the settings have them."""


@dataclass(frozen=True, slots=True)
class _Amount:
    """A container's amount of a resource."""

    path: str
    """Of the resources."""
    resource: str
    resources: Resources

    @property
    def keys(self) -> tuple[str, ...]:
        """Where the amount is to be changed: devices and huge pages have equal requests and limits."""
        name = self.resource
        both = is_extended(name) or name.startswith(HUGE_PAGES)
        listed = [key for key in ("requests", "limits") if name in getattr(self.resources, key)]
        return tuple(listed if both else listed[:1])

    @property
    def text(self) -> str:
        text: str = getattr(self.resources, self.keys[0])[self.resource]
        return text

    def lowered(self, billionths: int) -> str | None:
        """Return the amount lowered by at least this much; None if nothing is left."""
        step = _step(self.resource)
        page = self.resource.removeprefix(HUGE_PAGES)
        if page != self.resource:
            step = exact(page)
        rest = (exact(self.text) - billionths) // step * step
        return quantity(self.resource, rest // _step(self.resource)) if rest > 0 else None

    def changes(self, after: str | None) -> Iterator[Change]:
        for key in self.keys:
            before = getattr(self.resources, key)[self.resource]
            yield Change(child(f"{self.path}.{key}", self.resource), before, after)


def smaller_pods(
    pod_sets: Pods, model: Model, short: Sequence[Reason], run_path: str, *, together: bool
) -> Candidate | None:
    """Return the containers' requests, lowered to the available quota; None if nothing would be left of one.

    `together`: whether pod sets with the same setting are on the same flavor, so that each of them frees quota.
    """
    reductions: dict[tuple[str, str], tuple[_Amount, int]] = {}
    for reason in short:
        place, (pods, declared) = next(item for item in enumerate(pod_sets) if item[1][0].name == reason.pod_set)
        sources = _sources(declared, model, reason.resource)
        amount, per_unit = next((source for source in sources if source[1]), (None, 0))
        if amount is None:
            return None
        sharing = [one.count for one, other in pod_sets[:place] if together and other.resources_path == amount.path]
        missing = -(-reason.missing // max(1, pods.count + sum(sharing))) * _step(reason.resource)
        if amount.resource != reason.resource:
            # Only whole units of the input are counted.
            missing = -(-missing // per_unit) * WHOLE
        key = (amount.path, amount.resource)
        reductions[key] = (amount, max(missing, reductions.get(key, (amount, 0))[1]))
    changes: list[Change] = []
    size = 0.0
    for amount, billionths in reductions.values():
        after = amount.lowered(billionths)
        if after is None:
            return None
        changes += amount.changes(after)
        size += billionths / exact(amount.text)
    texts = [f"{change.path} from {change.before} to {change.after}" for change in changes]
    return Candidate(size, f"lower {_relative(texts, run_path)}", tuple(changes))


def without(pod_sets: Pods, model: Model, uncovered: Sequence[Reason], run_path: str) -> Iterator[Candidate]:
    """Yield the settings without what the cluster queue does not cover; something is left for it to count."""
    names = {reason.resource for reason in uncovered}
    removed: dict[str, Change] = {}
    for pods, declared in pod_sets:
        amounts = [amount for name in names for amount, _ in _sources(declared, model, name)]
        changes = [
            change
            for amount in amounts
            for key in ("requests", "limits")
            if amount.resource in getattr(declared.resources, key)
            for change in [_removal(amount, key)]
        ]
        removed |= {change.path: change for change in changes}
        if not pods.own_resources - {amount.resource for amount in amounts}:
            return
    yield Candidate(ANOTHER_RESOURCE, f"remove {_relative(removed, run_path)}", tuple(removed.values()))


def _removal(amount: _Amount, key: str) -> Change:
    before = getattr(amount.resources, key)[amount.resource]
    return Change(child(f"{amount.path}.{key}", amount.resource), before, None)


def _sources(declared: DeclaredPods, model: Model, resource: str) -> Iterator[tuple[_Amount, int]]:
    """Yield the settings of which Kueue counts the resource: its own, and inputs of transformations.

    With each of them, the counted amount for one unit, in billionths.
    """
    own = model.transformations.get(resource)
    counted = {resource: WHOLE} if own is None or not own.replaces else {}
    for name, transformation in model.transformations.items():
        if resource in transformation.outputs:
            counted.setdefault(name, transformation.outputs[resource])
    for name, per_unit in counted.items():
        if name in declared.resources.requests or name in declared.resources.limits:
            yield _Amount(declared.resources_path, name, declared.resources), per_unit


def _relative(paths: Sequence[str] | Mapping[str, Change], run_path: str) -> str:
    """Join settings, those of the run without its path."""
    return " and ".join(path.removeprefix(f"{run_path}.") for path in paths)


def _step(resource: str) -> int:
    """Return the unit of Kueue's integers, in billionths."""
    return 10**6 if resource == "cpu" else WHOLE
