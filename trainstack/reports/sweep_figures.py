"""A sweep as panels: learning curves, parallel coordinates, the objective against each parameter, importance."""

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

_COLOURS = (1, 0, 2, 3, 4)
"""Of the curves that have a name, the best's first: that which marks it in the other pictures too."""
NAMED = len(_COLOURS)
"""Curves of so many trials, the best, have a name."""
_METRIC, _TITLE, _WORDS = 14, 27, 32
"""Letters that there is room for: of the metric in a title, of it and a parameter together, and of it below a title."""


def pictures(space: Space, ranking: Ranking, importance: Mapping[str, float]) -> dict[str, list[Panel]]:
    """The panels of each picture, by its name as a file; a picture of what nobody knows is left out.

    Args:
        space: what the sets were made from.
        ranking: all trials.
        importance: the share of each parameter, as far as that is known.

    """
    varied = [name for name in space.parameters if _varies(name, ranking.ranked)]
    drawn: dict[str, list[Panel]] = {
        "learning-curves": _curves(ranking),
        "parallel-coordinates": _parallel(space, ranking, varied),
        "importance": _importance(importance),
        "parameters": _against(space, ranking, varied),
    }
    return {name: panels for name, panels in drawn.items() if panels}


def _curves(ranking: Ranking) -> list[Panel]:
    objective = ranking.objective
    named = [
        _curve(each.result, objective.metric, each, colour)
        for each, colour in zip(ranking.ranked, _COLOURS, strict=False)
    ]
    rest = [*(each.result for each in ranking.ranked[len(named) :]), *(each.result for each in ranking.unranked)]
    curves = [*named, *(_curve(each, objective.metric) for each in rest)]
    if not any(curve.points for curve in curves):
        return []
    return [
        Curves(
            title="Learning curves",
            x_axis="epoch",
            y_axis=f"{short(objective.metric, _WORDS)}, the dot is what counts",
            curves=tuple(curves),
        )
    ]


def _curve(result: TrialResult, metric: str, ranked: Ranked | None = None, colour: int = 0) -> Curve:
    points = {
        _epoch(line, index): value
        for index, line in enumerate(result.metrics, 1)
        if (value := number(line.get(metric))) is not None
    }
    if ranked is None:
        return Curve(points=points)
    index = next(index for index, line in enumerate(result.metrics, 1) if line is ranked.line)
    counts = (_epoch(ranked.line, index), ranked.value)
    return Curve(points=points, name=f"trial {result.number}", colour=colour, counts=counts)


def _epoch(line: Mapping[str, Any], index: int) -> int:
    """That which the line says, else its place."""
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
            places=(*(_place(each.result.parameters.get(scale.name), scale) for scale in scales), each.value),
            strength=1 - (each.place - 1) / (len(ranked) - 1),
            best=each is ranking.best,
        )
        for each in ranked
    )
    words = f"a line a trial: the better, the stronger; thick: trial {ranked[0].result.number}, the best"
    return [Parallel(title="Parallel coordinates", words=words, scales=(*scales, objective), tracks=tracks)]


def _against(space: Space, ranking: Ranking, varied: Sequence[str]) -> list[Panel]:
    metric = short(ranking.objective.metric, _METRIC)
    found: list[Panel] = []
    for name in varied:
        scale = _scale(name, space.parameters[name], ranking.ranked)
        points = {
            each.result.number: Point(x=place, y=each.value)
            for each in ranking.ranked
            if (place := _place(each.result.parameters.get(name), scale)) is not None
        }
        best = ranking.ranked[0].result
        found.append(
            Points(
                title=f"{metric} against {short(name, _TITLE - len(metric))}",
                scale=scale,
                y_axis=short(ranking.objective.metric, _WORDS),
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
        Group(name=name, colour=0, bars=(Bar(value=100 * share, text=f"{100 * share:.0f} %"),))
        for name, share in importance.items()
    )
    return [Bars(title="Importance of the parameters", axis="% of what sets the best trials apart", groups=groups)]


def _varies(name: str, ranked: Sequence[Ranked]) -> bool:
    values = [each.result.parameters.get(name) for each in ranked]
    return any(value != values[0] for value in values)


def _scale(name: str, parameter: Parameter, ranked: Sequence[Ranked]) -> Scale:
    if parameter.choices:
        there = {text_of(each.result.parameters[name]) for each in ranked if name in each.result.parameters}
        labels = [text_of(each) for each in parameter.choices]
        return Scale(name=name, kind="listed", labels=tuple(each for each in labels if each in there))
    ranges = (parameter.int_range, parameter.float_range)
    log = parameter.log_uniform or parameter.log_normal or any(each is not None and each.log for each in ranges)
    return Scale(name=name, kind="log" if log else "linear", whole=parameter.int_range is not None)


def _place(value: Value | None, scale: Scale) -> float | str | None:
    if value is None:
        return None
    return text_of(value) if scale.kind == "listed" else float(value)
