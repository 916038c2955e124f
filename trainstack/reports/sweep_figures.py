"""The panels of a sweep: learning curves, parallel coordinates, objective by parameter, importance."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainstack.reports.charts import Panel, shorten
from trainstack.reports.panels import Bar, BarGroup, BarPanel
from trainstack.reports.parallel_panel import ParallelPanel, TrialLine
from trainstack.reports.scales import Scale
from trainstack.reports.sweep_format import format_value
from trainstack.reports.sweep_panels import Curve, CurvePanel, Point, PointPanel
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Parameter, Space
from trainstack.sweeps.search.ranking import RankedTrial, Ranking
from trainstack.sweeps.search.results import TrialResult, finite_number

_NAMED_COLORS = (1, 0, 2, 3, 4)
"""The colors of the named curves, as indexes. The first one marks the best trial in the other charts, too."""
NAMED_CURVES = len(_NAMED_COLORS)
"""The number of best trials whose curves have a name."""
_METRIC_LENGTH, _TITLE_LENGTH, _SUBTITLE_LENGTH = 14, 27, 32
"""Maximum lengths of the metric in a title, of the metric and a parameter together, and of the metric in a subtitle."""


def sweep_pictures(space: Space, ranking: Ranking, importance: Mapping[str, float]) -> dict[str, list[Panel]]:
    """Return the panels of each picture by file name without suffix; pictures without data are left out.

    `importance`: the share of each parameter; empty if unknown.
    """
    varied_parameters = [name for name in space.parameters if _varies(name, ranking.ranked)]
    panels_by_picture: dict[str, list[Panel]] = {
        "learning-curves": _learning_curves(ranking),
        "parallel-coordinates": _parallel_coordinates(space, ranking, varied_parameters),
        "importance": _importance_panels(importance),
        "parameters": _objective_by_parameter(space, ranking, varied_parameters),
    }
    return {name: panels for name, panels in panels_by_picture.items() if panels}


def _learning_curves(ranking: Ranking) -> list[Panel]:
    objective = ranking.objective
    named_curves = [
        _trial_curve(trial.result, objective.metric, trial, color)
        for trial, color in zip(ranking.ranked, _NAMED_COLORS, strict=False)
    ]
    background_results = [trial.result for trial in ranking.ranked[NAMED_CURVES:]] + [
        trial.result for trial in ranking.unranked
    ]
    curves = [*named_curves, *(_trial_curve(result, objective.metric) for result in background_results)]
    if not any(curve.points for curve in curves):
        return []
    return [
        CurvePanel(
            title="Learning curves",
            y_axis=f"{shorten(objective.metric, _SUBTITLE_LENGTH)}; dot: compared value",
            curves=tuple(curves),
        )
    ]


def _trial_curve(result: TrialResult, metric: str, ranked: RankedTrial | None = None, color: int = 0) -> Curve:
    lines = [(_epoch_number(line, index), line) for index, line in enumerate(result.metrics, 1)]
    points = {epoch: value for epoch, line in lines if (value := finite_number(line.get(metric))) is not None}
    if ranked is None:
        return Curve(points=points)
    compared_point = next(epoch for epoch, line in lines if line is ranked.line), ranked.value
    return Curve(points=points, name=f"trial {result.number}", color=color, compared_point=compared_point)


def _epoch_number(line: Mapping[str, Any], index: int) -> int:
    """Return the epoch of a metrics line, or `index` if the line has none."""
    epoch = finite_number(line.get("epoch"))
    return index if epoch is None else int(epoch)


def _parallel_coordinates(space: Space, ranking: Ranking, varied_parameters: Sequence[str]) -> list[Panel]:
    ranked = ranking.ranked
    if len(ranked) < 2 or not varied_parameters:
        return []
    scales = [_parameter_scale(name, space.parameters[name], ranked) for name in varied_parameters]
    objective = Scale(name=ranking.objective.metric, kind="linear", excludes_outliers=True)
    tracks = tuple(
        TrialLine(
            values=(*(_scale_value(trial.result.parameters.get(scale.name), scale) for scale in scales), trial.value),
            strength=1 - (trial.place - 1) / (len(ranked) - 1),
            is_best=trial is ranking.best,
        )
        for trial in ranked
    )
    subtitle = f"one line per trial, better ones stronger; thick: trial {ranked[0].result.number}, the best"
    return [
        ParallelPanel(title="Parallel coordinates", subtitle=subtitle, scales=(*scales, objective), trial_lines=tracks)
    ]


def _objective_by_parameter(space: Space, ranking: Ranking, varied_parameters: Sequence[str]) -> list[Panel]:
    metric = shorten(ranking.objective.metric, _METRIC_LENGTH)
    panels: list[Panel] = []
    for name in varied_parameters:
        scale = _parameter_scale(name, space.parameters[name], ranking.ranked)
        points = {
            trial.result.number: Point(x=value, y=trial.value)
            for trial in ranking.ranked
            if (value := _scale_value(trial.result.parameters.get(name), scale)) is not None
        }
        best = ranking.ranked[0].result
        panels.append(
            PointPanel(
                title=f"{metric} against {shorten(name, _TITLE_LENGTH - len(metric))}",
                scale=scale,
                y_axis=shorten(ranking.objective.metric, _SUBTITLE_LENGTH),
                points=tuple(points.values()),
                best=points.get(best.number),
                best_name=f"trial {best.number}",
            )
        )
    return panels


def _importance_panels(importance: Mapping[str, float]) -> list[Panel]:
    if not importance:
        return []
    groups = tuple(
        BarGroup(name=name, color=0, bars=(Bar(value=100 * share, text=f"{100 * share:.0f} %"),))
        for name, share in importance.items()
    )
    return [
        BarPanel(title="Importance of the parameters", axis="% of what distinguishes the best trials", groups=groups)
    ]


def _varies(name: str, ranked: Sequence[RankedTrial]) -> bool:
    values = [trial.result.parameters.get(name) for trial in ranked]
    return any(value != values[0] for value in values)


def _parameter_scale(name: str, parameter: Parameter, ranked: Sequence[RankedTrial]) -> Scale:
    if parameter.choices:
        used_labels = {
            format_value(trial.result.parameters[name]) for trial in ranked if name in trial.result.parameters
        }
        labels = tuple(label for choice in parameter.choices if (label := format_value(choice)) in used_labels)
        return Scale(name=name, kind="listed", labels=labels)
    ranges = (parameter.int_range, parameter.float_range)
    is_logarithmic = (
        parameter.log_uniform
        or parameter.log_normal
        or any(value_range is not None and value_range.log for value_range in ranges)
    )
    return Scale(name=name, kind="log" if is_logarithmic else "linear", is_integer=parameter.int_range is not None)


def _scale_value(value: Value | None, scale: Scale) -> float | str | None:
    if value is None:
        return None
    return format_value(value) if scale.kind == "listed" else float(value)
