"""The reader of training logs: positions, steps, losses and accuracies in the lines that programs print.

These formats are known. All except `accuracy=` and `Epoch 1` may follow the prefix of a logger. docs/runs.md also
lists them:

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

Also as `Epoch [3/12], Step [20/45]`, and those of `runs.logs.trainer_formats`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Literal

from trainstack.runs.logs import example_formats
from trainstack.runs.logs.log_lines import split_timestamp
from trainstack.runs.logs.printed_numbers import Figure, first_number, numeric_figures, parse_figure
from trainstack.runs.logs.terminal_text import terminal_texts
from trainstack.runs.logs.trainer_formats import TrainerLine, TrainerReader

_END = r"(?![.,:_']?\d)(?![^\W\d]|/)"
"""The end of a whole number: no digit, letter or fraction follows."""
_WORLD = re.compile(rf"\bworld size (?P<size>\d{{1,18}}){_END}")
_NUMBERED = re.compile(
    r"(?P<begins>\b(?:[Ss]tart|[Bb]egin)\w*:? )?"
    rf"\b[Ee]poch:? \[?(?P<epoch>\d{{1,18}})/(?P<epochs>\d{{1,18}}){_END}\]?"
    rf"(?:,? [Ss]tep:? \[?(?P<step>\d{{1,18}})/(?P<steps>\d{{1,18}}){_END})?"
)
_HEADING = re.compile(r"Epoch:? \[?\d+/\d+\]?:?")
"""A line that Keras and others print before an epoch."""
_EPOCH_DONE = re.compile(r"\bepoch \d{1,18}/\d{1,18} done\b(?P<values>.*)")
_TEST_RESULT = re.compile(r"\btest loss (?P<loss>\S+) accuracy (?P<accuracy>\S+)")
_FIGURE = re.compile(r"(?<!\S)(?P<name>[^\s=:\d][^\s=:]*) (?P<value>[-+]?[\d.]\S*|nan|[-+]?inf)(?!\S)")
"""A name and a number after `done`."""
_TRAINING_SUMMARY = "train_runtime"
"""A key in the last dictionary of Transformers, whose figures are those of all epochs."""
_MAX_UNREAD = 10


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position of a training according to one line of its log."""

    epoch: int | None
    """The epoch, from 1; None if no line so far contains one."""
    epochs: int | None = None
    """The number of epochs; None if the log does not contain it."""
    step: int | None = None
    steps: int | None = None
    """The number of steps in the epoch; None if the log does not number steps."""
    rows: int | None = None
    rows_of_epoch: int | None = None
    """The number of rows in the data set; None if the log counts only steps or epochs."""
    epoch_fraction: float
    """The finished fraction of the epoch, from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The figures of an epoch; None if unknown. A loss is NaN if the training diverged."""

    steps: int | None = None
    """The number of steps of this replica."""
    seconds: float | None = None
    """The duration, including the evaluation at the end of the epoch."""
    train_loss: float | None = None
    loss: float | None = None
    """The loss on data that is not used for training."""
    accuracy: float | None = None
    """The accuracy on the same data, from 0 to 1."""

    def updated_with(self, other: "Epoch") -> "Epoch":
        """Return a copy updated with the known figures of another epoch."""
        return replace(self, **{name: value for name, value in asdict(other).items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class TrainingLog:
    """The training of one replica."""

    world_size: int | None = None
    epochs: Mapping[int, Epoch]
    """The epochs by number, from 1."""
    counted: Literal["steps", "progress lines"] = "steps"
    """The unit of `Epoch.steps`. PyTorch's examples do not number their steps, so each progress line counts as one."""
    images_per_line: int | None = None
    """The number of images between two progress lines, if progress lines are counted."""
    test_loss: float | None = None
    test_accuracy: float | None = None
    unread: tuple[str, ...] = ()
    """Names and texts of values that look like numbers but were not read: `val_loss '1,234.5'`."""


def parse_log(lines: Iterable[str], *, timestamps: bool = False) -> TrainingLog:
    """Read the log of one attempt or of several; a step that two attempts print counts once.

    `lines`: the log, split at line feeds only. `timestamps`: whether each line begins with the timestamp that the API
    server adds on request. The durations of epochs are computed from them if the log does not contain durations.
    """
    reader = TrainingLogReader()
    for line in lines:
        time, text = split_timestamp(line) if timestamps else (None, line)
        for piece in terminal_texts(text):
            reader.read(piece, time)
    return reader.log()


class TrainingLogReader:
    """A reader of lines in their order, with the figures of the lines read so far."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        """The epoch of the last line that contains one."""
        self.is_example_line = False
        """Whether the last line has a format of PyTorch's or Kubeflow's examples."""
        self.figures_by_epoch: dict[int, dict[str, Figure]] = {}
        """The figures by epoch and by the names that the program prints; `loss` and `accuracy` if it prints none."""
        self.evaluations: list[dict[str, Figure]] = []
        """The evaluations before the first line with an epoch."""
        self.logged_evaluations: list[dict[str, Figure]] = []
        """The evaluations that trainers log separately, possibly several in an epoch."""
        self.test_figures: dict[str, Figure] = {}
        self._last_evaluation: tuple[float | None, float | None] = None, None
        """The loss and accuracy of the last evaluation."""
        self._world_size: int | None = None
        self._losses_by_rows: dict[int, dict[int, float]] = {}
        """The losses of PyTorch's examples by epoch and by number of rows."""
        self._times: dict[int, list[int]] = {}
        """The first and the last timestamp of each epoch, in nanoseconds since 1970."""
        self._trainer = TrainerReader()
        self._trainer_figures: dict[int, dict[str, Figure]] = {}
        """The figures of trainers by epoch, which have other names than those of programs without a trainer."""
        self._epoch_count: int | None = None
        """The number of epochs, if the heading of an epoch contains it."""
        self._unread: dict[str, None] = {}

    def read(self, text: str, time: int | None = None) -> Position | None:
        """Read one text of a line (see `terminal_texts`) and return its position if it has one."""
        line = self._trainer.read(text)
        position = self._read_trainer_line(line) if line is not None else self._read_numbered_epoch(text)
        self.is_example_line = False
        if line is None and position is None:
            position = self._read_rows(text) or self._read_evaluation(text)
            self.is_example_line = position is not None
        self._read_other_figures(text)
        if position and position.epoch is not None and time is not None:
            self._times.setdefault(position.epoch, [time])[1:] = [time]
        return position

    def log(self) -> TrainingLog:
        strides = [upper - lower for rows in self._losses_by_rows.values() for lower, upper in pairwise(sorted(rows))]
        return TrainingLog(
            world_size=self._world_size,
            epochs={
                number: self._epoch_figures(number)
                for number in sorted(self.figures_by_epoch.keys() | self._trainer_figures.keys())
            },
            counted="progress lines" if self._losses_by_rows else "steps",
            # The last line of an epoch may cover fewer images than the others.
            images_per_line=max(strides, default=None),
            test_loss=self._last_evaluation[0],
            test_accuracy=self._last_evaluation[1],
            unread=tuple(self._unread),
        )

    def metrics(self) -> list[dict[str, Figure]]:
        """Return the figures as lines of a metrics.jsonl: one per epoch or logged evaluation, and one for the test."""
        lines: list[dict[str, Figure]] = [
            {"epoch": epoch, **self._train_loss(epoch), **{key: values[key] for key in values if key != "steps"}}
            for epoch, values in sorted(self.figures_by_epoch.items())
        ]
        epoch_lines = (line for line in lines if len(line) > 1)
        return [
            *self.evaluations,
            *epoch_lines,
            *self.logged_evaluations,
            *([self.test_figures] if self.test_figures else []),
        ]

    def _read_numbered_epoch(self, text: str) -> Position | None:
        """Read `epoch 3/12`, alone or with steps or figures."""
        match = _NUMBERED.search(text)
        if match is None:
            return None
        epoch, epochs = int(match["epoch"]), int(match["epochs"])
        step, steps = (int(match["step"]), int(match["steps"])) if match["step"] else (None, None)
        if not epochs or steps == 0:
            return None
        values = self._enter_epoch(epoch)
        self._epoch_count = epochs
        if step is not None and steps is not None:
            self._count_steps(epoch, step)
            return Position(epoch=epoch, epochs=epochs, step=step, steps=steps, epoch_fraction=min(1.0, step / steps))
        done_match = _EPOCH_DONE.search(text)
        figures = _FIGURE.finditer(done_match["values"]) if done_match else ()
        values.update(self._known_figures({entry["name"]: parse_figure(entry["value"]) for entry in figures}))
        begins = match["begins"] or _HEADING.fullmatch(text)
        return Position(epoch=epoch, epochs=epochs, epoch_fraction=0.0 if begins else 1.0)

    def _read_trainer_line(self, line: TrainerLine) -> Position:
        """Read a line of a common trainer: the figures of an epoch, or those of one evaluation."""
        figures = self._known_figures(line.figures)
        epoch = self.epoch if line.epoch is None else line.epoch
        if line.logged_epoch is not None:
            self.epoch = epoch
            self.logged_evaluations.append({"epoch": line.logged_epoch, **figures})
        elif epoch is not None:
            self._enter_epoch(epoch).update(figures)
            self._count_steps(epoch, line.step or 0)
        if epoch is not None and _TRAINING_SUMMARY not in figures:
            self._trainer_figures.setdefault(epoch, {}).update(figures)
        return Position(
            epoch=epoch,
            epochs=line.epochs or self._epoch_count,
            step=line.step,
            steps=line.steps,
            epoch_fraction=line.fraction,
        )

    def _read_rows(self, text: str) -> Position | None:
        """Read a progress line of PyTorch's examples."""
        if (epoch := example_formats.read_epoch_heading(text)) is not None:
            self._enter_epoch(epoch)
            return Position(epoch=epoch, epoch_fraction=0.0)
        line = example_formats.read_rows_line(text)
        if line is None:
            return None
        if line.epoch is not None:
            self._enter_epoch(line.epoch)
        loss = self._known_figures({"loss": line.loss}).get("loss")
        if self.epoch is not None and isinstance(loss, float):
            self._losses_by_rows.setdefault(self.epoch, {})[line.rows] = loss
        return Position(epoch=self.epoch, rows=line.rows, rows_of_epoch=line.total_rows, epoch_fraction=line.fraction)

    def _read_evaluation(self, text: str) -> Position | None:
        """Read the evaluation that PyTorch's examples print after each epoch. The last one is the result."""
        line = example_formats.read_evaluation(text)
        if line is None:
            return None
        figures = self._known_figures(line.figures)
        self._last_evaluation = first_number(figures, "loss"), first_number(figures, "accuracy")
        if self.epoch is None:
            self.evaluations.append(figures)
            return None
        self._enter_epoch(self.epoch).update(figures)
        return Position(epoch=self.epoch, epoch_fraction=1.0)

    def _read_other_figures(self, text: str) -> None:
        """Read what a line contains besides a position: test results, the world size, rows of tables."""
        if match := _TEST_RESULT.search(text):
            self.test_figures = self._known_figures(
                {f"test_{name}": parse_figure(value) for name, value in match.groupdict().items()}
            )
            self._last_evaluation = (
                first_number(self.test_figures, "test_loss"),
                first_number(self.test_figures, "test_accuracy"),
            )
        elif match := _WORLD.search(text):
            self._world_size = int(match["size"])
        elif row := self._trainer.read_table_row(text):
            kind, name, value = row
            figures = self._known_figures({name: value})
            if kind == "Test":
                self.test_figures |= figures
                self._last_evaluation = (
                    first_number(self.test_figures, "test_loss"),
                    first_number(self.test_figures, "test_accuracy", "test_acc"),
                )
            else:
                self.logged_evaluations.append(figures)

    def _known_figures(self, figures: Mapping[str, Figure | None]) -> dict[str, Figure]:
        """Return the figures that have values, and record those that were not read."""
        values = {name: value for name, value in figures.items() if value is not None}
        for name, value in values.items():
            if isinstance(value, str) and len(self._unread) < _MAX_UNREAD:
                self._unread[f"{name} {value!r}"] = None
        return values

    def _enter_epoch(self, epoch: int) -> dict[str, Figure]:
        self.epoch = epoch
        return self.figures_by_epoch.setdefault(epoch, {})

    def _count_steps(self, epoch: int, step: int) -> None:
        values = self.figures_by_epoch.setdefault(epoch, {})
        values["steps"] = max(step, values.get("steps", 0))

    def _epoch_figures(self, epoch: int) -> Epoch:
        values = self.figures_by_epoch.get(epoch, {})
        if epoch in self._trainer_figures:
            figures = _epoch_from_trainer_figures(self._trainer_figures[epoch])
        else:
            figures = epoch_from_figures(numeric_figures({**self._train_loss(epoch), **values}))
        steps = len(self._losses_by_rows[epoch]) if epoch in self._losses_by_rows else values.get("steps")
        seconds = self._duration(epoch) if figures.seconds is None else figures.seconds
        return replace(figures, steps=int(steps) if steps else None, seconds=seconds)

    def _train_loss(self, epoch: int) -> dict[str, Figure]:
        losses = self._losses_by_rows.get(epoch)
        return {"train_loss": fmean(losses.values())} if losses else {}

    def _duration(self, epoch: int) -> float | None:
        """Return the seconds until the first line of the next epoch; for the last epoch, until its own last line."""
        if epoch not in self._times:
            return None
        begin, end = self._times[epoch][0], self._times.get(epoch + 1, self._times[epoch][-1:])[0]
        return (end - begin) / 10**9 or None


def epoch_from_figures(values: Mapping[str, float]) -> Epoch:
    """Build an epoch from figures named as in a log or in metrics.jsonl."""
    return Epoch(
        seconds=values.get("seconds"),
        train_loss=values.get("train_loss"),
        loss=values.get("val_loss", values.get("loss")),
        accuracy=values.get("val_accuracy", values.get("accuracy")),
    )


def _epoch_from_trainer_figures(figures: Mapping[str, Figure]) -> Epoch:
    """Build an epoch from the figures of a trainer, in which `loss` is the loss of the training."""
    return Epoch(
        train_loss=first_number(figures, "train_loss", "loss", "Loss"),
        loss=first_number(figures, "val_loss", "eval_loss"),
        accuracy=first_number(figures, "val_accuracy", "val_acc", "eval_accuracy"),
    )
