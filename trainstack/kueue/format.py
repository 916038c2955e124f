"""Verdicts as text and as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from trainstack.kueue.model import Usage
from trainstack.kueue.quantities import format_quantity, format_readable
from trainstack.kueue.releases import MODELED_MINORS
from trainstack.kueue.verdict import PodSetAdmission, Verdict
from trainstack.objects.ownership import format_names

_MAX_NAMES = 4
DEFAULTS = "Kueue's Configuration, which could not be read, has its defaults"
Fact = tuple[str, str]
"""A label, empty for a fact that needs none, and a text: `("borrows", "4 nvidia.com/gpu on a100")`."""


def summary(verdict: Verdict) -> str:
    """Format a verdict in one line: `fits by borrowing: on a100; borrows 4 nvidia.com/gpu on a100`.

    A verdict of Kueue's own code is marked: `fits (by the code of Kueue v0.15.2): on a100, in example.com/rack r1`, and
    so is one whose release was not compared: `fits (by the rules of v0.19; v0.20 is not compared): on a100`.
    """
    parts = [f"{label} {text}".lstrip() for label, text in admission_facts(verdict)]
    parts += [reason.message for reason in verdict.reasons]
    if verdict.remedies:
        parts.append(f"what would help: {'; or '.join(remedy.text for remedy in verdict.remedies)}")
    marks = [f"by {origin}"] if (origin := unusual_origin(verdict)) else []
    marks += [f"if {DEFAULTS}"] if verdict.assumes_defaults else []
    mark = f" ({', '.join(marks)})" if marks else ""
    return ": ".join(filter(None, [f"{verdict.outcome}{mark}", "; ".join(parts)]))


def unusual_origin(verdict: Verdict) -> str:
    """Return what a verdict is by, unless it is by rules that were compared with the release; else an empty text."""
    if verdict.judged_by:
        return f"the code of {verdict.judged_by}"
    return describe_rules(verdict.rules, verdict.not_compared) if verdict.not_compared else ""


def describe_rules(rules: str, not_compared: str) -> str:
    """Return `the rules of v0.19; v0.20 is not compared`."""
    return f"the rules of {rules}{f'; {not_compared} is not compared' if not_compared else ''}"


def describe_release(verdicts: Sequence[Verdict]) -> str:
    """Return what verdicts of one calculation are for: `Kueue v0.19.2, from the files, by the rules of v0.19`.

    Empty without verdicts. What Kueue's own code decides is marked in each verdict.
    """
    if not verdicts:
        return ""
    verdict = next((verdict for verdict in verdicts if not verdict.judged_by), verdicts[0])
    kueue = f"Kueue {verdict.release}" if verdict.release else "a Kueue of unknown release"
    rules = (
        unusual_origin(verdict)
        or (describe_rules(verdict.rules, "") if verdict.rules else "")
        or ("" if verdict.release else f"the rules that {MODELED_MINORS[0]} to {MODELED_MINORS[-1]} share")
    )
    return f"{kueue}, from the {verdict.source}{f', by {rules}' if rules else ''}"


def admission_facts(verdict: Verdict) -> list[Fact]:
    """Return how the run would be admitted: its flavors, then what it borrows, preempts and has yet to pass."""
    facts = [("", describe_assignment(verdict.assigned))] if verdict.assigned else []
    if verdict.assigned and not any(verdict.usage.values()):
        facts.append(("", "uses no quota, because its pods request nothing that Kueue counts"))
    if verdict.borrowed:
        facts.append(("borrows", describe_usage(verdict.borrowed)))
    if verdict.preempts:
        facts.append(("preempts", format_names(verdict.preempts, _MAX_NAMES)))
    if verdict.checks:
        facts.append(("then", f"admission check {', '.join(verdict.checks)}"))
    return facts


def verdict_lines(verdicts: Iterable[Verdict]) -> list[str]:
    """Return one line per distinct verdict, with its runs: `digits, digits-2: fits: on cpu`."""
    names: dict[str, list[str]] = {}
    for verdict in verdicts:
        names.setdefault(summary(verdict), []).append(verdict.name)
    return [f"{format_names(runs, _MAX_NAMES)}: {text}" for text, runs in names.items()]


def describe_assignment(admissions: Sequence[PodSetAdmission]) -> str:
    """Name the flavors: `on a100`, or if pod sets differ `1 master on cpu, 3 worker on a100`."""
    flavors = {pods.pod_set: " and ".join(dict.fromkeys(pods.flavors.values())) or "no flavor" for pods in admissions}
    domains = {pods.pod_set: _narrowest_domain(pods) for pods in admissions}
    if len(set(flavors.values())) == 1 and len(set(domains.values())) == 1:
        return f"on {next(iter(flavors.values()))}{next(iter(domains.values()))}"
    return ", ".join(
        f"{pods.count} {pods.pod_set} on {flavors[pods.pod_set]}{domains[pods.pod_set]}" for pods in admissions
    )


def _narrowest_domain(pods: PodSetAdmission) -> str:
    """Name the narrowest domain that contains all pods: `, in example.com/rack r1`."""
    if not pods.domains:
        return ""
    levels = pods.domains[0].levels
    distinct_values = {domain.values for domain in pods.domains}
    shared_levels = [
        level for index, level in enumerate(levels) if len({values[: index + 1] for values in distinct_values}) == 1
    ]
    if not shared_levels:
        return f", in {len({values[0] for values in distinct_values})} of {levels[0]}"
    return f", in {shared_levels[-1]} {pods.domains[0].values[len(shared_levels) - 1]}"


def describe_usage(usage: Usage) -> str:
    """Format a usage: `4 nvidia.com/gpu and 8Gi memory on a100`."""
    by_flavor: dict[str, list[str]] = {}
    for (flavor, resource), number in usage.items():
        by_flavor.setdefault(flavor, []).append(f"{format_readable(resource, number)} {resource}")
    return ", ".join(f"{' and '.join(texts)} on {flavor}" for flavor, texts in by_flavor.items())


def as_data(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON data, with Kubernetes quantities."""
    # The key `lacks` is part of the published output.
    verdict_data = {"lacks" if key == "reasons" else key: value for key, value in asdict(verdict).items()}
    verdict_data["usage"] = _usage_rows(verdict.usage)
    verdict_data["borrowed"] = _usage_rows(verdict.borrowed)
    for reason, body in zip(verdict.reasons, verdict_data["lacks"], strict=True):
        body["missing"] = format_quantity(reason.resource, reason.missing) if reason.resource else ""
    return verdict_data


def _usage_rows(usage: Usage) -> list[Mapping[str, str]]:
    return [
        {"flavor": flavor, "resource": resource, "amount": format_quantity(resource, number)}
        for (flavor, resource), number in usage.items()
    ]
