"""Whether each run of an environment would be admitted, told from its files alone: on an idle cluster."""

from collections.abc import Iterable
from typing import get_args

from trainstack.declared.declared import Declared
from trainstack.kueue.admission_simulator import declared_verdicts
from trainstack.kueue.format import amounts, placed
from trainstack.kueue.verdict import Outcome, Verdict
from trainstack.review.report import MOST_NAMES, ReportedVerdict
from trainstack.review.secret import mask
from trainstack.settings.model import Settings

_WORST_FIRST = tuple(reversed(get_args(Outcome)))


def verdicts(settings: Settings, hidden: Iterable[str] = ()) -> tuple[ReportedVerdict, ...]:
    """The verdicts, the worst first; runs with the same one are told together.

    `hidden`: values that must not be seen.
    """
    secrets = list(hidden)
    alike: dict[ReportedVerdict, list[str]] = {}
    for verdict in declared_verdicts(Declared(settings)):
        alike.setdefault(_reported(verdict, secrets), []).append(mask(verdict.name, secrets)[:MOST_NAMES])
    found = [said.model_copy(update={"runs": tuple(names)}) for said, names in alike.items()]
    return tuple(sorted(found, key=lambda said: _WORST_FIRST.index(said.outcome)))


def _reported(verdict: Verdict, secrets: list[str]) -> ReportedVerdict:
    def short(text: str) -> str:
        return mask(text, secrets)[:MOST_NAMES]

    return ReportedVerdict(
        outcome=verdict.outcome,
        placed=short(placed(verdict.assigned)) if verdict.assigned else "",
        borrowed=short(amounts(verdict.borrowed)),
        lacks=tuple(short(reason.message) for reason in verdict.reasons),
        remedies=tuple(short(remedy.text) for remedy in verdict.remedies),
    )
