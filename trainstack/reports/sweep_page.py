"""The report of a sweep: one page, and its charts as PNGs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainstack.reports import charts, page
from trainstack.reports.sweep_figures import NAMED_CURVES, sweep_pictures
from trainstack.reports.sweep_format import (
    describe_best_trial,
    describe_ranking,
    describe_test_metrics,
    describe_trial_states,
    format_parameters,
    table_head,
    table_rows,
)
from trainstack.settings.search_space.space import Space
from trainstack.sweeps.search.importance import LEAST_TRIALS, best_trials
from trainstack.sweeps.search.ranking import Ranking
from trainstack.sweeps.search.results import TrialResult

_MAX_UNFOLDED = 10
"""The maximum number of trials, and of failed trials, that are not folded."""


@dataclass(frozen=True, kw_only=True)
class SweepResults:
    """All trials of a sweep, their ranking, and each parameter's importance, if known."""

    name: str
    space: Space
    results: Sequence[TrialResult]
    ranking: Ranking
    importance: Mapping[str, float]


def pngs(sweep: SweepResults) -> dict[str, bytes]:
    """Return the pictures as PNGs by file name."""
    panels_by_picture = sweep_pictures(sweep.space, sweep.ranking, sweep.importance)
    return {f"{name}.png": charts.png(panels) for name, panels in panels_by_picture.items()}


def html(sweep: SweepResults) -> str:
    panels_by_picture = sweep_pictures(sweep.space, sweep.ranking, sweep.importance)
    svgs = [
        (f"{panel.title} of the sweep {sweep.name}", charts.svg(panel, f"{name}-{index}"))
        for name, panels in panels_by_picture.items()
        for index, panel in enumerate(panels)
    ]
    return page.render(
        "sweep",
        f"Sweep {sweep.name}",
        sentences=_sentences(sweep),
        warnings=sweep.ranking.notes(),
        pictures=svgs,
        notes=_reading_notes(sweep, tuple(panels_by_picture)),
        head=table_head(sweep.space, sweep.ranking.objective),
        rows=table_rows(sweep.space, sweep.ranking),
        failed=[result for result in sweep.results if result.state == "failed"],
        parameters_of=format_parameters,
        shown=_MAX_UNFOLDED,
    )


def _sentences(sweep: SweepResults) -> list[str]:
    ranking = sweep.ranking
    sentences = [describe_trial_states(sweep.results), describe_ranking(ranking.objective)]
    if ranking.best is None:
        sentences.append("no trial has succeeded and reported that metric yet, so there is no best trial")
    else:
        sentences += [describe_best_trial(ranking.best, ranking.objective), describe_test_metrics(ranking.best)]
    return [f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences if sentence]


def _reading_notes(sweep: SweepResults, picture_names: Sequence[str]) -> list[str]:
    """Return the notes that explain the charts of importance and of learning curves."""
    count = len(sweep.ranking.ranked)
    if "importance" in picture_names:
        importance = (
            f"Importance compares the values of a parameter in the best {best_trials(count)} trials with those in all "
            f"{count} ranked trials (PED-ANOVA, Optuna). It shows which parameters mattered in this space, not how "
            "much better a value is."
        )
    else:
        importance = (
            f"Importance is not shown: it requires at least {LEAST_TRIALS} successful trials with different values and "
            f"parameter sets; there are {count}."
        )
    has_gray_curves = "learning-curves" in picture_names and len(sweep.results) > NAMED_CURVES
    return [*["Gray curves are the other trials, including unsuccessful ones."] * has_gray_curves, importance]
