"""Which flavors pods may stand on: labels against selectors and affinity, taints against tolerations."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from trainstack.kueue.model import Requirement, Taint, Toleration

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def untolerated(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> Taint | None:
    """The first taint that keeps the pods away; None where all are tolerated.

    Source: FindMatchingUntoleratedTaint in k8s.io/component-helpers, as checkFlavorForPodSets in Kueue's
    pkg/scheduler/flavorassigner/flavorassigner.go calls it: a taint PreferNoSchedule keeps nothing away.
    """
    for taint in taints:
        if taint.effect in _KEEPS_AWAY and not any(_tolerates(each, taint) for each in tolerations):
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
    """Whether nodes with these labels are among those that the pods ask for.

    Args:
        selector: the pods' nodeSelector.
        affinity: their required node affinity, by term.
        labels: of the flavor's nodes.
        keys: the labels of all flavors of the group. What is asked of any other label is left to the scheduler; a term
            that asks of no others is as good as none, and then so is the whole affinity.

    Source: flavorSelector in Kueue's pkg/scheduler/flavorassigner/flavorassigner.go.

    """
    if any(labels.get(key) != wanted for key, wanted in selector.items() if key in keys):
        return False
    terms = [[each for each in term if each.key in keys] for term in affinity]
    return not terms or not all(terms) or any(_all_hold(term, labels) for term in terms)


def _all_hold(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(holds(each, labels) for each in requirements)


def selected(requirements: Sequence[Requirement] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes something with these labels; None takes nothing."""
    return requirements is not None and _all_hold(requirements, labels)


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one requirement; `NotIn` is met by a label that is not there.

    Source: Requirement.Matches in k8s.io/apimachinery/pkg/labels.
    """
    there, found = requirement.key in labels, labels.get(requirement.key, "")
    match requirement.operator:
        case "In":
            return there and found in requirement.values
        case "NotIn":
            return found not in requirement.values if there else True
        case "Exists":
            return there
        case "DoesNotExist":
            return not there
        case _:
            return there and _compares(requirement, found)


def _compares(requirement: Requirement, found: str) -> bool:
    """`Gt` and `Lt` compare whole numbers."""
    try:
        have, bound = int(found), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return have > bound if requirement.operator == "Gt" else have < bound
