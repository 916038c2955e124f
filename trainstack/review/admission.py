"""The verdicts on the admission of an environment's runs on an idle cluster, from its files alone."""

from collections.abc import Iterable
from typing import get_args

from trainstack.declared.declared import Declared
from trainstack.kueue.format import describe_assignment, describe_usage
from trainstack.kueue.verdict import Outcome, Verdict
from trainstack.kueue.verdicts import stack_verdicts
from trainstack.review.report import MAX_TEXT, ReportedVerdict
from trainstack.review.secret import mask
from trainstack.settings.model import Settings

_WORST_FIRST = tuple(reversed(get_args(Outcome)))


def verdicts(settings: Settings, secrets: Iterable[str] = ()) -> tuple[ReportedVerdict, ...]:
    """Return the verdicts, the worst first; runs with equal verdicts share one, and `secrets` are masked."""
    secrets = list(secrets)
    runs: dict[ReportedVerdict, list[str]] = {}
    for verdict in stack_verdicts(Declared(settings)):
        runs.setdefault(_reported(verdict, secrets), []).append(mask(verdict.name, secrets)[:MAX_TEXT])
    found = [verdict.model_copy(update={"runs": tuple(names)}) for verdict, names in runs.items()]
    return tuple(sorted(found, key=lambda verdict: _WORST_FIRST.index(verdict.outcome)))


def _reported(verdict: Verdict, secrets: list[str]) -> ReportedVerdict:
    def short(text: str) -> str:
        return mask(text, secrets)[:MAX_TEXT]

    return ReportedVerdict(
        outcome=verdict.outcome,
        placed=short(describe_assignment(verdict.assigned)) if verdict.assigned else "",
        borrowed=short(describe_usage(verdict.borrowed)),
        lacks=tuple(short(reason.message) for reason in verdict.reasons),
        remedies=tuple(short(remedy.text) for remedy in verdict.remedies),
    )
