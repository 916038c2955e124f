"""The lines of the MNIST examples of PyTorch and Kubeflow, and of PyTorch's quickstart."""

import re
from dataclasses import dataclass

from trainstack.runs.logs.printed_numbers import Figure, parse_figure, parse_number

_MNIST = re.compile(
    r"\bTrain Epoch: (?P<epoch>\d{1,18}) \[(?P<rows>\d{1,18})/(?P<of>\d{1,18}) \((?P<percent>[\d.]+)%\)\]"
    r"\s+[Ll]oss[:=]\s*(?P<loss>\S+)"
)
_MNIST_TEST = re.compile(
    r"\bTest set: Average loss: (?P<loss>\S+), Accuracy: (?P<right>\d{1,18})/(?P<total>[1-9]\d{0,17})\b"
)
_KUBEFLOW_TEST = re.compile(r"^accuracy=(?P<accuracy>\d\S*|nan)")
_QUICKSTART_EPOCH = re.compile(r"^Epoch (?P<epoch>\d{1,18})$")
_QUICKSTART = re.compile(r"\bloss:\s+(?P<loss>\S+)\s+\[\s*(?P<rows>\d{1,18})/\s*(?P<of>\d{1,18})\]")
_QUICKSTART_TEST = re.compile(r"\bAccuracy: (?P<percent>[\d.]+)%, Avg loss:\s+(?P<loss>\S+)")


@dataclass(frozen=True, kw_only=True)
class RowsLine:
    """A progress line within an epoch, which counts the rows of the data set."""

    epoch: int | None
    """The epoch; None if an earlier line contains it."""
    rows: int
    total_rows: int
    percent: float = 0.0
    """The printed percentage. It is correct even in a distributed run, in which the example prints the rows of one
    replica but the total of all."""
    loss: Figure | None

    @property
    def fraction(self) -> float:
        return min(1.0, max(self.rows / self.total_rows, self.percent / 100))


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The evaluation after an epoch."""

    loss: Figure | None
    accuracy: Figure | None
    """The accuracy, from 0 to 1."""

    @property
    def figures(self) -> dict[str, Figure]:
        figures = {"loss": self.loss, "accuracy": self.accuracy}
        return {name: value for name, value in figures.items() if value is not None}


def read_epoch_heading(text: str) -> int | None:
    """Return the epoch in a heading of the quickstart."""
    match = _QUICKSTART_EPOCH.search(text)
    return int(match["epoch"]) if match else None


def read_rows_line(text: str) -> RowsLine | None:
    mnist_match = _MNIST.search(text)
    match = mnist_match or _QUICKSTART.search(text)
    if match is None or not int(match["of"]):
        return None
    loss, rows_so_far, total_rows = parse_figure(match["loss"]), int(match["rows"]), int(match["of"])
    if mnist_match is None:
        return RowsLine(epoch=None, rows=rows_so_far, total_rows=total_rows, loss=loss)
    return RowsLine(
        epoch=int(mnist_match["epoch"]),
        rows=rows_so_far,
        total_rows=total_rows,
        percent=parse_number(mnist_match["percent"]) or 0.0,
        loss=loss,
    )


def read_evaluation(text: str) -> Evaluation | None:
    if match := _MNIST_TEST.search(text):
        return Evaluation(loss=parse_figure(match["loss"]), accuracy=int(match["right"]) / int(match["total"]))
    if match := _QUICKSTART_TEST.search(text):
        percent = parse_figure(match["percent"])
        accuracy = percent / 100 if isinstance(percent, float) else percent
        return Evaluation(loss=parse_figure(match["loss"]), accuracy=accuracy)
    if match := _KUBEFLOW_TEST.search(text):
        return Evaluation(loss=None, accuracy=parse_figure(match["accuracy"]))
    return None
