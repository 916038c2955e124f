"""The lines of the MNIST examples of PyTorch and Kubeflow, and of PyTorch's quickstart."""

import re
from dataclasses import dataclass

from trainstack.runs.logs.printed_numbers import Figure, figure, number

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
class Rows:
    """A progress line within an epoch, which counts the rows of the data set."""

    epoch: int | None
    """The epoch; None if an earlier line contains it."""
    rows: int
    of: int
    percent: float = 0.0
    """The printed percentage. It is correct even in a distributed run, in which the example prints the rows of one
    replica but the total of all."""
    loss: Figure | None

    @property
    def fraction(self) -> float:
        return min(1.0, max(self.rows / self.of, self.percent / 100))


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


def heading(text: str) -> int | None:
    """Return the epoch in a heading of the quickstart."""
    match = _QUICKSTART_EPOCH.search(text)
    return int(match["epoch"]) if match else None


def rows(text: str) -> Rows | None:
    named = _MNIST.search(text)
    match = named or _QUICKSTART.search(text)
    if match is None or not int(match["of"]):
        return None
    loss, read, of = figure(match["loss"]), int(match["rows"]), int(match["of"])
    if named is None:
        return Rows(epoch=None, rows=read, of=of, loss=loss)
    return Rows(epoch=int(named["epoch"]), rows=read, of=of, percent=number(named["percent"]) or 0.0, loss=loss)


def evaluation(text: str) -> Evaluation | None:
    if match := _MNIST_TEST.search(text):
        return Evaluation(loss=figure(match["loss"]), accuracy=int(match["right"]) / int(match["total"]))
    if match := _QUICKSTART_TEST.search(text):
        percent = figure(match["percent"])
        accuracy = percent / 100 if isinstance(percent, float) else percent
        return Evaluation(loss=figure(match["loss"]), accuracy=accuracy)
    if match := _KUBEFLOW_TEST.search(text):
        return Evaluation(loss=None, accuracy=figure(match["accuracy"]))
    return None
