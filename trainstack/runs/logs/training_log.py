"""The one reader of training logs: position, steps, losses and accuracies from the lines that programs print.

These formats are known, also after the prefix of a logger, except for `accuracy=` and `Epoch 1`; docs/runs.md lists
them too:

    world size 3 rank 0                                                  workloads/digits
    epoch 3/12 step 20/45 loss 0.1234    and  epoch 3/12
    epoch 3/12 done train_loss 0.1 val_loss 0.1 val_accuracy 0.97 seconds 0.21
    test loss 0.0479 accuracy 0.9916
    Train Epoch: 1 [640/60000 (1%)]<TAB>Loss: 2.300039                   PyTorch's MNIST example
    Test set: Average loss: 0.1000, Accuracy: 9665/10000 (97%)
    Train Epoch: 1 [640/60000 (1%)]<TAB>loss=2.2975                      Kubeflow's MNIST example
    accuracy=0.9665
    Epoch 1                                                              PyTorch's quickstart
    loss: 2.303494  [   64/60000]
    Accuracy: 45.9%, Avg loss: 2.151
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Literal

from trainstack.runs.logs.log_lines import timed

_WORLD = re.compile(r"\bworld size (?P<size>\d{1,18})\b")
_NUMBERED = re.compile(
    r"(?P<begins>\b(?:[Ss]tart|[Bb]egin)\w*:? )?"
    r"\bepoch (?P<epoch>\d{1,18})/(?P<epochs>\d{1,18})(?: step (?P<step>\d{1,18})/(?P<steps>\d{1,18}))?"
)
_DONE = re.compile(r"\bepoch \d{1,18}/\d{1,18} done\b(?P<values>.*)")
_TESTED = re.compile(r"\btest loss (?P<loss>\S+) accuracy (?P<accuracy>\S+)")
_MNIST = re.compile(
    r"\bTrain Epoch: (?P<epoch>\d{1,18}) \[(?P<rows>\d{1,18})/(?P<of>\d{1,18}) \((?P<percent>[\d.]+)%\)\]"
    r"\s+[Ll]oss[:=]\s*(?P<loss>\S+)"
)
_MNIST_TEST = re.compile(
    r"\bTest set: Average loss: (?P<loss>[^\s,]+), Accuracy: (?P<right>\d{1,18})/(?P<total>[1-9]\d{0,17})\b"
)
_KUBEFLOW_TEST = re.compile(r"^accuracy=(?P<accuracy>\d\S*|nan)")
_QUICKSTART_EPOCH = re.compile(r"^Epoch (?P<epoch>\d{1,18})$")
_QUICKSTART = re.compile(r"\bloss:\s+(?P<loss>\S+)\s+\[\s*(?P<rows>\d{1,18})/\s*(?P<of>\d{1,18})\]")
_QUICKSTART_TEST = re.compile(r"\bAccuracy: (?P<percent>[\d.]+)%, Avg loss:\s+(?P<loss>\S+)")
_FIGURE = re.compile(r"(?<!\S)(?P<name>[^\s=:\d][^\s=:]*) (?P<value>[-+]?[\d.]\S*|nan|[-+]?inf)(?!\S)")
"""A name and a number after `done`."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position of a training according to one line of its log."""

    epoch: int | None
    """From 1; None if no line so far has named it."""
    epochs: int | None = None
    """None if the log does not give the total."""
    step: int | None = None
    steps: int | None = None
    """Of the epoch; None if the log does not number its steps."""
    rows: int | None = None
    rows_of_epoch: int | None = None
    """Rows of the data set; None if the log counts steps or epochs only."""
    epoch_fraction: float
    """From 0 to 1, of the epoch."""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The figures of an epoch, None if unknown. A loss is NaN if the training diverged."""

    steps: int | None = None
    """Taken by this replica."""
    seconds: float | None = None
    """Including the evaluation at the end of the epoch."""
    train_loss: float | None = None
    loss: float | None = None
    """On data that is not used for training."""
    accuracy: float | None = None
    """On the same data, from 0 to 1."""

    def with_(self, other: "Epoch") -> "Epoch":
        """A copy updated with the known figures of another epoch."""
        return replace(self, **{name: value for name, value in asdict(other).items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class Log:
    """The training of one replica."""

    world_size: int | None = None
    epochs: Mapping[int, Epoch]
    """By number, from 1."""
    counted: Literal["steps", "progress lines"] = "steps"
    """PyTorch's examples do not number their steps; each progress line counts as one."""
    images_per_line: int | None = None
    """Images between two progress lines, if progress lines are counted."""
    test_loss: float | None = None
    test_accuracy: float | None = None


def parse(lines: Iterable[str], *, timestamps: bool = False) -> Log:
    """Read the log, split at line feeds only, of one attempt or of several: a step that two attempts print counts once.

    `timestamps`: whether each line begins with its timestamp, as the API server adds them on request. The duration of
    an epoch is computed from them if the log does not contain it.
    """
    reader = Reader()
    for line in lines:
        time, text = timed(line) if timestamps else (None, line)
        for piece in pieces(text):
            reader.read(piece, time)
    return reader.log()


def pieces(line: str) -> Iterator[str]:
    """The texts of a line, split at carriage returns: an overwritten text was printed too."""
    yield from (piece.strip() for piece in line.split("\r"))


class Reader:
    """The figures of the lines read so far."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        """The last epoch that a line has named."""
        self.values: dict[int, dict[str, float]] = {}
        """The figures by epoch, under the names that the program prints; `loss` and `accuracy` if it prints no
        names."""
        self.evaluations: list[dict[str, float]] = []
        """Evaluations before the first line that names an epoch."""
        self.test: dict[str, float] = {}
        self._evaluated: tuple[float | None, float | None] = None, None
        """Loss and accuracy of the last evaluation."""
        self._world: int | None = None
        self._losses: dict[int, dict[int, float]] = {}
        """For PyTorch's examples, the loss by number of rows, by epoch."""
        self._times: dict[int, list[int]] = {}
        """The first and the last timestamp by epoch, in nanoseconds since 1970."""

    def read(self, text: str, time: int | None = None) -> Position | None:
        """Read one line, without surrounding spaces, and return its position if it has one."""
        position = self._numbered(text) or self._rows(text) or self._evaluation(text)
        if match := _TESTED.search(text):
            self._evaluated = number(match["loss"]), number(match["accuracy"])
            self.test = {"test_loss": number(match["loss"]), "test_accuracy": number(match["accuracy"])}
        elif match := _WORLD.search(text):
            self._world = int(match["size"])
        if position and position.epoch is not None and time is not None:
            self._times.setdefault(position.epoch, [time])[1:] = [time]
        return position

    def log(self) -> Log:
        strides = [after - before for rows in self._losses.values() for before, after in pairwise(sorted(rows))]
        return Log(
            world_size=self._world,
            epochs={number: self._epoch(number) for number in sorted(self.values)},
            counted="progress lines" if self._losses else "steps",
            # The last line of an epoch may cover fewer.
            images_per_line=max(strides, default=None),
            test_loss=self._evaluated[0],
            test_accuracy=self._evaluated[1],
        )

    def metrics(self) -> list[dict[str, float]]:
        """The figures as lines of a metrics.jsonl: one for each epoch, and one for the test."""
        lines = [
            {"epoch": epoch, **self._train_loss(epoch), **{key: values[key] for key in values if key != "steps"}}
            for epoch, values in sorted(self.values.items())
        ]
        return [*self.evaluations, *(line for line in lines if len(line) > 1), *([self.test] if self.test else [])]

    def _numbered(self, text: str) -> Position | None:
        """`epoch 3/12`, alone or with steps or figures."""
        match = _NUMBERED.search(text)
        if match is None:
            return None
        epoch, epochs = int(match["epoch"]), int(match["epochs"])
        step, steps = (int(match["step"]), int(match["steps"])) if match["step"] else (None, None)
        if not epochs or steps == 0:
            return None
        values = self._enter(epoch)
        if step is not None and steps is not None:
            values["steps"] = max(step, values.get("steps", 0))
            return Position(epoch=epoch, epochs=epochs, step=step, steps=steps, epoch_fraction=min(1.0, step / steps))
        done = _DONE.search(text)
        figures = _FIGURE.finditer(done["values"]) if done else ()
        values.update({figure["name"]: number(figure["value"]) for figure in figures})
        return Position(epoch=epoch, epochs=epochs, epoch_fraction=0.0 if match["begins"] else 1.0)

    def _rows(self, text: str) -> Position | None:
        """The progress lines of PyTorch's examples, which count the rows of the data set."""
        if match := _QUICKSTART_EPOCH.search(text):
            self._enter(int(match["epoch"]))
            return Position(epoch=self.epoch, epoch_fraction=0.0)
        match, percent = _MNIST.search(text), 0.0
        if match:
            self._enter(int(match["epoch"]))
            percent = number(match["percent"])
        else:
            match = _QUICKSTART.search(text)
        if match is None or not int(match["of"]):
            return None
        rows, of = int(match["rows"]), int(match["of"])
        if self.epoch is not None:
            self._losses.setdefault(self.epoch, {})[rows] = number(match["loss"])
        # In a distributed run the example relates one replica's rows to the rows of all; its percentage is correct.
        fraction = min(1.0, max(rows / of, percent / 100))
        return Position(epoch=self.epoch, rows=rows, rows_of_epoch=of, epoch_fraction=fraction)

    def _evaluation(self, text: str) -> Position | None:
        """The evaluation that PyTorch's examples print after each epoch; the last one is the result."""
        if match := _MNIST_TEST.search(text):
            loss, accuracy = number(match["loss"]), int(match["right"]) / int(match["total"])
        elif match := _QUICKSTART_TEST.search(text):
            loss, accuracy = number(match["loss"]), number(match["percent"]) / 100
        elif match := _KUBEFLOW_TEST.search(text):
            loss, accuracy = None, number(match["accuracy"])
        else:
            return None
        self._evaluated = loss, accuracy
        values = {"accuracy": accuracy} if loss is None else {"loss": loss, "accuracy": accuracy}
        if self.epoch is None:
            self.evaluations.append(values)
            return None
        self._enter(self.epoch).update(values)
        return Position(epoch=self.epoch, epoch_fraction=1.0)

    def _enter(self, epoch: int) -> dict[str, float]:
        self.epoch = epoch
        return self.values.setdefault(epoch, {})

    def _epoch(self, epoch: int) -> Epoch:
        values = {**self._train_loss(epoch), **self.values[epoch]}
        found = epoch_of(values)
        steps = len(self._losses[epoch]) if epoch in self._losses else values.get("steps")
        seconds = self._duration(epoch) if found.seconds is None else found.seconds
        return replace(found, steps=None if steps is None else int(steps), seconds=seconds)

    def _train_loss(self, epoch: int) -> dict[str, float]:
        losses = self._losses.get(epoch)
        return {"train_loss": fmean(losses.values())} if losses else {}

    def _duration(self, epoch: int) -> float | None:
        """In seconds, until the first line of the next epoch; for the last epoch, until its own last line."""
        if epoch not in self._times:
            return None
        begin, end = self._times[epoch][0], self._times.get(epoch + 1, self._times[epoch][-1:])[0]
        return (end - begin) / 10**9 or None


def epoch_of(values: Mapping[str, float]) -> Epoch:
    """Build an epoch from figures named as in a log or in metrics.jsonl."""
    return Epoch(
        seconds=values.get("seconds"),
        train_loss=values.get("train_loss"),
        loss=values.get("val_loss", values.get("loss")),
        accuracy=values.get("val_accuracy", values.get("accuracy")),
    )


def number(text: str) -> float:
    """Parse a number as programs print it, ignoring trailing punctuation; NaN for any other text."""
    try:
        return float(text.rstrip(",;%"))
    except ValueError:
        return float("nan")
