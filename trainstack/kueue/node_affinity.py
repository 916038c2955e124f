"""Match pods with nodes: labels with selectors and affinity, taints with tolerations."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from trainstack.kueue.model import Requirement, Taint, Toleration


def find_untolerated_taint(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> Taint | None:
    """Return the first taint that is not tolerated; taints with effect PreferNoSchedule are ignored.

    Source: FindMatchingUntoleratedTaint in k8s.io/component-helpers, as checkFlavorForPodSets in Kueue's
    pkg/scheduler/flavorassigner/flavorassigner.go calls it.
    """
    for taint in taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(
            _tolerates(toleration, taint) for toleration in tolerations
        ):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def suits(
    selector: Mapping[str, str],
    affinity: Sequence[Sequence[Requirement]],
    labels: Mapping[str, str],
    keys: Collection[str],
) -> bool:
    """Whether the labels of a node or flavor match a nodeSelector and the terms of a required node affinity.

    `keys`: label keys to compare, for a flavor those of its resource group. Other keys are ignored; a term that has
    only ignored keys matches. Source: flavorSelector in Kueue's pkg/scheduler/flavorassigner/flavorassigner.go.
    """
    if any(labels.get(key) != value for key, value in selector.items() if key in keys):
        return False
    terms = [[requirement for requirement in term if requirement.key in keys] for term in affinity]
    return not terms or not all(terms) or any(_all_match(term, labels) for term in terms)


def _all_match(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(matches(requirement, labels) for requirement in requirements)


def selector_matches(requirements: Sequence[Requirement] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; None matches nothing."""
    return requirements is not None and _all_match(requirements, labels)


def matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels match a requirement. Source: Requirement.Matches in k8s.io/apimachinery/pkg/labels."""
    exists, label = requirement.key in labels, labels.get(requirement.key, "")
    match requirement.operator:
        case "In":
            return exists and label in requirement.values
        case "NotIn":
            return not exists or label not in requirement.values
        case "Exists":
            return exists
        case "DoesNotExist":
            return not exists
        case _:
            return exists and _satisfies_bound(requirement, label)


def _satisfies_bound(requirement: Requirement, label: str) -> bool:
    """Compare integers for `Gt` and `Lt`."""
    try:
        value, bound = int(label), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return value > bound if requirement.operator == "Gt" else value < bound
