"""How far a training is, and how long it will still take."""

from datetime import UTC, datetime, timedelta

import pytest

from checks.log_lines import LogLine, log_line, log_lines
from checks.training_progress import progress

START = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)


def make_log(*told: tuple[float, str]) -> list[LogLine]:
    """Lines by the seconds since START."""
    return [LogLine(int((START.timestamp() + seconds) * 10**9), text) for seconds, text in told]


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
    """Whatever a program of somebody else's writes."""
    found = progress(make_log((1, line)), START, START)
    assert (found.fraction if found else None) == (None if fraction is None else pytest.approx(fraction))


@pytest.mark.parametrize(
    ("log", "now", "left"),
    [
        pytest.param([(10, "epoch 1/4"), (20, "epoch 2/4"), (25, "loss 1")], 20, 20.0, id="from several lines"),
        pytest.param([(10, "epoch 1/4"), (20, "epoch 2/4")], 26, 14.0, id="time has gone on since the last"),
        pytest.param([(10, "epoch 1/4"), (20, "epoch 2/4")], 100, 0.0, id="it is late"),
        pytest.param([(30, "epoch 1/4")], 30, 90.0, id="from one line, since the start"),
        pytest.param(
            [(1000, "resumed"), (1010, "epoch 3/4 step 1/2"), (1015, "epoch 3/4 step 2/2")], 1015, 10.0, id="resumed"
        ),
    ],
)
def test_the_time_left_is_that_of_the_last_rate(log: list[tuple[float, str]], now: float, left: float) -> None:
    """A run that resumed at a half is not twice as fast."""
    found = progress(make_log(*log), START, START + timedelta(seconds=now))
    assert found is not None
    assert found.seconds_left == pytest.approx(left)


@pytest.mark.parametrize(
    ("lines", "epoch", "rows", "epoch_fraction"),
    [
        pytest.param(["Train Epoch: 1 [640/60000 (1%)]\tloss=2.2135"], 1, (640, 60000), 0.01, id="Kubeflow's example"),
        pytest.param(
            ["Train Epoch: 2 [30080/60000 (50%)]\tLoss: 0.123456"], 2, (30080, 60000), 0.5, id="MNIST example"
        ),
        pytest.param(["Train Epoch: 1 [14080/60000 (94%)]\tloss=0.3"], 1, (14080, 60000), 0.94, id="one of 4 replicas"),
        pytest.param(
            ["Train Epoch: 1 [59520/60000 (99%)]\tloss=0.1", "", "accuracy=0.9666"],
            1,
            (None, None),
            1.0,
            id="Kubeflow's test",
        ),
        pytest.param(["Epoch 3", "-" * 31], 3, (None, None), 0.0, id="quickstart begins"),
        pytest.param(["Epoch 3", "loss: 1.303494  [30064/60000]"], 3, (30064, 60000), 0.5, id="quickstart"),
        pytest.param(["loss: 2.303494  [   64/60000]"], None, (64, 60000), 0.0, id="end of a quickstart's log"),
        pytest.param(
            ["Epoch 3", "Test Error:", " Accuracy: 45.9%, Avg loss: 2.151"], 3, (None, None), 1.0, id="its test"
        ),
    ],
)
def test_programs_that_count_rows_have_progress_in_the_epoch(
    lines: list[str], epoch: int | None, rows: tuple[int | None, int | None], epoch_fraction: float
) -> None:
    """They print no number of epochs, so the fraction of the whole and the time left are unknown."""
    found = progress(make_log(*enumerate(["Using distributed PyTorch with gloo backend", *lines])), START, START)
    assert found is not None
    assert (found.epoch, found.epochs, found.fraction, found.seconds_left) == (epoch, None, None, None)
    assert (found.rows, found.rows_of_epoch) == rows
    assert found.epoch_fraction == pytest.approx(epoch_fraction, abs=0.005)


def test_without_a_rate_nothing_is_said_of_the_time_left() -> None:
    """One line, and no start."""
    found = progress(make_log((10, "epoch 1/4")), None, START)
    assert found is not None
    assert (found.epoch, found.epochs, found.step, found.steps, found.seconds_left) == (1, 4, None, None, None)


def test_only_a_line_feed_ends_a_line() -> None:
    """What else some libraries take for an end is part of the text; a progress bar's last word is its line."""
    stamp = "2026-01-02T03:00:00Z"
    log = f"{stamp} \repoch 1/3 step 1/10\repoch 1/3 step 10/10\n{stamp} a\x0cb\x85c\u2028d\n{stamp} dos\r\n"
    lines = log_lines(log)
    assert [line.text for line in lines] == ["epoch 1/3 step 10/10", "a\x0cb\x85c\u2028d", "dos"]
    found = progress(lines, None, START)
    assert found is not None
    assert found.fraction == pytest.approx(1 / 3)


def test_lines_bear_the_moment_to_the_nanosecond() -> None:
    """Whatever the zone and the number of digits; a line without one is no line of a log with timestamps."""
    second = int(START.timestamp()) * 10**9
    assert log_line("2026-01-02T03:00:00.123456789Z a b") == LogLine(second + 123456789, "a b")
    assert log_line("2026-01-02T05:00:00.5+02:00 a") == LogLine(second + 500_000_000, "a")
    assert log_line("2026-01-02T03:00:00Z ") == LogLine(second, "")
    assert log_lines("unable to retrieve container logs\n\n") == []
    assert LogLine(second + 1500, "").at == START + timedelta(microseconds=1)
