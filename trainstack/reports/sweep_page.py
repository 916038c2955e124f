"""The report of a sweep: one page, and its pictures as PNGs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainstack.reports import charts, page
from trainstack.reports.sweep_figures import NAMED, pictures
from trainstack.reports.sweep_format import (
    best_in_words,
    compared_by,
    counted,
    head,
    parameters_of,
    rows,
    test_in_words,
)
from trainstack.settings.search_space.space import Space
from trainstack.sweeps.search.importance import LEAST_TRIALS, best_trials
from trainstack.sweeps.search.ranking import Ranking
from trainstack.sweeps.search.results import TrialResult

_SHOWN = 10
"""Trials, and failed ones, that are not folded away."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What is reported of a sweep."""

    name: str
    space: Space
    results: Sequence[TrialResult]
    """All trials."""
    ranking: Ranking
    """Of the same."""
    importance: Mapping[str, float]
    """The share of each parameter; empty where nothing tells."""


def pngs(sweep: Sweep) -> dict[str, bytes]:
    """The pictures, by the names of their files; without those that nothing is known for."""
    drawn = pictures(sweep.space, sweep.ranking, sweep.importance)
    return {f"{name}.png": charts.png(panels) for name, panels in drawn.items()}


def html(sweep: Sweep) -> str:
    """The page."""
    drawn = pictures(sweep.space, sweep.ranking, sweep.importance)
    svgs = [
        (f"{panel.title} of the sweep {sweep.name}", charts.svg(panel, f"{name}-{index}"))
        for name, panels in drawn.items()
        for index, panel in enumerate(panels)
    ]
    return page.render(
        "sweep",
        f"Sweep {sweep.name}",
        sentences=_sentences(sweep),
        warnings=sweep.ranking.notes(),
        pictures=svgs,
        notes=_reading(sweep, tuple(drawn)),
        head=head(sweep.space, sweep.ranking.objective),
        rows=rows(sweep.space, sweep.ranking),
        failed=[result for result in sweep.results if result.state == "failed"],
        parameters_of=parameters_of,
        shown=_SHOWN,
    )


def _sentences(sweep: Sweep) -> list[str]:
    ranking = sweep.ranking
    found = [counted(sweep.results), compared_by(ranking.objective)]
    if ranking.best is None:
        found.append("no trial has succeeded and tells that figure yet, so there is no best")
    else:
        found += [best_in_words(ranking.best, ranking.objective), test_in_words(ranking.best)]
    return [f"{each[0].upper()}{each[1:]}." for each in found if each]


def _reading(sweep: Sweep, drawn: Sequence[str]) -> list[str]:
    """What the pictures mean, as far as they do not say it themselves, and why one is missing."""
    ranked = len(sweep.ranking.ranked)
    if "importance" in drawn:
        importance = (
            f"Importance compares how a parameter is spread among the best {best_trials(ranked)} trials with how it is "
            f"among all {ranked} that count (PED-ANOVA, Optuna). It tells what mattered in this space, not how much a "
            "value is better."
        )
    else:
        importance = (
            f"Importance is not shown: it takes at least {LEAST_TRIALS} trials that succeeded, whose values and sets "
            f"differ; here are {ranked}."
        )
    grey = "learning-curves" in drawn and len(sweep.results) > NAMED
    return [*["Grey curves are the other trials, also those that did not succeed."] * grey, importance]
