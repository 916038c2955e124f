"""Match pods with nodes: labels with selectors and affinity, taints with tolerations."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from trainstack.kueue.model import Requirement, Taint, Toleration
from trainstack.settings.values.kubernetes import is_label_value
from trainstack.settings.values.quantities import MAX_AMOUNT

COMPARISONS = ("Gt", "Lt")
"""The operators that compare integers."""
_GO_INTEGER = re.compile(r"[+-]?[0-9]+")
"""What Go's ParseInt accepts: Python's `int` also reads `1_0`, spaces and digits of other scripts."""
_DECIMAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
"""What tolerations compare. Source: IsDecimalInteger in k8s.io/apimachinery."""


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
    if toleration.operator in COMPARISONS:
        is_decimal = all(map(_DECIMAL_INTEGER.fullmatch, (taint.value, toleration.value)))
        return is_decimal and _compare(toleration.operator, taint.value, toleration.value)
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
    return match_labels(selector, affinity, labels, keys) is True


def match_labels(
    selector: Mapping[str, str],
    affinity: Sequence[Sequence[Requirement]],
    labels: Mapping[str, str],
    keys: Collection[str],
) -> bool | Requirement:
    """Return the same as `suits`, or the requirement for which Kueue refuses the pods instead of trying other flavors.

    It is the first one that Kueue cannot read, if no term matches. Source: LazyErrorNodeSelector.Match in
    k8s.io/component-helpers.
    """
    if any(labels.get(key) != value for key, value in selector.items() if key in keys):
        return False
    terms = [[requirement for requirement in term if requirement.key in keys] for term in affinity]
    if not terms or not all(terms):
        return True
    first_unreadable: Requirement | None = None
    for term in terms:
        unreadable = next(filter(requirement_fault, term), None)
        if unreadable is None and _all_match(term, labels):
            return True
        first_unreadable = first_unreadable or unreadable
    return first_unreadable or False


@lru_cache(maxsize=4096)
def requirement_fault(requirement: Requirement) -> str:
    """Return why Kueue and the scheduler cannot read a requirement; empty if they can.

    The API server checks only the number of values. Source: NewRequirement in k8s.io/apimachinery/pkg/labels.
    """
    operator, values = requirement.operator, requirement.values
    if operator in COMPARISONS and (len(values) != 1 or _integer(values[0]) is None):
        return f"{operator} compares with one integer of 64 bits, not with {', '.join(map(repr, values)) or 'nothing'}"
    if operator in ("In", "NotIn") and not values:
        return f"{operator} has no values"
    if operator in ("Exists", "DoesNotExist") and values:
        return f"{operator} takes no values"
    return next((f"{value!r} is not a label value" for value in values if not is_label_value(value)), "")


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
            return (
                exists and len(requirement.values) == 1 and _compare(requirement.operator, label, *requirement.values)
            )


def _compare(operator: str, text: str, bound_text: str) -> bool:
    """Compare two integers by `Gt` or `Lt`; false if one of the texts is none."""
    value, bound = _integer(text), _integer(bound_text)
    if value is None or bound is None:
        return False
    return value > bound if operator == "Gt" else value < bound


def _integer(text: str) -> int | None:
    number = int(text) if _GO_INTEGER.fullmatch(text) else None
    return number if number is not None and -MAX_AMOUNT - 1 <= number <= MAX_AMOUNT else None
