"""Changes of the tolerations, node selector and required node affinity of a run or of one of its roles."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from trainstack.kueue.candidate import ANOTHER_POD, RemedyCandidate
from trainstack.kueue.model import Flavor, PodSet, Requirement
from trainstack.kueue.node_affinity import find_untolerated_taint, matches
from trainstack.kueue.verdict import Change
from trainstack.runs.manifests.kind import RunPodSet
from trainstack.settings.sections.affinity import Affinity, NodeAffinity, NodeRequirement, NodeSelector, NodeTerm
from trainstack.settings.values.paths import child_path

_AFFINITY_KEYS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")

Edit = tuple[str, Change]
"""A change with its text."""


def candidate_for_flavor(
    flavor: Flavor, keys: Collection[str], settings: RunPodSet, pods: PodSet
) -> RemedyCandidate | None:
    """Return what makes the pods tolerate and select a flavor's nodes; None if the settings do so.

    `keys`: the labels that Kueue compares. `settings`: those of the pods.
    """
    edits = [
        *_toleration_edits(flavor, settings, pods),
        *_node_selector_edits(flavor, keys, settings),
        *_affinity_edits(flavor, keys, settings),
    ]
    if not edits:
        return None
    text = f"{' and '.join(text for text, _ in edits)}, for flavor {flavor.name}"
    return RemedyCandidate(ANOTHER_POD, text, tuple(change for _, change in edits))


def _toleration_edits(flavor: Flavor, settings: RunPodSet, pods: PodSet) -> Iterator[Edit]:
    tolerations = (*pods.tolerations, *flavor.tolerations)
    taints = [taint for taint in flavor.taints if find_untolerated_taint((taint,), tolerations) is not None]
    if not taints:
        return
    old_tolerations = tuple(
        toleration.model_dump(by_alias=True, exclude_unset=True) for toleration in settings.settings.tolerations
    )
    path = settings.setting_path("tolerations")
    new_tolerations = tuple(
        {
            "key": taint.key,
            "operator": "Equal",
            **({"value": taint.value} if taint.value else {}),
            "effect": taint.effect,
        }
        for taint in taints
    )
    taints_text = " and ".join(
        f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in taints
    )
    yield (
        f"add {taints_text} to {settings.relative_path(path)}",
        Change(path, old_tolerations or None, (*old_tolerations, *new_tolerations)),
    )


def _node_selector_edits(flavor: Flavor, keys: Collection[str], settings: RunPodSet) -> Iterator[Edit]:
    for key, value in settings.settings.node_selector.items():
        label = flavor.labels.get(key)
        if key in keys and label != value:
            path = child_path(settings.setting_path("node_selector"), key)
            setting = settings.relative_path(path)
            text = f"remove {setting} ({value})" if label is None else f"set {setting} to {label} instead of {value}"
            yield text, Change(path, value, label)


def _affinity_edits(flavor: Flavor, keys: Collection[str], settings: RunPodSet) -> Iterator[Edit]:
    """Yield the term of the required node affinity that needs the fewest changes, with them."""
    affinity = settings.settings.affinity
    node_affinity = affinity.node_affinity if affinity else None
    node_selector = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if affinity is None or node_affinity is None or node_selector is None:
        return
    terms = [_ComparedTerm(term, flavor.labels, keys) for term in node_selector.node_selector_terms]
    if not all(term.relevant_requirements for term in terms) or not all(term.mismatches for term in terms):
        return
    # Kubernetes needs one matching term: the one with the fewest mismatches is the smallest change.
    index, term = min(enumerate(terms), key=lambda indexed_term: len(indexed_term[1].mismatches))
    new_term, mismatch_text = term.for_flavor(), " and ".join(map(_requirement_text, term.mismatches))
    if new_term is None:
        yield _affinity_removal(affinity, node_affinity, node_selector, settings, mismatch_text)
        return
    path = ".".join((settings.setting_path("affinity"), *_AFFINITY_KEYS[1:]))
    old_terms = tuple(
        node_term.model_dump(by_alias=True, exclude_unset=True) for node_term in node_selector.node_selector_terms
    )
    label_texts = [
        f"{requirement.key} In {flavor.labels[requirement.key]}"
        for requirement in term.mismatches
        if requirement.key in flavor.labels
    ]
    text = (
        f"require {' and '.join(label_texts)} instead of {mismatch_text}"
        if label_texts
        else f"do not require {mismatch_text}"
    )
    new_terms = (*old_terms[:index], new_term, *old_terms[index + 1 :])
    yield f"{text} in {settings.relative_path(path)}[{index}]", Change(path, old_terms, new_terms)


def _affinity_removal(
    affinity: Affinity,
    node_affinity: NodeAffinity,
    node_selector: NodeSelector,
    settings: RunPodSet,
    mismatch_text: str,
) -> Edit:
    """Remove the requirement, with the maps around it that have nothing else: Kubernetes refuses an empty term."""
    maps: tuple[Affinity | NodeAffinity | NodeSelector, ...] = (affinity, node_affinity, node_selector)
    depth = 3
    while depth > 1 and len(maps[depth - 2].model_fields_set) == 1:
        depth -= 1
    path = ".".join((settings.setting_path("affinity"), *_AFFINITY_KEYS[1:depth]))
    old_value = maps[depth - 1].model_dump(by_alias=True, exclude_unset=True)
    return f"remove {settings.relative_path(path)} ({mismatch_text})", Change(path, old_value, None)


@dataclass(frozen=True, slots=True)
class _ComparedTerm:
    """A term of a required node affinity, compared with a flavor."""

    term: NodeTerm
    labels: Mapping[str, str]
    keys: Collection[str]

    @property
    def relevant_requirements(self) -> list[NodeRequirement]:
        return [requirement for requirement in self.term.match_expressions if requirement.key in self.keys]

    @property
    def mismatches(self) -> list[NodeRequirement]:
        return [
            requirement
            for requirement in self.relevant_requirements
            if not matches(Requirement(requirement.key, requirement.operator, requirement.values), self.labels)
        ]

    def for_flavor(self) -> dict[str, object] | None:
        """Return the term with the flavor's labels instead of the mismatches; None if nothing remains."""
        expressions: list[dict[str, object]] = []
        for requirement in self.term.match_expressions:
            body = requirement.model_dump(by_alias=True, exclude_unset=True)
            if requirement in self.mismatches and requirement.key in self.labels:
                body = {"key": requirement.key, "operator": "In", "values": (self.labels[requirement.key],)}
            if (requirement not in self.mismatches or requirement.key in self.labels) and body not in expressions:
                expressions.append(body)
        other_fields = self.term.model_dump(by_alias=True, exclude_unset=True, exclude={"match_expressions"})
        return (
            {"matchExpressions": tuple(expressions), **other_fields}
            if expressions or other_fields.get("matchFields")
            else None
        )


def _requirement_text(requirement: NodeRequirement) -> str:
    return " ".join(
        [requirement.key, requirement.operator, *([", ".join(requirement.values)] if requirement.values else [])]
    )
