"""Application of rules. A rule that raises becomes a finding that blocks the change, because its result is unknown."""

from collections.abc import Mapping
from pathlib import Path
from traceback import extract_tb
from typing import Protocol, TypeVar

from trainstack.kueue.verdict import Verdict
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule import Check, Rule, Violation

RULE_FAILED = Rule(
    id="rule-failed",
    summary="A rule failed with an exception, so its result is unknown.",
    example="`rule image-unpinned failed with KeyError: 'spec' (images.py:49)`.",
    remedy="Report this bug in Trainstack, with the whole message.",
    silenceable=False,
)


class HasVerdicts(Protocol):
    @property
    def verdicts(self) -> list[Verdict]: ...


T = TypeVar("T", bound=HasVerdicts)


def run_rules(checks: Mapping[str, Check[T]], context: T) -> tuple[list[Finding], list[Verdict]]:
    """Return the findings of all rules, and the verdicts on the runs, or no verdicts if their computation raises."""
    findings: list[Finding] = []
    for rule_id, check in checks.items():
        try:
            for violation in check.find(context):
                findings.append(Finding.from_violation(check.rule, violation))  # noqa: PERF401 (those before a failure are kept)
        except Exception as error:  # noqa: BLE001 (whatever a bug raises must not pass for a rule that finds nothing)
            findings.append(_failure_finding(f"rule {rule_id}", error))
    try:
        return findings, context.verdicts
    except Exception as error:  # noqa: BLE001 (as above)
        return [*findings, _failure_finding("the verdicts on the runs", error)], []


def _failure_finding(subject: str, error: Exception) -> Finding:
    frame = extract_tb(error.__traceback__)[-1]
    message = f"{subject} failed with {type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
    return Finding.from_violation(RULE_FAILED, Violation("", message))
