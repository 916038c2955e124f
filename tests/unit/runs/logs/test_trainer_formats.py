"""The logs of common trainers: figures, positions, and the figures of epochs."""

import re
from typing import Any

import pytest

from tests.unit.runs.logs.test_training_progress import make_log
from tests.unit.runs.logs.trainer_logs import (
    ACCURACY,
    LOSS,
    TRAIN_LOSS,
    TRAINERS,
    huggingface,
    keras,
    lightning,
    lightning_table,
    torchtune,
)
from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.metrics_collector import collect_metrics
from trainstack.runs.logs.training_log import parse_log
from trainstack.runs.logs.training_progress import estimate_progress
from trainstack.settings.search_space.space import Objective


def make_objective(metric: str, **changes: Any) -> Objective:
    return Objective(**{"metric": metric, "direction": "minimize", **changes})


def figures(log: str, metric: str) -> list[tuple[object, object]]:
    """Return the epochs and values of a metric."""
    return [
        (line.get("epoch"), line[metric]) for line in collect_metrics(log, make_objective(metric)) if metric in line
    ]


def lines_of(log: str) -> list[LogLine]:
    """Return the lines as `status` reads them, one each second."""
    return make_log(*((float(second), text) for second, text in enumerate(re.split(r"[\r\n]+", log))))


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_validation_of_each_epoch_is_read(trainer: str) -> None:
    """With its epoch from 1, whatever the trainer counts from."""
    log, metric = TRAINERS[trainer]
    assert figures(log(), metric) == [*zip((1, 2, 3), LOSS, strict=True)]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_figures_of_an_epoch_are_those_of_a_comparison(trainer: str) -> None:
    """`compare` shows loss and accuracy of the validation data."""
    epochs = parse_log(TRAINERS[trainer][0]().split("\n")).epochs
    assert [(number, epoch.loss, epoch.accuracy) for number, epoch in epochs.items()] == [
        *zip((1, 2, 3), LOSS, ACCURACY, strict=True)
    ]


@pytest.mark.parametrize("log", [huggingface(), lightning(), keras(), keras(3), torchtune()])
def test_the_training_loss_is_not_taken_for_a_validation(log: str) -> None:
    """These trainers call it `loss`, which PyTorch's examples print of their test data."""
    epochs = parse_log(log.split("\n")).epochs
    assert [epoch.train_loss for epoch in epochs.values()] == [*TRAIN_LOSS]


def test_a_training_without_validation_has_no_validation_loss() -> None:
    text = re.sub(r" - val_\w+: \S+", "", keras())
    assert [(epoch.loss, epoch.train_loss) for epoch in parse_log(text.split("\n")).epochs.values()] == [
        (None, loss) for loss in TRAIN_LOSS
    ]


@pytest.mark.parametrize("trainer", [*TRAINERS, "torchtune"])
def test_the_end_of_a_log_has_the_position(trainer: str) -> None:
    """Only the last lines of a log are read."""
    log = torchtune if trainer == "torchtune" else TRAINERS[trainer][0]
    found = estimate_progress(lines_of(log())[-6:], None, make_log((0, ""))[0].time)
    assert found is not None
    assert (found.epoch, found.epoch_fraction) == (3, 1.0)


def test_a_bar_has_the_step() -> None:
    lines = lines_of(torchtune())[:3]
    found = estimate_progress(lines, None, lines[-1].time)
    assert found is not None
    assert (found.epoch, found.step, found.steps, found.epoch_fraction) == (2, 1, 2, 0.5)


def test_the_number_of_epochs_is_known_where_it_is_printed() -> None:
    """Keras repeats it for each epoch, Transformers prints it at the start."""
    for log in (keras(), huggingface()):
        found = estimate_progress(lines_of(log), None, lines_of(log)[-1].time)
        assert found is not None
        assert (found.epochs, found.fraction) == (3, 1.0)


def test_other_bars_are_no_progress_of_the_training() -> None:
    """Downloads and preparations have bars, too."""
    lines = [
        "Downloading: 100%|██████████| 5/5 [00:01<00:00,  5.00it/s]",
        "Map:  50%|█████     | 500/1000 [00:01<00:01]",
    ]
    assert estimate_progress(make_log(*((1.0, line) for line in lines)), None, make_log((2, ""))[0].time) is None


@pytest.mark.parametrize("rich", [False, True])
def test_the_table_of_a_validation_is_read(*, rich: bool) -> None:
    assert figures(lightning_table(rich=rich), "val_loss") == [(None, 0.25)]


def test_the_table_of_a_test_is_the_test() -> None:
    """It must not influence which trial is the best."""
    log = parse_log((lightning() + lightning_table("Test")).split("\n"))
    assert (log.test_loss, log.test_accuracy) == (0.25, 0.875)
    lines = collect_metrics(lightning() + lightning_table("Test"), make_objective("val_loss"))
    assert lines[-1] == {"test_acc": 0.875, "test_loss": 0.25}


def test_every_evaluation_of_an_epoch_counts() -> None:
    """With `eval_strategy="steps"`, the best may be in the middle of an epoch."""
    log = "{'eval_loss': 0.5, 'epoch': 0.5}\n{'eval_loss': 0.75, 'epoch': 1.0}\n"
    assert figures(log, "eval_loss") == [(0.5, 0.5), (1, 0.75)]


def test_lines_of_json_are_read() -> None:
    """With and without spaces, and after the prefix of a logger."""
    log = '{"epoch": 1, "val_loss": 0.5}\nINFO:root:{"epoch":2,"val_loss":2.5e-1,"note":"best"}\n'
    assert figures(log, "val_loss") == [(1, 0.5), (2, 0.25)]


@pytest.mark.parametrize(
    "value",
    ["tensor(0.25)", "tensor(0.25, device='cuda:0')", "np.float64(0.25)", "Array(0.25, dtype=float32)", "'0.25'"],
)
def test_the_representation_of_a_number_is_read(value: str) -> None:
    """As frameworks print a scalar within a dictionary or an f-string."""
    assert figures(f"{{'val_loss': {value}, 'epoch': 1.0}}", "val_loss") == [(1, 0.25)]
    assert figures(f"val_loss: {value}", "val_loss") == [(None, 0.25)]


def test_a_line_of_updates_is_read_to_its_end() -> None:
    """A bar writes one line, which may be far longer than the limit of a text between two updates."""
    updates = [f"Epoch 1: {step:3}%|    | {step}/400 [00:01<00:01, 1.25s/it, val_loss=0.5]" for step in range(1, 400)]
    last = "Epoch 1: 100%|████| 400/400 [00:01<00:01, 1.25s/it, val_loss=0.25]"
    assert figures("\r".join([*updates, last]), "val_loss") == [(1, 0.25)]
