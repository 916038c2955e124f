"""The values that are read from the lines of a log."""

import math
from statistics import fmean

import pytest

from tests.unit.reports.make import make_classic, make_log, make_stamped
from tests.unit.runs.logs.example_logs import (
    KUBEFLOW,
    KUBEFLOW_TEST,
    MNIST,
    mnist_test,
    progress_lines,
    quickstart_epoch,
    quickstart_lines,
    quickstart_test,
)
from trainstack.runs.logs.printed_numbers import Figure
from trainstack.runs.logs.training_log import Epoch, TrainingLog, TrainingLogReader, parse_log


def test_the_digits_log_is_read_completely() -> None:
    """The last step line of each epoch has the number of steps, although only every tenth step is printed."""
    assert parse_log(make_log(world=3).splitlines()) == TrainingLog(
        world_size=3,
        epochs={
            1: Epoch(steps=14, seconds=0.21, train_loss=0.5, loss=0.3, accuracy=0.91),
            2: Epoch(steps=14, seconds=0.22, train_loss=0.5, loss=0.2, accuracy=0.92),
        },
        test_loss=0.0479,
        test_accuracy=0.9916,
    )


def test_a_step_of_two_attempts_counts_once() -> None:
    """A resumed run prints the steps of an epoch again from the step at which it was stopped."""
    stopped = ["epoch 1/1 step 10/45 loss 0.5", "epoch 1/1 step 20/45 loss 0.4"]
    resumed = ["resumed after epoch 0 step 15", "epoch 1/1 step 20/45 loss 0.4", "epoch 1/1 step 45/45 loss 0.3"]
    assert parse_log([*stopped, *resumed]).epochs == {1: Epoch(steps=45)}


def test_a_classic_log_counts_progress_lines() -> None:
    """It has no step numbers. The last test is the result, and the mean of the losses is that of the epoch."""
    assert parse_log(make_classic().splitlines()) == TrainingLog(
        epochs={
            1: Epoch(steps=3, train_loss=2.0, loss=0.2, accuracy=0.96),
            2: Epoch(steps=3, train_loss=1.0, loss=0.1, accuracy=0.97),
        },
        counted="progress lines",
        images_per_line=640,
        test_loss=0.1,
        test_accuracy=0.97,
    )


@pytest.mark.parametrize(
    "line",
    [
        "Train Epoch: 1 [640/60000 (1%)]\tloss=2.2975",
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.297500",
        "2026-11-21 12:00:00 INFO     Train Epoch: 1 [640/60000 (1%)]\tloss=2.2975",
        "Train Epoch: 1 [640/60000 (1.07%)] Loss: 2.2975,",
    ],
)
def test_variants_of_the_classic_format_are_read(line: str) -> None:
    """The formats of the loss differ, and loggers add a prefix."""
    assert parse_log([line]).epochs == {1: Epoch(steps=1, train_loss=2.2975)}


def test_a_plain_accuracy_is_a_test_too() -> None:
    """The training operator's examples print only the accuracy after each epoch."""
    log = parse_log(["Train Epoch: 1 [0/60000 (0%)]\tloss=2.3", "", "accuracy=0.9665", ""])
    assert (log.test_accuracy, log.test_loss, log.epochs[1].accuracy) == (0.9665, None, 0.9665)


def quickstart(epochs: int = 2) -> str:
    """Return a log of PyTorch's quickstart."""
    texts = []
    for epoch in range(1, epochs + 1):
        texts += [quickstart_epoch(epoch - 1), *(line for _, line in quickstart_lines(2 / epoch))]
        texts.append(quickstart_test((40 + 5.9 * epoch) / 100, 2.3 - 0.1 * epoch))
    return "\n".join([*texts, "Done!", ""])


@pytest.mark.parametrize("one_line", [False, True])
def test_the_output_of_the_quickstart_is_read(*, one_line: bool) -> None:
    """An epoch has ten progress lines. The accuracy is on its own line or after `Test Error`, read as a fraction."""
    text = quickstart().replace("Test Error: \n", "" if one_line else "Test Error: \n")
    assert parse_log(text.split("\n")) == TrainingLog(
        epochs={
            1: Epoch(steps=10, train_loss=2.0, loss=2.2, accuracy=45.9 / 100),
            2: Epoch(steps=10, train_loss=1.0, loss=2.1, accuracy=51.8 / 100),
        },
        counted="progress lines",
        images_per_line=6400,
        test_loss=2.1,
        test_accuracy=51.8 / 100,
    )


@pytest.mark.parametrize(
    ("template", "tested", "loss"),
    [(MNIST, mnist_test(0.0479, 9666), 0.0479), (KUBEFLOW, KUBEFLOW_TEST.format(0.9666), None)],
)
def test_the_output_of_the_mnist_examples_is_read(template: str, tested: str, loss: float | None) -> None:
    """The log has a line for every tenth of 938 batches, and a test after each epoch between empty lines."""
    texts = ["Using distributed PyTorch with gloo backend"]
    for epoch in (1, 2):
        texts += [*(line for _, line in progress_lines(template, epoch)), tested]
    epoch_read = Epoch(steps=94, train_loss=fmean([2.2135] * 94), loss=loss, accuracy=0.9666)
    assert parse_log("\n".join(texts).split("\n")) == TrainingLog(
        epochs={1: epoch_read, 2: epoch_read},
        counted="progress lines",
        images_per_line=640,
        test_loss=loss,
        test_accuracy=0.9666,
    )


def test_a_diverged_quickstart_is_read() -> None:
    """`nan` is shorter than the format's width of a loss."""
    nan = float("nan")
    texts = [quickstart_epoch(0), *(line for _, line in quickstart_lines(nan)), quickstart_test(0.098, nan)]
    log = parse_log("\n".join(texts).split("\n"))
    assert (log.epochs[1].steps, log.epochs[1].accuracy) == (10, 0.098)
    assert math.isnan(log.epochs[1].train_loss or 0.0)
    assert math.isnan(log.test_loss or 0.0)


def test_metrics_of_a_log_have_the_keys_of_a_metrics_file() -> None:
    """The keys are the printed names; PyTorch's examples print none, so theirs are `loss` and `accuracy`."""
    assert metrics(make_log(epochs=1)) == [
        {"epoch": 1, "train_loss": 0.5, "val_loss": 0.3, "val_accuracy": 0.91, "seconds": 0.21},
        {"test_loss": 0.0479, "test_accuracy": 0.9916},
    ]
    assert metrics(make_classic()) == [
        {"epoch": 1, "train_loss": 2.0, "loss": 0.2, "accuracy": 0.96},
        {"epoch": 2, "train_loss": 1.0, "loss": 0.1, "accuracy": 0.97},
    ]
    assert metrics("accuracy=0.5\naccuracy=0.75\n") == [{"accuracy": 0.5}, {"accuracy": 0.75}]
    assert metrics("starting epoch 1/2\nnothing else") == []


def metrics(text: str) -> list[dict[str, Figure]]:
    """Return the lines of a metrics file that correspond to a log."""
    reader = TrainingLogReader()
    for line in text.split("\n"):
        reader.read(line.strip())
    return reader.metrics()


def test_timestamps_give_the_duration_of_an_epoch() -> None:
    """An epoch ends at the first line of the next one, and the last epoch at its test, 4 lines later."""
    log = parse_log(make_stamped(make_classic(), seconds=1.5).splitlines(), timestamps=True)
    assert [epoch.seconds for epoch in log.epochs.values()] == [9.0, 6.0]


def test_a_line_with_an_epoch_may_also_have_the_test() -> None:
    log = parse_log(["epoch 2/2 test loss 0.1 accuracy 0.9"])
    assert (log.epochs, log.test_loss, log.test_accuracy) == ({2: Epoch()}, 0.1, 0.9)


def test_epochs_without_steps_are_epochs_too() -> None:
    """The status shows them as well; only their times are known."""
    log = parse_log(
        make_stamped("starting epoch 1/2\nepoch 1/2\nstarting epoch 2/2\nx\nepoch 2/2\n").split("\n"), timestamps=True
    )
    assert log.epochs == {1: Epoch(seconds=2.0), 2: Epoch(seconds=2.0)}


def test_durations_in_the_log_have_precedence_over_timestamps() -> None:
    """They are of the training alone."""
    log = parse_log(make_stamped(make_log()).splitlines(), timestamps=True)
    assert [epoch.seconds for epoch in log.epochs.values()] == [0.21, 0.22]


def test_a_diverged_loss_is_read_as_nan() -> None:
    log = parse_log(
        ["epoch 1/1 done train_loss nan val_loss nan val_accuracy 0.1000 seconds 0.2", "test loss nan accuracy 0.1"]
    )
    assert math.isnan(log.epochs[1].loss or 0.0)
    assert math.isnan(log.test_loss or 0.0)
    assert log.test_accuracy == 0.1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00\xff",
        "epoch",
        "epoch x/y step 1/2",
        "Test set: Average loss: 1.0, Accuracy: 0/0 (0%)",
        "world size big",
    ],
)
def test_other_lines_are_ignored(text: str) -> None:
    """Malformed lines and a division by zero cause no error."""
    assert parse_log([text]) == TrainingLog(epochs={})
    assert parse_log([text], timestamps=True) == TrainingLog(epochs={})
