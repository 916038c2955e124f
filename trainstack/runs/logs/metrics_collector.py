"""Collect the metrics of a trial from its log, like Katib's metrics collector."""

from collections.abc import Mapping

from trainstack.runs.logs.training_log import Reader, number, pieces
from trainstack.settings.search_space.space import Objective
from trainstack.settings.values.metrics_format import default_format, matches

_MOST_CHARACTERS = 10_000
"""Of a line; the rest is not read."""


def collect(log: str, objective: Objective) -> tuple[Mapping[str, float], ...]:
    """The lines of the metrics.jsonl that the program could have written.

    Only matches of `objective.metricsFormat` count if it is set. Otherwise the lines are read in the formats of
    runs.logs.training_log. If none has the metric, its values are read in the default format from all lines but those
    of PyTorch's examples.
    """
    reader, printed = Reader(), []
    expression = objective.metrics_format or default_format(objective.metric)
    for line in log.split("\n"):
        for piece in pieces(line[:_MOST_CHARACTERS]):
            position = reader.read(piece)
            of_an_example = position is not None and position.epochs is None
            if of_an_example and objective.metrics_format is None:
                continue
            for value, epoch in matches(expression, piece):
                printed.append(_line(objective.metric, value, epoch if epoch is not None else reader.epoch))
    metrics = reader.metrics()
    if objective.metrics_format is None and any(objective.metric in line for line in metrics):
        return tuple(metrics)
    return tuple(printed) or (tuple(metrics) if objective.metrics_format is None else ())


def _line(metric: str, value: str, epoch: str | int | None) -> dict[str, float]:
    if epoch is None:
        return {metric: number(value)}
    return {"epoch": number(str(epoch)), metric: number(value)}
