"""The progress lines of common trainers: Transformers, Lightning, Keras, torchtune, and progress bars of tqdm.

docs/runs.md lists these formats:

    {'eval_loss': 0.25, 'eval_accuracy': 0.9, 'epoch': 1.0}              Transformers' Trainer, and lines of JSON
    Epoch 0: 100%|███| 938/938 [00:08<00:00, 110it/s, v_num=0, val_loss=0.25]     Lightning, which counts from 0
    Epoch 3/12:  50%|█   | 469/938 [00:08<00:08, 110it/s, loss=0.25]     tqdm with `desc=f"Epoch {epoch}/{epochs}"`
    1|938|Loss: 0.25: 100%|███| 938/938 [00:08<00:00, 110it/s]           torchtune
    938/938 [====] - 8s 9ms/step - loss: 0.3 - val_loss: 0.25            Keras, after `Epoch 3/12`
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, isfinite

from trainstack.runs.logs.printed_numbers import Figure, parse_figure, parse_figure_at

_DICTIONARY = re.compile(r"\{[^{}]*\}")
_KEY = re.compile(r"([\"'])(?P<name>[^\"'\s]{1,100})\1\s*:\s*")
_BAR = re.compile(
    r"\b[Ee]poch:? (?P<epoch>\d{1,18})(?:/(?P<epochs>\d{1,18}))?(?![\d/.,])[^|]{0,100}\|[^|]{0,300}\|\s*"
    r"(?P<step>\d{1,18})/(?P<steps>\d{1,18}) \[(?P<postfix>[^\]]*)"
)
_TORCHTUNE = re.compile(
    r"(?:^|\s)(?P<epoch>\d{1,18})\|\d{1,18}\|Loss: (?P<loss>\S+):\s+\d{1,3}%\|[^|]*\|\s*"
    r"(?P<step>\d{1,18})/(?P<steps>\d{1,18}) \["
)
_KERAS = re.compile(r"(?P<step>\d{1,18})/(?P<steps>\d{1,18}) ")
_KERAS_TIME = re.compile(r"(?:^|\s)(?:ETA: )?\d+[mu]?s(?:/\w+)?(?:\s|$)")
_KERAS_FIGURE = re.compile(r"(?P<name>[^\s:]{1,100}): (?P<value>\S+)")
_NUMBER_OF_EPOCHS = re.compile(r"\bNum [Ee]pochs = (?P<epochs>\d{1,18})$")
_LIGHTNING_VERSION = "v_num"
"""The version of Lightning's logger, which every progress bar of Lightning contains."""
_TABLE = re.compile(r"^[┃|\s]*(?P<kind>Validate|Test) metric[┃|\s]+DataLoader 0[┃|\s]*$")
_TABLE_ROW = re.compile(r"^[│|\s]*(?P<name>[A-Za-z_][^\s│|]*)[│|\s]+(?P<value>[^\s│|]+)[│|\s]*$")
_TABLE_RULE = re.compile(r"^[\s─━┏┓┡┩╇┳┴└┘┃│+-]*$")


@dataclass(frozen=True, kw_only=True)
class TrainerLine:
    """The position and figures in a line of a trainer."""

    epoch: int | None = None
    """The epoch, from 1; None if it is that of the previous lines."""
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None
    fraction: float
    """The finished fraction of the epoch, from 0 to 1."""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """The figures by the names that the trainer prints."""
    logged_epoch: float | None = None
    """The epoch in a dictionary, which may be a fraction. Every dictionary is a separate evaluation."""


class TrainerReader:
    """A reader of lines in their order. It has state because some trainers count epochs from 0, and tables have several
    lines.
    """

    def __init__(self) -> None:
        self.epochs: int | None = None
        """The number of epochs, which Transformers prints at the start."""
        self._from_zero = False
        self._table_kind = ""
        """The kind of the table that is being read; empty outside of tables."""

    def read(self, text: str) -> TrainerLine | None:
        if match := _NUMBER_OF_EPOCHS.search(text):
            self.epochs = int(match["epochs"])
        return self._read_bar(text) or _read_torchtune(text) or _read_keras(text) or self._read_dictionary(text)

    def read_table_row(self, text: str) -> tuple[str, str, Figure] | None:
        """Read a row of a Lightning table: the kind of the table, the metric's name and its value."""
        if header := _TABLE.match(text):
            self._table_kind = header["kind"]
        elif self._table_kind and not _TABLE_RULE.match(text):
            match = _TABLE_ROW.match(text)
            value = parse_figure(match["value"]) if match else None
            if match is not None and value is not None:
                return self._table_kind, match["name"], value
            self._table_kind = ""
        return None

    def _read_bar(self, text: str) -> TrainerLine | None:
        match = _BAR.search(text) if "|" in text else None
        if match is None or not int(match["steps"]):
            return None
        figures = dict(_postfix_figures(match["postfix"]))
        epoch, step, steps = (int(match[name]) for name in ("epoch", "step", "steps"))
        self._from_zero |= epoch == 0 or _LIGHTNING_VERSION in figures
        return TrainerLine(
            epoch=epoch + self._from_zero,
            epochs=int(match["epochs"]) if match["epochs"] else None,
            step=step,
            steps=steps,
            fraction=min(1.0, step / steps),
            figures={name: value for name, value in figures.items() if name != _LIGHTNING_VERSION},
        )

    def _read_dictionary(self, text: str) -> TrainerLine | None:
        for match in _DICTIONARY.finditer(text) if "{" in text else ():
            figures = dict(_dictionary_figures(match[0]))
            epoch = figures.pop("epoch", None)
            if isinstance(epoch, float) and isfinite(epoch) and figures:
                number = max(1, ceil(epoch))
                fraction = max(0.0, epoch - number + 1)
                return TrainerLine(
                    epoch=number, epochs=self.epochs, fraction=fraction, figures=figures, logged_epoch=epoch
                )
        return None


def _read_torchtune(text: str) -> TrainerLine | None:
    match = _TORCHTUNE.search(text) if "|Loss: " in text else None
    if match is None or not int(match["steps"]):
        return None
    epoch, step, steps = (int(match[name]) for name in ("epoch", "step", "steps"))
    loss = parse_figure(match["loss"])
    figures = {} if loss is None else {"Loss": loss}
    return TrainerLine(epoch=epoch, step=step, steps=steps, fraction=min(1.0, step / steps), figures=figures)


def _read_keras(text: str) -> TrainerLine | None:
    match = _KERAS.match(text)
    if match is None or not int(match["steps"]) or not _KERAS_TIME.search(text):
        return None
    parts = [_KERAS_FIGURE.fullmatch(part.strip()) for part in text.split(" - ")[1:]]
    figures = {entry["name"]: value for entry in parts if entry and (value := parse_figure(entry["value"])) is not None}
    step, steps = int(match["step"]), int(match["steps"])
    # Keras prints running means until the epoch is finished.
    final_figures = figures if step >= steps else {}
    return (
        TrainerLine(step=step, steps=steps, fraction=min(1.0, step / steps), figures=final_figures) if figures else None
    )


def _postfix_figures(text: str) -> Iterator[tuple[str, Figure]]:
    for part in text.split(", "):
        name, equals, printed = part.strip().partition("=")
        value = parse_figure(printed) if equals else None
        if value is not None:
            yield name, value


def _dictionary_figures(text: str) -> Iterator[tuple[str, Figure]]:
    for match in _KEY.finditer(text):
        value = parse_figure_at(text, match.end())
        if value is not None:
            yield match["name"], value
