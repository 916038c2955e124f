"""The progress of a training and its remaining time."""

from datetime import UTC, datetime, timedelta

import pytest

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
from trainstack.runs.logs.log_lines import LogLine, log_line, log_lines
from trainstack.runs.logs.training_progress import estimate_progress

START = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)


def make_log(*lines: tuple[float, str]) -> list[LogLine]:
    """Return lines with these seconds since START."""
    return [LogLine(int((START.timestamp() + seconds) * 10**9), text) for seconds, text in lines]


@pytest.mark.parametrize(
    ("line", "fraction"),
    [
        ("epoch 3/12", 0.25),
        ("epoch 3/12 step 20/40 loss 0.1", 2.5 / 12),
        ("epoch 12/12 step 40/40", 1.0),
        ("INFO epoch 3/12 done seconds 1", 0.25),
        ("starting epoch 3/12", 2 / 12),
        ("Beginning epoch 1/12", 0.0),
        ("myepoch 3/12", None),
        ("epoch 0/0", None),
        ("epoch 1/2 step 0/0", None),
        ("nothing of the kind", None),
    ],
)
def test_progress_is_read_from_a_line(line: str, fraction: float | None) -> None:
    """The formats are those of many programs."""
    found = estimate_progress(make_log((1, line)), START, START)
    assert (found.fraction if found else None) == (None if fraction is None else pytest.approx(fraction))


@pytest.mark.parametrize(
    ("log", "now", "left"),
    [
        pytest.param([(10, "epoch 1/4"), (20, "epoch 2/4"), (25, "loss 1")], 20, 20.0, id="from several lines"),
        pytest.param([(10, "epoch 1/4"), (20, "epoch 2/4")], 26, 14.0, id="time has passed since the last"),
        pytest.param([(10, "epoch 1/4"), (20, "epoch 2/4")], 100, 0.0, id="it is late"),
        pytest.param([(30, "epoch 1/4")], 30, 90.0, id="from one line, since the start"),
        pytest.param(
            [(1000, "resumed"), (1010, "epoch 3/4 step 1/2"), (1015, "epoch 3/4 step 2/2")], 1015, 10.0, id="resumed"
        ),
    ],
)
def test_the_time_left_is_that_of_the_last_rate(log: list[tuple[float, str]], now: float, left: float) -> None:
    """The rate of a resumed run does not count the part before it."""
    found = estimate_progress(make_log(*log), START, START + timedelta(seconds=now))
    assert found is not None
    assert found.seconds_left == pytest.approx(left)


def in_epoch(*texts: str) -> tuple[int | None, float]:
    """Return the epoch and its finished part, from a log without the number of epochs."""
    lines = "\n".join(["Using distributed PyTorch with gloo backend", *texts]).split("\n")
    found = estimate_progress(make_log(*enumerate(lines)), START, START)
    assert found is not None
    assert found.epoch_fraction is not None
    assert (found.epochs, found.fraction, found.seconds_left) == (None, None, None)
    return found.epoch, found.epoch_fraction


@pytest.mark.parametrize("replicas", [1, 4])
@pytest.mark.parametrize("template", [MNIST, KUBEFLOW])
def test_the_mnist_examples_have_progress_in_the_epoch(template: str, replicas: int) -> None:
    """Every line has it as a percentage; the number of epochs and the remaining time are unknown.

    A replica of a distributed run prints its own rows relative to those of all replicas.
    """
    for epoch in (1, 2):
        for part, line in progress_lines(template, epoch, replicas):
            found, fraction = in_epoch(line)
            assert found == epoch
            assert fraction == pytest.approx(part, abs=0.005)


def test_the_quickstart_has_progress_in_the_epoch() -> None:
    """The tail of a log may not have the line with the epoch."""
    for part, line in quickstart_lines(2.303494):
        for epoch, found in ((3, in_epoch(quickstart_epoch(2), line)), (None, in_epoch(line))):
            assert found[0] == epoch
            assert found[1] == pytest.approx(part)
    assert in_epoch(quickstart_epoch(2)) == (3, 0.0)


@pytest.mark.parametrize(
    ("line", "tested"),
    [
        (MNIST.format(2, 59520, 60000, 99.1471, 0.0213), mnist_test(0.0479, 9841)),
        (KUBEFLOW.format(2, 59520, 60000, 99.1471, 0.0213), KUBEFLOW_TEST.format(0.9666)),
        (quickstart_epoch(1), quickstart_test(0.459, 2.151)),
    ],
)
def test_a_test_ends_the_epoch(line: str, tested: str) -> None:
    """The test follows the last batch of each epoch."""
    assert in_epoch(line, tested) == (2, 1.0)


@pytest.mark.parametrize("loss", [0.0, 2.3, 123456.789, float("nan"), float("inf")])
def test_rows_are_read_for_any_loss(loss: float) -> None:
    """A diverged loss is shorter than the quickstart's format width."""
    for line in (line for _, line in [*progress_lines(MNIST, 1, loss=loss), *quickstart_lines(loss)]):
        found = estimate_progress(make_log((1, line)), START, START)
        assert found is not None
        assert found.rows_of_epoch == 60000


def test_without_a_rate_the_remaining_time_is_unknown() -> None:
    """The log has one line, and the start is unknown."""
    found = estimate_progress(make_log((10, "epoch 1/4")), None, START)
    assert found is not None
    assert (found.epoch, found.epochs, found.step, found.steps, found.seconds_left) == (1, 4, None, None, None)


def test_only_a_line_feed_ends_a_line() -> None:
    """Other separators are part of the text; of a progress bar the text after the last `\\r` counts."""
    stamp = "2026-01-02T03:00:00Z"
    log = f"{stamp} \repoch 1/3 step 1/10\repoch 1/3 step 10/10\n{stamp} a\x0cb\x85c\u2028d\n{stamp} dos\r\n"
    lines = log_lines(log)
    assert [line.text for line in lines] == ["epoch 1/3 step 10/10", "a\x0cb\x85c\u2028d", "dos"]
    found = estimate_progress(lines, None, START)
    assert found is not None
    assert found.fraction == pytest.approx(1 / 3)


def test_timestamps_of_lines_are_read_to_the_nanosecond() -> None:
    """They may have any time zone and any number of digits. A line without a timestamp is not part of the log."""
    second = int(START.timestamp()) * 10**9
    assert log_line("2026-01-02T03:00:00.123456789Z a b") == LogLine(second + 123456789, "a b")
    assert log_line("2026-01-02T05:00:00.5+02:00 a") == LogLine(second + 500_000_000, "a")
    assert log_line("2026-01-02T03:00:00Z ") == LogLine(second, "")
    assert log_lines("unable to retrieve container logs\n\n") == []
    assert LogLine(second + 1500, "").time == START + timedelta(microseconds=1)
