"""Changes of a run's tolerations, node selector and required node affinity, which apply to all its pods."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from trainstack.kueue.candidate import ANOTHER_POD, Candidate
from trainstack.kueue.model import Flavor, PodSet, Requirement
from trainstack.kueue.node_affinity import matches, untolerated
from trainstack.kueue.verdict import Change
from trainstack.settings.sections.affinity import Affinity, NodeAffinity, NodeRequirement, NodeSelector, NodeTerm
from trainstack.settings.sections.workloads import Workload as Run
from trainstack.settings.values.paths import child

_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")

Edit = tuple[str, Change]
"""A change with its text."""


def suited_to(flavor: Flavor, keys: Collection[str], run: Run, path: str, pods: PodSet) -> Candidate | None:
    """Return what makes the pods tolerate and select a flavor's nodes; None if the settings do so.

    `keys`: the labels that Kueue compares. `path`: of the run.
    """
    edits = [
        *_tolerating(flavor, run, path, pods),
        *_selecting(flavor, keys, run, path),
        *_with_affinity(flavor, keys, run.affinity, path),
    ]
    if not edits:
        return None
    text = f"{' and '.join(text for text, _ in edits)}, for flavor {flavor.name}"
    return Candidate(ANOTHER_POD, text, tuple(change for _, change in edits))


def _tolerating(flavor: Flavor, run: Run, path: str, pods: PodSet) -> Iterator[Edit]:
    tolerations = (*pods.tolerations, *flavor.tolerations)
    taints = [taint for taint in flavor.taints if untolerated((taint,), tolerations) is not None]
    if not taints:
        return
    before = tuple(one.model_dump(by_alias=True, exclude_unset=True) for one in run.tolerations)
    added = tuple(
        {
            "key": taint.key,
            "operator": "Equal",
            **({"value": taint.value} if taint.value else {}),
            "effect": taint.effect,
        }
        for taint in taints
    )
    listed = " and ".join(f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in taints)
    yield f"add {listed} to tolerations", Change(f"{path}.tolerations", before or None, (*before, *added))


def _selecting(flavor: Flavor, keys: Collection[str], run: Run, path: str) -> Iterator[Edit]:
    for key, value in run.node_selector.items():
        label = flavor.labels.get(key)
        if key in keys and label != value:
            place = child("nodeSelector", key)
            text = f"remove {place} ({value})" if label is None else f"set {place} to {label} instead of {value}"
            yield text, Change(f"{path}.{place}", value, label)


def _with_affinity(flavor: Flavor, keys: Collection[str], affinity: Affinity | None, path: str) -> Iterator[Edit]:
    """Yield the term of the required node affinity that needs the fewest changes, with them."""
    nodes = affinity.node_affinity if affinity else None
    required = nodes.required_during_scheduling_ignored_during_execution if nodes else None
    if affinity is None or nodes is None or required is None:
        return
    terms = [_Term(term, flavor.labels, keys) for term in required.node_selector_terms]
    if not all(term.compared for term in terms) or not all(term.mismatched for term in terms):
        return
    index, term = min(enumerate(terms), key=lambda item: len(item[1].mismatched))
    changed, listed = term.matching(), " and ".join(map(_text, term.mismatched))
    if changed is None:
        yield _without_affinity(affinity, nodes, required, path, listed)
        return
    place = ".".join(_AFFINITY)
    before = tuple(one.model_dump(by_alias=True, exclude_unset=True) for one in required.node_selector_terms)
    labels = [f"{one.key} In {flavor.labels[one.key]}" for one in term.mismatched if one.key in flavor.labels]
    text = f"require {' and '.join(labels)} instead of {listed}" if labels else f"do not require {listed}"
    after = (*before[:index], changed, *before[index + 1 :])
    yield f"{text} in {place}[{index}]", Change(f"{path}.{place}", before, after)


def _without_affinity(affinity: Affinity, nodes: NodeAffinity, required: NodeSelector, path: str, listed: str) -> Edit:
    """Remove the requirement, with the maps around it that have nothing else: Kubernetes refuses an empty term."""
    maps: tuple[Affinity | NodeAffinity | NodeSelector, ...] = (affinity, nodes, required)
    depth = 3
    while depth > 1 and len(maps[depth - 2].model_fields_set) == 1:
        depth -= 1
    place = ".".join(_AFFINITY[:depth])
    before = maps[depth - 1].model_dump(by_alias=True, exclude_unset=True)
    return f"remove {place} ({listed})", Change(f"{path}.{place}", before, None)


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a required node affinity, compared with a flavor."""

    term: NodeTerm
    labels: Mapping[str, str]
    keys: Collection[str]

    @property
    def compared(self) -> list[NodeRequirement]:
        return [one for one in self.term.match_expressions if one.key in self.keys]

    @property
    def mismatched(self) -> list[NodeRequirement]:
        return [
            one for one in self.compared if not matches(Requirement(one.key, one.operator, one.values), self.labels)
        ]

    def matching(self) -> dict[str, object] | None:
        """Return the term with the flavor's labels in place of what does not match them; None if nothing is left."""
        expressions: list[dict[str, object]] = []
        for one in self.term.match_expressions:
            body = one.model_dump(by_alias=True, exclude_unset=True)
            if one in self.mismatched and one.key in self.labels:
                body = {"key": one.key, "operator": "In", "values": (self.labels[one.key],)}
            if (one not in self.mismatched or one.key in self.labels) and body not in expressions:
                expressions.append(body)
        rest = self.term.model_dump(by_alias=True, exclude_unset=True, exclude={"match_expressions"})
        return {"matchExpressions": tuple(expressions), **rest} if expressions or rest.get("matchFields") else None


def _text(one: NodeRequirement) -> str:
    return " ".join([one.key, one.operator, *([", ".join(one.values)] if one.values else [])])
