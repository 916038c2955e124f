"""The report of a sweep: one page, and its charts as PNGs."""

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
"""The maximum number of trials, and of failed trials, that are not folded."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All trials of a sweep, their ranking, and each parameter's importance, if known."""

    name: str
    space: Space
    results: Sequence[TrialResult]
    ranking: Ranking
    importance: Mapping[str, float]


def pngs(sweep: Sweep) -> dict[str, bytes]:
    """Return the pictures as PNGs by file name."""
    found = pictures(sweep.space, sweep.ranking, sweep.importance)
    return {f"{name}.png": charts.png(panels) for name, panels in found.items()}


def html(sweep: Sweep) -> str:
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
        found.append("no trial has succeeded and reported that metric yet, so there is no best trial")
    else:
        found += [best_in_words(ranking.best, ranking.objective), test_in_words(ranking.best)]
    return [f"{sentence[0].upper()}{sentence[1:]}." for sentence in found if sentence]


def _reading(sweep: Sweep, drawn: Sequence[str]) -> list[str]:
    """Return the notes that explain the charts of importance and of learning curves."""
    ranked = len(sweep.ranking.ranked)
    if "importance" in drawn:
        importance = (
            f"Importance compares the values of a parameter in the best {best_trials(ranked)} trials with those in all "
            f"{ranked} ranked trials (PED-ANOVA, Optuna). It shows which parameters mattered in this space, not how "
            "much better a value is."
        )
    else:
        importance = (
            f"Importance is not shown: it requires at least {LEAST_TRIALS} successful trials with different values and "
            f"parameter sets; there are {ranked}."
        )
    grey = "learning-curves" in drawn and len(sweep.results) > NAMED
    return [*["Gray curves are the other trials, including unsuccessful ones."] * grey, importance]
