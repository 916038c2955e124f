"""The metrics of a trial, collected from its log like by Katib's metrics collector."""

import re
from collections.abc import Iterator, Mapping

from trainstack.runs.logs.printed_numbers import Figure, figure_at, figure_in
from trainstack.runs.logs.terminal_text import pieces
from trainstack.runs.logs.training_log import Reader
from trainstack.settings.search_space.space import Objective
from trainstack.settings.values.metrics_format import matches


def collect(log: str, objective: Objective) -> tuple[Mapping[str, Figure], ...]:
    """Return the lines of a metrics.jsonl with the metrics in a log. A value that cannot be read is a text.

    If `objective.metricsFormat` is set, only its matches count. Otherwise the lines are read in the formats of
    runs.logs.training_log. If no line has the metric, its values are read as `<metric>=<number>` or
    `<metric>: <number>` from all lines except those of PyTorch's examples.
    """
    reader, printed, expression = Reader(), list[Mapping[str, Figure]](), objective.metrics_format
    named = re.compile(rf"""(?:^|[^\w-])["']?{re.escape(objective.metric)}["']?\s*[=:]\s*""")
    for line in log.split("\n"):
        for piece in pieces(line):
            reader.read(piece)
            if expression is not None:
                values = _of_expression(expression, piece)
            else:
                values = _named("" if reader.is_of_example else piece, named)
            for value, epoch in values:
                printed.append(_line(objective.metric, value, reader.epoch if epoch is None else epoch))
    metrics = reader.metrics()
    if expression is None and any(objective.metric in line for line in metrics):
        return tuple(metrics)
    return tuple(printed) or (tuple(metrics) if expression is None else ())


def _named(text: str, name: re.Pattern[str]) -> Iterator[tuple[Figure, Figure | None]]:
    """Yield the values that follow the metric's name, as in Katib's format, or in a dictionary."""
    for match in name.finditer(text):
        if (value := figure_at(text, match.end())) is not None:
            yield value, None


def _of_expression(expression: str, text: str) -> Iterator[tuple[Figure, Figure | None]]:
    for match in matches(expression, text):
        epoch = None if match.epoch is None else figure_in(text, match.epoch, match.whole)
        yield figure_in(text, match.value, match.whole), epoch


def _line(metric: str, value: Figure, epoch: Figure | None) -> Mapping[str, Figure]:
    # A line whose epoch cannot be read does not belong to the epoch of the previous lines.
    return {"epoch": epoch, metric: value} if isinstance(epoch, int | float) else {metric: value}
