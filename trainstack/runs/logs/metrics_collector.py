"""The metrics of a trial, collected from its log like by Katib's metrics collector."""

import re
from collections.abc import Iterator, Mapping

from trainstack.runs.logs.printed_numbers import Figure, parse_figure_at, parse_matched_figure
from trainstack.runs.logs.terminal_text import terminal_texts
from trainstack.runs.logs.training_log import TrainingLogReader
from trainstack.settings.search_space.space import Objective
from trainstack.settings.values.metrics_format import find_matches


def collect_metrics(log: str, objective: Objective) -> tuple[Mapping[str, Figure], ...]:
    """Return the lines of a metrics.jsonl with the metrics in a log. A value that cannot be read is a text.

    If `objective.metricsFormat` is set, only its matches count. Otherwise the lines are read in the formats of
    runs.logs.training_log. If no line has the metric, its values are read as `<metric>=<number>` or
    `<metric>: <number>` from all lines except those of PyTorch's examples.
    """
    reader, metric_lines, expression = TrainingLogReader(), list[Mapping[str, Figure]](), objective.metrics_format
    name_pattern = re.compile(rf"""(?:^|[^\w-])["']?{re.escape(objective.metric)}["']?\s*[=:]\s*""")
    for line in log.split("\n"):
        for piece in terminal_texts(line):
            reader.read(piece)
            if expression is not None:
                values = _expression_values(expression, piece)
            else:
                values = _values_after_name("" if reader.is_example_line else piece, name_pattern)
            for value, epoch in values:
                metric_lines.append(_metrics_line(objective.metric, value, reader.epoch if epoch is None else epoch))
    metrics = reader.metrics()
    if expression is None and any(objective.metric in line for line in metrics):
        return tuple(metrics)
    return tuple(metric_lines) or (tuple(metrics) if expression is None else ())


def _values_after_name(text: str, name: re.Pattern[str]) -> Iterator[tuple[Figure, Figure | None]]:
    """Yield the values that follow the metric's name, as in Katib's format, or in a dictionary."""
    for match in name.finditer(text):
        if (value := parse_figure_at(text, match.end())) is not None:
            yield value, None


def _expression_values(expression: str, text: str) -> Iterator[tuple[Figure, Figure | None]]:
    for match in find_matches(expression, text):
        epoch = None if match.epoch is None else parse_matched_figure(text, match.epoch, match.whole)
        yield parse_matched_figure(text, match.value, match.whole), epoch


def _metrics_line(metric: str, value: Figure, epoch: Figure | None) -> Mapping[str, Figure]:
    # A line whose epoch cannot be read does not belong to the epoch of the previous lines.
    return {"epoch": epoch, metric: value} if isinstance(epoch, int | float) else {metric: value}
