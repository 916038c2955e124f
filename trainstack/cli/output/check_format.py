"""The result of a check as tables: findings, then the verdict on each run with the findings that explain it."""

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from trainstack.cli.output.console import Facts, make_fact_table, make_text
from trainstack.kueue.format import DEFAULTS, Fact, admission_facts, unusual_origin
from trainstack.kueue.verdict import Reason, Verdict
from trainstack.objects.ownership import format_names
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule import Severity

_HEAD = ("run", "verdict")
_FINDING_STYLES = {"error": "red", "warning": "yellow", "unknown": "dim"}
_OUTCOME_STYLES = {"waits": "yellow", "never fits": "red", "unknown": "dim"}
_MAX_NAMES = 4


def check_tables(findings: Sequence[Finding], verdicts: Sequence[Verdict]) -> Iterator[Table]:
    """Yield a table for each finding, and one of the verdicts, which includes the findings that explain them."""
    explanations = [_explaining_findings(verdict, findings) for verdict in verdicts]
    explaining_ids = {id(finding) for explanation in explanations for finding in explanation}
    for finding in findings:
        if id(finding) not in explaining_ids:
            yield make_fact_table((), [((), _finding_facts(finding))])
    if verdicts:
        yield make_fact_table(_HEAD, _verdict_records(verdicts, explanations))


def _explaining_findings(verdict: Verdict, findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if any(_explains(finding, verdict, reason) for reason in verdict.reasons)]


def _explains(finding: Finding, verdict: Verdict, reason: Reason) -> bool:
    """Return whether a finding and a reason of a verdict state the same fact."""
    if finding.path != (reason.path or verdict.path):
        return False
    # Another rule may describe the setting that is wrong in words of its own, but errors of a whole run may differ.
    return finding.message == reason.message or (finding.severity == "error" and finding.path != verdict.path)


def _finding_facts(finding: Finding) -> Facts:
    place = ": ".join(filter(None, [str(finding.where or ""), finding.path]))
    return [
        (make_text(finding.severity, _FINDING_STYLES[finding.severity]), f"[{finding.id}] {place}".rstrip()),
        ("why", finding.message),
        *([("remedy", finding.remedy)] if finding.remedy else []),
    ]


def _verdict_records(
    verdicts: Sequence[Verdict], explanations: Sequence[Sequence[Finding]]
) -> Iterator[tuple[Sequence[Text], Facts]]:
    """Yield a record for each distinct verdict, with its runs."""
    groups: dict[tuple[str, tuple[Fact, ...]], list[tuple[Verdict, Sequence[Finding]]]] = {}
    for verdict, explanation in zip(verdicts, explanations, strict=True):
        facts = (*admission_facts(verdict), *_reason_facts(verdict, explanation))
        groups.setdefault((verdict.outcome, facts), []).append((verdict, explanation))
    for (outcome, facts), group in groups.items():
        names = [verdict.name for verdict, _ in group]
        more = [f"and {len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
        cells = (
            make_text("\n".join([*names[:_MAX_NAMES], *more])),
            make_text(outcome, _OUTCOME_STYLES.get(outcome, "green")),
        )
        places = _place_facts(finding for _, explanation in group for finding in explanation)
        yield cells, [*facts, *places] or [("", "")]


def _reason_facts(verdict: Verdict, explanation: Sequence[Finding]) -> Iterator[Fact]:
    """Yield why a run does not fit and the remedies, in the words of the findings where there are some."""
    if origin := unusual_origin(verdict):
        yield "by", origin
    if verdict.assumes_defaults:
        yield "if", DEFAULTS
    messages = [
        message
        for reason in verdict.reasons
        for message in [finding.message for finding in explanation if _explains(finding, verdict, reason)]
        or [reason.message]
    ]
    for message in dict.fromkeys(messages):
        yield "why", message
    tried_remedies = [remedy.text for remedy in verdict.remedies]
    other_remedies = {finding.remedy for finding in explanation} - {"; or ".join(tried_remedies), ""}
    for index, remedy in enumerate(sorted(other_remedies) or tried_remedies):
        yield "or" if index else "remedy", remedy


def _place_facts(findings: Iterable[Finding]) -> Iterator[tuple[Text, str]]:
    """Yield where the findings are, in one line for each rule."""
    places_by_rule: dict[tuple[Severity, str], list[str]] = {}
    for finding in findings:
        places_by_rule.setdefault((finding.severity, finding.id), []).append(str(finding.where or finding.path))
    for (severity, id_), places in places_by_rule.items():
        place = format_names([*dict.fromkeys(places)], _MAX_NAMES)
        yield make_text(severity, _FINDING_STYLES[severity]), f"[{id_}] {place}"
