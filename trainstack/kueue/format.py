"""A verdict for people in a line or a few, and for programs as plain data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from trainstack.kueue.model import Usage
from trainstack.kueue.quantities import quantity, readable
from trainstack.kueue.verdict import Assigned, Verdict

_NAMES = 4
"""Runs that are named of those with one verdict."""


def summary(verdict: Verdict) -> str:
    """The outcome in one line: `fits by borrowing: on a100; borrows 4 nvidia.com/gpu on a100`."""
    parts = [placed(verdict.assigned)] if verdict.assigned else []
    if verdict.borrowed:
        parts.append(f"borrows {amounts(verdict.borrowed)}")
    if verdict.preempts:
        parts.append(f"in the place of {_some(verdict.preempts)}")
    if verdict.checks:
        parts.append(f"then admission check {', '.join(verdict.checks)}")
    parts += [reason.message for reason in verdict.reasons]
    if verdict.remedies:
        parts.append(f"what would help: {'; or '.join(remedy.text for remedy in verdict.remedies)}")
    return ": ".join(filter(None, [verdict.outcome, "; ".join(parts)]))


def lines(verdicts: Iterable[Verdict]) -> list[str]:
    """A line for each verdict, told once for all runs that have the same: `digits, digits-2: fits: on cpu`."""
    alike: dict[str, list[str]] = {}
    for verdict in verdicts:
        alike.setdefault(summary(verdict), []).append(verdict.name)
    return [f"{_some(names)}: {said}" for said, names in alike.items()]


def placed(assigned: Sequence[Assigned]) -> str:
    """On which flavors: `on a100`, or where pods differ `master on cpu, 3 worker on a100`."""
    flavors = {each.pod_set: " and ".join(dict.fromkeys(each.flavors.values())) or "no flavor" for each in assigned}
    if len(set(flavors.values())) == 1:
        return f"on {next(iter(flavors.values()))}"
    return ", ".join(f"{each.count} {each.pod_set} on {flavors[each.pod_set]}" for each in assigned)


def amounts(usage: Usage) -> str:
    """How much of what: `4 nvidia.com/gpu and 8Gi memory on a100`."""
    by_flavor: dict[str, list[str]] = {}
    for (flavor, resource), number in usage.items():
        by_flavor.setdefault(flavor, []).append(f"{readable(resource, number)} {resource}")
    return ", ".join(f"{' and '.join(listed)} on {flavor}" for flavor, listed in by_flavor.items())


def as_data(verdict: Verdict) -> dict[str, Any]:
    """All of it, as JSON takes it; amounts as Kubernetes writes them."""
    # The key is older than the name.
    data = {"lacks" if key == "reasons" else key: value for key, value in asdict(verdict).items()}
    data["usage"] = _listed(verdict.usage)
    data["borrowed"] = _listed(verdict.borrowed)
    for reason, said in zip(verdict.reasons, data["lacks"], strict=True):
        said["missing"] = quantity(reason.resource, reason.missing) if reason.resource else ""
    return data


def _listed(usage: Usage) -> list[Mapping[str, str]]:
    return [
        {"flavor": flavor, "resource": resource, "amount": quantity(resource, number)}
        for (flavor, resource), number in usage.items()
    ]


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _NAMES
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:_NAMES])} and {rest} more"
