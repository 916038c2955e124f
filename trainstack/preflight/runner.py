"""Runs rules over an environment. A rule that fails is a finding that stops the change: what it checks is not known.

docs/checks.md has a section for the id.
"""

from collections.abc import Mapping
from pathlib import Path
from traceback import extract_tb
from typing import Protocol, TypeVar

from trainstack.kueue.verdict import Verdict
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule import Check, Rule, Violation

RULE_FAILED = Rule(
    id="rule-failed",
    severity="error",
    summary="A rule, or the verdict on the runs, failed with an exception, so its result is not known.",
    details="The message has the rule, the exception and its place in the code.",
    example="`the rule image-unpinned failed with KeyError: 'spec' (images.py:49)`.",
    remedy="Report the whole message: it is a bug in Trainstack.",
    silenceable=False,
)


class Judged(Protocol):
    """What rules look at."""

    @property
    def verdicts(self) -> list[Verdict]:
        """Whether each run that Kueue holds would be admitted."""


T = TypeVar("T", bound=Judged)


def run_rules(rules: Mapping[str, Check[T]], scene: T) -> tuple[list[Finding], list[Verdict]]:
    """Everything that the rules find, and the verdicts on the runs; none where these fail."""
    found: list[Finding] = []
    for name, check in rules.items():
        try:
            for violation in check.find(scene):
                found.append(Finding.of(check.rule, violation))  # noqa: PERF401 (those before a failure are kept)
        except Exception as error:  # noqa: BLE001 (whatever a bug raises must not pass for a rule that finds nothing)
            found.append(_failed(f"the rule {name}", error))
    try:
        return found, scene.verdicts
    except Exception as error:  # noqa: BLE001 (as above)
        return [*found, _failed("the verdicts on the runs", error)], []


def _failed(what: str, error: Exception) -> Finding:
    at = extract_tb(error.__traceback__)[-1]
    message = f"{what} failed with {type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"
    return Finding.of(RULE_FAILED, Violation("", message, "this is a bug: please report it with this message"))
