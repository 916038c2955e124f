"""The panels of a sweep: learning curves, parallel coordinates, objective by parameter, importance."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainstack.reports.charts import Panel, short
from trainstack.reports.panels import Bar, Bars, Group
from trainstack.reports.parallel import Parallel, Track
from trainstack.reports.scales import Scale
from trainstack.reports.sweep_format import text_of
from trainstack.reports.sweep_panels import Curve, Curves, Point, Points
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Parameter, Space
from trainstack.sweeps.search.ranking import Ranked, Ranking
from trainstack.sweeps.search.results import TrialResult, number

_COLORS = (1, 0, 2, 3, 4)
"""The colors of the named curves, as indexes. The first one marks the best trial in the other charts, too."""
NAMED = len(_COLORS)
"""The number of best trials whose curves have a name."""
_METRIC, _TITLE, _SUBTITLE = 14, 27, 32
"""Maximum lengths of the metric in a title, of the metric and a parameter together, and of the metric in a subtitle."""


def pictures(space: Space, ranking: Ranking, importance: Mapping[str, float]) -> dict[str, list[Panel]]:
    """Return the panels of each picture by file name without suffix; pictures without data are left out.

    `importance`: the share of each parameter; empty if unknown.
    """
    varied = [name for name in space.parameters if _varies(name, ranking.ranked)]
    found: dict[str, list[Panel]] = {
        "learning-curves": _curves(ranking),
        "parallel-coordinates": _parallel(space, ranking, varied),
        "importance": _importance(importance),
        "parameters": _against(space, ranking, varied),
    }
    return {name: panels for name, panels in found.items() if panels}


def _curves(ranking: Ranking) -> list[Panel]:
    objective = ranking.objective
    named = [
        _curve(trial.result, objective.metric, trial, color)
        for trial, color in zip(ranking.ranked, _COLORS, strict=False)
    ]
    rest = [trial.result for trial in ranking.ranked[NAMED:]] + [trial.result for trial in ranking.unranked]
    curves = [*named, *(_curve(result, objective.metric) for result in rest)]
    if not any(curve.points for curve in curves):
        return []
    return [
        Curves(
            title="Learning curves",
            y_axis=f"{short(objective.metric, _SUBTITLE)}; dot: compared value",
            curves=tuple(curves),
        )
    ]


def _curve(result: TrialResult, metric: str, ranked: Ranked | None = None, color: int = 0) -> Curve:
    lines = [(_epoch(line, index), line) for index, line in enumerate(result.metrics, 1)]
    points = {epoch: value for epoch, line in lines if (value := number(line.get(metric))) is not None}
    if ranked is None:
        return Curve(points=points)
    compared = next(epoch for epoch, line in lines if line is ranked.line), ranked.value
    return Curve(points=points, name=f"trial {result.number}", color=color, compared=compared)


def _epoch(line: Mapping[str, Any], index: int) -> int:
    """Return the epoch of a metrics line, or `index` if the line has none."""
    epoch = number(line.get("epoch"))
    return index if epoch is None else int(epoch)


def _parallel(space: Space, ranking: Ranking, varied: Sequence[str]) -> list[Panel]:
    ranked = ranking.ranked
    if len(ranked) < 2 or not varied:
        return []
    scales = [_scale(name, space.parameters[name], ranked) for name in varied]
    objective = Scale(name=ranking.objective.metric, kind="linear", cut=True)
    tracks = tuple(
        Track(
            values=(*(_value(trial.result.parameters.get(scale.name), scale) for scale in scales), trial.value),
            strength=1 - (trial.place - 1) / (len(ranked) - 1),
            best=trial is ranking.best,
        )
        for trial in ranked
    )
    subtitle = f"one line per trial, better ones stronger; thick: trial {ranked[0].result.number}, the best"
    return [Parallel(title="Parallel coordinates", subtitle=subtitle, scales=(*scales, objective), tracks=tracks)]


def _against(space: Space, ranking: Ranking, varied: Sequence[str]) -> list[Panel]:
    metric = short(ranking.objective.metric, _METRIC)
    found: list[Panel] = []
    for name in varied:
        scale = _scale(name, space.parameters[name], ranking.ranked)
        points = {
            trial.result.number: Point(x=value, y=trial.value)
            for trial in ranking.ranked
            if (value := _value(trial.result.parameters.get(name), scale)) is not None
        }
        best = ranking.ranked[0].result
        found.append(
            Points(
                title=f"{metric} against {short(name, _TITLE - len(metric))}",
                scale=scale,
                y_axis=short(ranking.objective.metric, _SUBTITLE),
                points=tuple(points.values()),
                best=points.get(best.number),
                best_name=f"trial {best.number}",
            )
        )
    return found


def _importance(importance: Mapping[str, float]) -> list[Panel]:
    if not importance:
        return []
    groups = tuple(
        Group(name=name, color=0, bars=(Bar(value=100 * share, text=f"{100 * share:.0f} %"),))
        for name, share in importance.items()
    )
    return [Bars(title="Importance of the parameters", axis="% of what distinguishes the best trials", groups=groups)]


def _varies(name: str, ranked: Sequence[Ranked]) -> bool:
    values = [trial.result.parameters.get(name) for trial in ranked]
    return any(value != values[0] for value in values)


def _scale(name: str, parameter: Parameter, ranked: Sequence[Ranked]) -> Scale:
    if parameter.choices:
        used = {text_of(trial.result.parameters[name]) for trial in ranked if name in trial.result.parameters}
        labels = tuple(label for choice in parameter.choices if (label := text_of(choice)) in used)
        return Scale(name=name, kind="listed", labels=labels)
    ranges = (parameter.int_range, parameter.float_range)
    log = parameter.log_uniform or parameter.log_normal or any(spread is not None and spread.log for spread in ranges)
    return Scale(name=name, kind="log" if log else "linear", whole=parameter.int_range is not None)


def _value(value: Value | None, scale: Scale) -> float | str | None:
    if value is None:
        return None
    return text_of(value) if scale.kind == "listed" else float(value)
