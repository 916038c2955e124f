"""What a replica's log tells of its training.

These forms are understood, also behind what a logger puts before them, but for the last; docs/runs.md has them too:

    world size 3 rank 0
    epoch 3/12 step 20/45 loss 0.1234        and  epoch 3/12
    epoch 3/12 done train_loss 0.1 val_loss 0.1 val_accuracy 0.97 seconds 0.21
    test loss 0.0479 accuracy 0.9916
    Train Epoch: 1 [640/60000 (1%)] loss=2.2975          and  Loss: 2.300039
    Test set: Average loss: 0.1, Accuracy: 98/100 (98%)
    accuracy=0.9665

The first four are those of workloads/digits, the others those of PyTorch's MNIST example and its descendants.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Literal

from checks.training_log import Position, position, timed

_WORLD = re.compile(r"\bworld size (?P<size>\d+)\b")
_DONE = re.compile(r"\bepoch \d+/\d+ done\b(?P<values>.*)")
_TESTED = re.compile(r"\btest loss (?P<loss>\S+) accuracy (?P<accuracy>\S+)")
_CLASSIC = re.compile(
    r"\bTrain Epoch: (?P<epoch>\d+) \[(?P<images>\d+)/\d+ \([\d.]+%\)\]\s+[Ll]oss[:=]\s*(?P<loss>\S+)"
)
_CLASSIC_TEST = re.compile(
    r"\bTest set: Average loss: (?P<loss>[^\s,]+), Accuracy: (?P<right>\d+)/(?P<total>[1-9]\d*)\b"
)
_ACCURACY = re.compile(r"^accuracy=(?P<accuracy>\S+)")


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """What is known of an epoch; None is what nothing tells. A loss may be nan: the training diverged."""

    steps: int | None = None
    """Taken by this replica."""
    seconds: float | None = None
    """With the evaluation at its end."""
    train_loss: float | None = None
    loss: float | None = None
    """On images that are not trained on."""
    accuracy: float | None = None
    """On the same images, 0 to 1."""

    def with_(self, told: "Epoch") -> "Epoch":
        """What is known now that this is told too."""
        return replace(self, **{name: value for name, value in asdict(told).items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class Log:
    """One replica's training."""

    world_size: int | None = None
    epochs: Mapping[int, Epoch]
    """By number, from 1."""
    counted: Literal["steps", "progress lines"] = "steps"
    """The MNIST example does not number its steps: there each progress line counts as one."""
    images_per_line: int | None = None
    """Of a log of progress lines: the images between two of them."""
    test_loss: float | None = None
    test_accuracy: float | None = None


def parse(lines: Iterable[str], *, timestamps: bool = False) -> Log:
    """Read a log.

    Args:
        lines: the log, split at line feeds alone, of one attempt or of several after each other: a step that two tell
            counts once.
        timestamps: each line begins with its time, as the API server gives a pod's log when asked to. The duration of
            an epoch comes from them where the log itself does not tell it.

    """
    reader = _Reader()
    for line in lines:
        time, text = timed(line) if timestamps else (None, line)
        # What a carriage return overwrote was told too.
        for piece in text.split("\r"):
            reader.read(piece.strip(), time)
    return reader.log()


class _Reader:
    """What was read so far."""

    def __init__(self) -> None:
        self.epochs: dict[int, Epoch] = {}
        self.current = 0
        self.world: int | None = None
        self.images: dict[int, dict[int, float]] = {}
        """Of the classic form: by epoch, the loss at each number of images."""
        self.times: dict[int, list[int]] = {}
        """By epoch, when it was told of first and when last, in nanoseconds since 1970."""
        self.test: tuple[float | None, float | None] = None, None

    def read(self, text: str, time: int | None) -> None:
        if found := position(text):
            self._in_epoch(found.epoch, time)
            self._add(self._told(found, text))
        if match := _CLASSIC.search(text):
            self._in_epoch(int(match["epoch"]), time)
            self.images.setdefault(self.current, {})[int(match["images"])] = number(match["loss"])
        elif match := _TESTED.search(text):
            self.test = number(match["loss"]), number(match["accuracy"])
        elif match := _CLASSIC_TEST.search(text):
            self._evaluated(number(match["loss"]), int(match["right"]) / int(match["total"]), time)
        elif match := _ACCURACY.search(text):
            self._evaluated(self.test[0], number(match["accuracy"]), time)
        elif match := _WORLD.search(text):
            self.world = int(match["size"])

    def log(self) -> Log:
        for epoch, losses in self.images.items():
            self.current = epoch
            self._add(Epoch(steps=len(losses), train_loss=fmean(losses.values())))
        for epoch in self.times:
            if self.epochs[epoch].seconds is None:
                self.current = epoch
                self._add(Epoch(seconds=self._duration(epoch)))
        strides = [
            after - before
            for losses in self.images.values()
            for before, after in zip(sorted(losses), sorted(losses)[1:], strict=False)
        ]
        return Log(
            world_size=self.world,
            epochs=dict(sorted(self.epochs.items())),
            counted="progress lines" if self.images else "steps",
            # The last line of an epoch may stand for fewer.
            images_per_line=max(strides, default=None),
            test_loss=self.test[0],
            test_accuracy=self.test[1],
        )

    def _told(self, found: Position, text: str) -> Epoch:
        """What a line with a position tells of its epoch."""
        if found.step is not None:
            known = self.epochs.get(self.current, Epoch())
            return Epoch(steps=max(found.step, known.steps or 0))
        match = _DONE.search(text)
        words = match["values"].split() if match else ()
        return epoch_of({key: number(value) for key, value in zip(words[::2], words[1::2], strict=False)})

    def _in_epoch(self, epoch: int, time: int | None) -> None:
        self.current = epoch
        self._saw(time)

    def _evaluated(self, loss: float | None, accuracy: float, time: int | None) -> None:
        """The classic form tests after each epoch; the last test is the result."""
        self.test = loss, accuracy
        if self.current:
            self._add(Epoch(loss=loss, accuracy=accuracy))
            self._saw(time)

    def _saw(self, time: int | None) -> None:
        if time is not None:
            self.times.setdefault(self.current, [time])[1:] = [time]

    def _add(self, told: Epoch) -> None:
        self.epochs[self.current] = self.epochs.get(self.current, Epoch()).with_(told)

    def _duration(self, epoch: int) -> float | None:
        """In seconds, to the first line of the next epoch; of the last one, to what it told last."""
        begin, end = self.times[epoch][0], self.times.get(epoch + 1, self.times[epoch][-1:])[0]
        return (end - begin) / 10**9 or None


def epoch_of(values: Mapping[str, float]) -> Epoch:
    """An epoch by the names that workloads/digits gives to its figures, in its log and in metrics.jsonl."""
    return Epoch(
        seconds=values.get("seconds"),
        train_loss=values.get("train_loss"),
        loss=values.get("val_loss"),
        accuracy=values.get("val_accuracy"),
    )


def number(text: str) -> float:
    """A number as programs print it, with what may follow it in a sentence; nan for what is none."""
    try:
        return float(text.rstrip(",;%"))
    except ValueError:
        return float("nan")
