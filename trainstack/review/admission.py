"""The verdicts on the admission of an environment's runs on an idle cluster, from its files alone."""

from collections.abc import Iterable
from typing import TypedDict, get_args

from trainstack.kueue.format import describe_assignment, describe_release, describe_usage
from trainstack.kueue.verdict import Outcome, Verdict
from trainstack.kueue.verdicts import stack_verdicts
from trainstack.review.report import MAX_TEXT, ReportedVerdict
from trainstack.review.secret_masking import mask
from trainstack.settings.model import Settings
from trainstack.stack_objects.stack_objects import StackObjects


class ReportedAdmission(TypedDict, total=False):
    """The fields of a report about admission."""

    verdicts: tuple[ReportedVerdict, ...]
    verdicts_for: str


_WORST_FIRST = tuple(reversed(get_args(Outcome)))


def reported_admission(settings: Settings, secrets: Iterable[str] = ()) -> ReportedAdmission:
    """Return the verdicts, the worst first; runs with equal verdicts share one, and `secrets` are masked."""
    secrets, verdicts = list(secrets), stack_verdicts(StackObjects(settings))
    runs_by_verdict: dict[ReportedVerdict, list[str]] = {}
    for verdict in verdicts:
        runs_by_verdict.setdefault(_report_verdict(verdict, secrets), []).append(mask(verdict.name, secrets)[:MAX_TEXT])
    merged_verdicts = [verdict.model_copy(update={"runs": tuple(names)}) for verdict, names in runs_by_verdict.items()]
    return {
        "verdicts": tuple(sorted(merged_verdicts, key=lambda verdict: _WORST_FIRST.index(verdict.outcome))),
        "verdicts_for": mask(describe_release(verdicts), secrets)[:MAX_TEXT],
    }


def _report_verdict(verdict: Verdict, secrets: list[str]) -> ReportedVerdict:
    def mask_and_cut(text: str) -> str:
        return mask(text, secrets)[:MAX_TEXT]

    return ReportedVerdict(
        outcome=verdict.outcome,
        placed=mask_and_cut(describe_assignment(verdict.assigned)) if verdict.assigned else "",
        borrowed=mask_and_cut(describe_usage(verdict.borrowed)),
        lacks=tuple(mask_and_cut(reason.message) for reason in verdict.reasons),
        remedies=tuple(mask_and_cut(remedy.text) for remedy in verdict.remedies),
    )
