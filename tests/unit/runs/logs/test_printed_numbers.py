"""Numbers in logs: read as printed, or reported as unread, but never in part."""

import math
import random
import re
from typing import Any

import pytest

from tests.unit.runs.logs.test_training_progress import make_log
from trainstack.runs.logs.metrics_collector import collect_metrics
from trainstack.runs.logs.training_log import parse_log
from trainstack.runs.logs.training_progress import estimate_progress
from trainstack.settings.search_space.space import Objective
from trainstack.sweeps.search.ranking import rank
from trainstack.sweeps.search.results import TrialResult

NO_NUMBERS = (
    *("1,234.5", "0,5", "1.234,5", "1,234,567", "1,23,456.7", "1'234.5", "1_000", "1 234.5", "1 234", "1\u00a0234.5"),
    *("1\u202f234", "1.2.3", "12:30", "1:02:03", "0x1p-3", "0x10", "1/2", "45/50", "1e", "1e5.5", "1e-", "--1", "1-2"),
    *("0.5it/s", "5ms", "1.5k", "3M", "2GB", "1e3x", "0.5±0.1", "\u22120.5", "\u0661\u066b\u0665", "½", "5.e", "0.5e"),
)
"""Values that look like a number and are none, or not one that every reader understands in the same way."""
NUMBERS = {
    "0.25": 0.25,
    "-1.5": -1.5,
    "+2": 2.0,
    ".5": 0.5,
    "5.": 5.0,
    "1e-3": 0.001,
    "2.5E+2": 250.0,
    "1234.5": 1234.5,
    "97.5%": 97.5,
    "1e999": math.inf,
    "nan": math.nan,
    "NaN": math.nan,
    "inf": math.inf,
    "-Infinity": -math.inf,
}
ENDS = ("", ",", ";", ".", ")", "]", " ", ", acc=0.9", " acc 0.9", ",acc=0.9", " (best)", "|", '"', " - lr: 0.1", "\t7")
"""What may follow a number."""
FORMATS = (
    "val_loss={}",
    "val_loss = {}",
    "val_loss: {}",
    "INFO step 7 val_loss:{}",
    "'val_loss': {}",
    '{{"val_loss": {}',
)
"""Lines in the default format."""


def make_objective(metric: str = "val_loss", **changes: Any) -> Objective:
    return Objective(**{"metric": metric, "direction": "minimize", **changes})


def values(line: str, **changes: Any) -> list[object]:
    """Return the values of the objective in a log."""
    lines = collect_metrics(line, make_objective(**changes))
    return [line["val_loss"] for line in lines if "val_loss" in line]


@pytest.mark.parametrize("text", NO_NUMBERS)
@pytest.mark.parametrize("form", FORMATS)
def test_what_only_looks_like_a_number_is_unread(form: str, text: str) -> None:
    """Its text is reported: no part of it counts."""
    (value,) = values(form.format(text))
    assert isinstance(value, str)
    assert text.startswith(value.rstrip("…")) or value.startswith(text.rstrip("."))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_ends_at_a_space_or_a_mark(text: str, end: str) -> None:
    for form in FORMATS[:4]:
        assert values(f"{form.format(text)}{end}") == pytest.approx([NUMBERS[text]], nan_ok=True)


@pytest.mark.parametrize("text", ["high", "n/a", "none", "-", "", "information", "nanometer", "[0.1, 0.2]", "x1"])
def test_other_words_are_no_values(text: str) -> None:
    """A line may have the metric's name in a sentence."""
    assert values(f"val_loss={text}") == []


EXPRESSIONS = (
    "val_loss=(?P<value>[0-9.]+)",
    r"val_loss=(?P<value>\d+)",
    r"val_loss=(?P<value>[-+.\de]+)",
    r"(?P<value>[0-9.]+)$",
    r"val_loss=(?P<value>\S+)",
    r"val_loss=(?P<value>.*)",
    r"val_loss=(?P<value>[0-9.]+).*",
)


@pytest.mark.parametrize("text", ["1,234.5", "0,5", "1.2.3", "12:30", "0x1p-3", "1_000", "1e5", "1'234.5", "1 234"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_reads_no_part_of_a_value(expression: str, text: str) -> None:
    """Whatever the group matches: the whole value, or nothing."""
    found = values(f"val_loss={text}", metrics_format=expression)
    assert [value for value in found if not isinstance(value, str)] == ([1e5] if found == [1e5] else [])


@pytest.mark.parametrize(
    ("expression", "line", "value"),
    [
        (r"latency (?P<value>[0-9.]+)ms", "latency 12.5ms", 12.5),
        (r"(?P<value>\d+)/\d+ correct", "45/50 correct", 45.0),
        (r"loss (?P<value>\S+)", "loss 0.5,", 0.5),
        (r"loss (?P<value>[0-9.]+)", "loss 0.5. Done", 0.5),
        (r"^\d+,(?P<value>[0-9.]+)", "3,0.25,0.9", 0.25),
        (r"loss=(?P<value>[0-9.]+)", "loss=0.25,acc=0.9", 0.25),
        (r"é (?P<value>[0-9.]+)", "€ é 0.25 ü", 0.25),
        (r"score (?P<value>\d+)%", "score 50%", 50.0),
        (r"loss=-(?P<value>[0-9.]+)", "loss=-0.5", 0.5),
    ],
)
def test_an_expression_may_name_what_follows_a_number(expression: str, line: str, value: float) -> None:
    """A unit, a mark or a further column of a table."""
    assert values(line, metrics_format=expression) == [value]


def test_an_expression_that_finds_a_word_is_reported() -> None:
    assert values("val_loss is high", metrics_format=r"val_loss is (?P<value>\w+)") == ["high"]


def test_the_epoch_of_an_expression_is_read_as_a_whole_too() -> None:
    """A part of it would be another epoch."""
    form = r"epoch (?P<epoch>\d+).* loss (?P<value>\S+)"
    assert collect_metrics("epoch 1,003 loss 0.5", make_objective(metrics_format=form)) == ({"val_loss": 0.5},)


def make_result(number: int, log: str, objective: Objective) -> TrialResult:
    metrics = collect_metrics(log, objective)
    return TrialResult(
        number=number, set_id=str(number), run_id=f"r-{number}", parameters={}, state="succeeded", metrics=metrics
    )


@pytest.mark.parametrize("epoch", ["best", "last"])
def test_a_diverged_trial_does_not_rank_best(epoch: str) -> None:
    """Its last loss is 1,234.5. It is not ranked, and the reason has the text."""
    objective = make_objective(epoch=epoch)
    logs = ["val_loss=2.5\nval_loss=2.0", "val_loss=9.5\nval_loss=1,234.5"]
    ranking = rank([make_result(number, log, objective) for number, log in enumerate(logs, 1)], objective)
    assert [each.result.number for each in ranking.ranked] == [1]
    (left_out,) = ranking.unranked
    assert "its val_loss '1,234.5' was not read" in left_out.reason


@pytest.mark.parametrize("text", ["1,234.5", "1_000", "0x1p-3", "12:30", "1.2.3"])
@pytest.mark.parametrize(
    "line",
    [
        "epoch 3/12 done train_loss 0.1 val_loss {} val_accuracy 0.5",
        "Test set: Average loss: {}, Accuracy: 9665/10000 (97%)",
        "test loss {} accuracy 0.5",
        "2/2 [=====] - 1s 50ms/step - loss: 0.1 - val_loss: {}",
        "Epoch 3: 100%|██| 2/2 [00:01<00:00, 1.2it/s, v_num=0, val_loss={}]",
        "{{'eval_loss': {}, 'epoch': 3.0}}",
        "accuracy={}",
    ],
)
def test_known_formats_read_no_part_of_a_value(line: str, text: str) -> None:
    """The comparison notes it."""
    log = parse_log(["Epoch 3/12", line.format(text)])
    assert any(text in unread for unread in log.unread)
    assert (log.test_loss, log.epochs[3].loss) == (None, None)


@pytest.mark.parametrize(
    "line", ["epoch 3/1,200", "epoch 3/12 step 20/1,000", "epoch 3/12.5", "world size 1,024", "epoch 3/12:30"]
)
def test_positions_are_whole_numbers(line: str) -> None:
    found = estimate_progress(make_log((1, line)), None, make_log((1, ""))[0].time)
    assert found is None or (found.epochs, found.steps) == (12, None)
    assert parse_log([line]).world_size is None


COLORS = ("\x1b[32m", "\x1b[0m", "\x1b[1;31m", "\x1b[38;5;208m", "\x1b[m", "\x1b[K", "\x1b]8;;http://x\x07", "\x1b(B")


@pytest.mark.parametrize("color", COLORS)
def test_colors_are_removed_before_a_line_is_read(color: str) -> None:
    """Around the line, and around each word."""
    for line in ("val_loss=0.5", "{c}val_loss{c}={c}0.5{c}", "val_{c}loss = 0.{c}5"):
        assert values(f"{color}{line.replace('{c}', color)}{color}") == [0.5]
    colored = f"{color}epoch{color} 3/12 done val_loss {color}0.5{color} val_accuracy 0.9"
    assert parse_log([colored]).epochs[3].loss == 0.5
    found = estimate_progress(make_log((1, f"{color}epoch 3/12 step 20/40{color}")), None, make_log((1, ""))[0].time)
    assert found is not None
    assert found.step == 20


def test_an_expression_sees_the_line_without_colors() -> None:
    assert values("\x1b[32mval_loss 0.5\x1b[0m", metrics_format=r"^val_loss (?P<value>\S+)$") == [0.5]


def test_the_figures_that_a_terminal_overwrites_are_separate() -> None:
    """A cursor that moves, or goes back, begins another text."""
    assert values("val_loss=0.75\x1b[Aval_loss=0.5\x08\x08\x08val_loss=0.25") == [0.75, 0.5, 0.25]


def drawn_line(draw: random.Random, value: float) -> str:
    """Return a line with one figure of the objective, and noise around it that has numbers and other names."""
    printed = draw.choice([f"{value!r}", f"{value:.17g}", f"{value:.17e}", f"{value:.40f}"])
    figure = draw.choice(FORMATS[:5]).format(printed)
    before = draw.choice(
        ["", "INFO ", "[rank0]: ", "12:30:01 ", "10%|#  |", "acc=0.9, ", "lr 1e-3 ", "val_loss_ema=7 "]
    )
    after = draw.choice(["", " ", ", acc=0.97", " acc: 9,7", " in 12:30", " (1,234 rows)", " [3/12]", " it/s=1.5k"])
    line = f"{before}{figure}{after}"
    for at in sorted((draw.randrange(len(line) + 1) for _ in range(draw.randrange(3))), reverse=True):
        line = f"{line[:at]}{draw.choice(COLORS)}{line[at:]}"
    return draw.choice([line, f"{line}\r", f"50%|####   |\r{line}", f"\x1b[2K\r{line}"])


@pytest.mark.parametrize("seed", range(20))
def test_the_figures_that_are_read_are_those_that_were_written(seed: int) -> None:
    """For drawn lines, among others without the objective."""
    draw = random.Random(seed)
    written = [draw.choice([1, -1]) * draw.random() * 10 ** draw.randrange(-8, 8) for _ in range(50)]
    lines = []
    for value in written:
        lines += draw.choices(["loss of 3", "val_loss_best=0.1", "my-val_loss=3", "epoch one", ""], k=draw.randrange(3))
        lines.append(drawn_line(draw, value))
    assert values("\n".join(lines)) == written


@pytest.mark.parametrize("seed", range(20))
def test_a_figure_is_read_whole_or_not_at_all(seed: int) -> None:
    """For drawn texts of the characters of numbers: a reading is what Python makes of all up to a mark or space."""
    ended = re.compile(r"([0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?)\.*(?:[,:']+$|[,:']*(?: .*|[,:'][^0-9].*)?)")
    # `0.25,0.9` are two columns: no number has a comma before its point.
    column = re.compile(r"([0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?),[0-9].*")
    draw = random.Random(seed)
    for _ in range(500):
        text = draw.choice("0123456789") + "".join(draw.choices("0123456789.,_:'eExk/-+ ", k=draw.randrange(8)))
        (value,) = values(f"val_loss={text}")
        if not isinstance(value, str):
            match = ended.fullmatch(text) or column.fullmatch(text)
            assert match is not None
            assert value == float(match[1])
            assert not re.match(r"[0-9]{1,3} [0-9]{3}(?![0-9/:%])", text)
