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


class Judged(Protocol):
    @property
    def verdicts(self) -> list[Verdict]: ...


T = TypeVar("T", bound=Judged)


def run_rules(rules: Mapping[str, Check[T]], context: T) -> tuple[list[Finding], list[Verdict]]:
    """Return the findings of all rules, and the verdicts on the runs, or no verdicts if their computation raises."""
    found: list[Finding] = []
    for name, check in rules.items():
        try:
            for violation in check.find(context):
                found.append(Finding.of(check.rule, violation))  # noqa: PERF401 (those before a failure are kept)
        except Exception as error:  # noqa: BLE001 (whatever a bug raises must not pass for a rule that finds nothing)
            found.append(_failed(f"rule {name}", error))
    try:
        return found, context.verdicts
    except Exception as error:  # noqa: BLE001 (as above)
        return [*found, _failed("the verdicts on the runs", error)], []


def _failed(subject: str, error: Exception) -> Finding:
    at = extract_tb(error.__traceback__)[-1]
    message = f"{subject} failed with {type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"
    return Finding.of(RULE_FAILED, Violation("", message))
