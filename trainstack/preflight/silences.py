"""Silences of findings, from `checks.silenced`, and the rules about the silences themselves."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trainstack.preflight.examples import yaml_at
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule import Rule, Violation
from trainstack.settings.errors import Place, closest_name
from trainstack.settings.sections.checks import Silence
from trainstack.settings.values.paths import nearest_place

SILENCE_UNKNOWN = Rule(
    id="silence-unknown",
    summary="A silence names an unknown rule.",
    change=yaml_at("checks.silenced", '- {rule: never-fit, path: "workloads.runs[hello]", reason: Known.}'),
    remedy="Use an id that `trainstack explain` lists.",
)
SILENCE_REFUSED = Rule(
    id="silence-refused",
    summary="A silence names a rule that cannot be silenced: the change would only fail later.",
    change=yaml_at("checks.silenced", "- {rule: covered-resources, path: queues, reason: Known.}"),
    remedy="Correct what the rule finds, and remove the entry.",
)
SILENCE_UNUSED = Rule(
    id="silence-unused",
    severity="warning",
    summary="A silence matches no finding.",
    details="Silences of rules over clusters are checked only with `--cluster`.",
    change=yaml_at("checks.silenced", "- {rule: data-unmounted, path: workloads, reason: Known.}"),
    remedy="Remove the entry.",
)
RULES: tuple[Rule, ...] = (SILENCE_UNKNOWN, SILENCE_REFUSED, SILENCE_UNUSED)
"""Rules about entries of `checks.silenced`."""


def finalize_findings(
    findings: Iterable[Finding],
    silences: Sequence[Silence],
    rules: Iterable[Rule],
    places: Mapping[str, Place],
    earlier_findings: Sequence[Finding] = (),
) -> list[Finding]:
    """Return the sorted findings without duplicates, with their places and the reasons of matching silences.

    `rules`: a silence of one of these rules that matches no finding adds a finding. `earlier_findings`: findings of
    another check that also count as matches, but are not returned.
    """
    marked_findings = [_with_silence_reason(finding, silences) for finding in findings]
    silenceable = [rule for rule in rules if rule.silenceable]
    unused_silence_findings = _find_unused_silences([*marked_findings, *earlier_findings], silences, silenceable)
    located_findings = {
        replace(finding, where=nearest_place(places, finding.path))
        for finding in (*marked_findings, *unused_silence_findings)
    }
    return sorted(located_findings, key=lambda finding: finding.sort_key)


def find_invalid_silences(silences: Sequence[Silence], rules: Mapping[str, Rule]) -> Iterator[Finding]:
    """Yield a finding for each silence of an unknown rule, or of a rule that cannot be silenced.

    `rules`: all rules over files and clusters, by id.
    """
    for index, silence in enumerate(silences):
        path = f"checks.silenced[{index}].rule"
        rule = rules.get(silence.rule)
        if rule is None:
            similar_id = closest_name(silence.rule, rules)
            remedy = f"did you mean {similar_id}?" if similar_id else None
            yield Finding.from_violation(SILENCE_UNKNOWN, Violation(path, f"unknown rule {silence.rule!r}", remedy))
        elif not rule.silenceable:
            message = f"rule {silence.rule} cannot be silenced: the change would be refused anyway"
            yield Finding.from_violation(SILENCE_REFUSED, Violation(path, message))


def _find_unused_silences(
    findings: Collection[Finding], silences: Sequence[Silence], rules: Collection[Rule]
) -> Iterator[Finding]:
    for index, silence in enumerate(silences):
        is_checked = any(silence.rule == rule.id for rule in rules)
        if is_checked and not any(_matches(silence, finding) for finding in findings):
            message = f"there is no finding of {silence.rule} at {silence.path}"
            yield Finding.from_violation(SILENCE_UNUSED, Violation(f"checks.silenced[{index}]", message))


def _with_silence_reason(finding: Finding, silences: Sequence[Silence]) -> Finding:
    reasons = (silence.reason for silence in silences if finding.rule.silenceable and _matches(silence, finding))
    reason = next(reasons, "")
    return replace(finding, silence_reason=reason) if reason else finding


def _matches(silence: Silence, finding: Finding) -> bool:
    """Return whether the finding is of the silenced rule, at the silenced path or within it."""
    suffix = finding.path.removeprefix(silence.path)
    return silence.rule == finding.id and finding.path.startswith(silence.path) and suffix[:1] in ("", ".", "[")
