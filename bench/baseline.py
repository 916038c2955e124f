"""The stored results, and the comparison of newer ratios with them."""

from dataclasses import dataclass
from pathlib import Path

from bench.results import Results

FILE = Path(__file__).with_name("baseline.json")
TOLERANCE = 0.25
"""The share by which a ratio may exceed the stored one."""


@dataclass(frozen=True)
class Regression:
    """A ratio that is too much worse than the stored one."""

    case: str
    arm: str
    ratio: float
    stored: float

    def __str__(self) -> str:
        return (
            f"{self.case}: {self.ratio:.2f} times {self.arm}, {self.ratio / self.stored - 1:.0%} more than the stored "
            f"{self.stored:.2f}; the limit is {TOLERANCE:.0%}. Find the cause, or, if the cost is intended, store the "
            f"new ratio with `.venv/bin/python -m bench {self.case} --short --write`"
        )


def load(file: Path = FILE) -> Results:
    """Return the stored results; none if there is no file."""
    return Results.model_validate_json(file.read_text(encoding="utf-8")) if file.exists() else Results()


def store(results: Results, file: Path = FILE) -> None:
    file.write_text(results.model_dump_json(indent=1, exclude_none=True) + "\n", encoding="utf-8")


def regressions(measured: Results, stored: Results) -> list[Regression]:
    """Return the ratios of cases in which every ratio exceeds the stored one by more than the tolerance.

    A slower first arm raises all ratios. If only one rises, the other arm has changed: half a second of kubectl varies
    by a third. Arms without a stored ratio pass.
    """
    known = stored.by_id()
    exceeding = []
    for case in measured.cases:
        before = known[case.id].ratios if case.id in known else {}
        compared = [Regression(case.id, arm, ratio, before[arm]) for arm, ratio in case.ratios.items() if arm in before]
        if all(regression.ratio > regression.stored * (1 + TOLERANCE) for regression in compared):
            exceeding += compared
    return exceeding
