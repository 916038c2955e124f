"""The metrics of a trial are read from its program's output."""

import math
import time
from typing import Any

import pytest

from tests.unit.reports.make import make_classic, make_log
from trainstack.runs.logs.metrics_collector import collect_metrics
from trainstack.settings.search_space.space import Objective
from trainstack.settings.values.metrics_format import MAX_CHARACTERS, expression_fault

PRINTS = "batch size 32\nepoch one\nvalidation accuracy: 0.91\nvalidation accuracy: 0.93\n"


def make_objective(metric: str = "accuracy", **changes: Any) -> Objective:
    """Return an objective whose best value is the greatest."""
    return Objective(metric=metric, direction="maximize", **changes)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("accuracy=0.9666", [0.9666]),
        ("2026-01-02T03:04:05Z INFO accuracy = 9.7e-1, loss=0.1", [0.97]),
        ("accuracy: 97.5%", [97.5]),
        ("now accuracy=0.1 accuracy=0.2", [0.1, 0.2]),
        ("accuracy=nan", [math.nan]),
        ("val_accuracy=0.5", []),
        ("accuracy of 0.5", []),
        ("accuracy=high", []),
        ("10%|#   |\raccuracy=0.5\r", [0.5]),
    ],
)
def test_a_metric_is_found_by_its_name(line: str, values: list[float]) -> None:
    """The line has Katib's default format, or a colon."""
    found = [metrics["accuracy"] for metrics in collect_metrics(f"first\n{line}\nlast", make_objective())]
    assert found == pytest.approx(values, nan_ok=True)


def test_known_formats_have_precedence_over_the_default() -> None:
    """The training output of PyTorch's examples does not count as the evaluation."""
    assert [metrics["accuracy"] for metrics in collect_metrics(make_classic(), make_objective())] == [0.96, 0.97]
    recent = collect_metrics(make_log(), make_objective("val_accuracy"))[:2]
    assert [metrics["val_accuracy"] for metrics in recent] == [0.91, 0.92]
    kubeflow = "Train Epoch: 1 [640/60000 (1%)]\tloss=2.2135\n\naccuracy=0.9666\n"
    assert collect_metrics(kubeflow, make_objective("loss")) == (
        {"epoch": 1, "train_loss": 2.2135, "accuracy": 0.9666},
    )


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("epoch 1/10 loss=0.5 acc=0.91", [0.91]),
        ("epoch 1/10 step 1/2 acc=0.91", [0.91]),
        ("epoch 1/10 done train_loss=0.5 acc: 0.91", [0.91]),
        ("epoch 1/10 done acc 0.91", [0.91]),
        ("Train Epoch: 1 [640/60000 (1%)]\tloss=2.2135 acc=0.91", []),
    ],
)
def test_a_line_that_numbers_its_epoch_may_have_the_metric_in_the_default_format(
    line: str, values: list[float]
) -> None:
    """The progress lines of PyTorch's examples within an epoch are not read twice."""
    metrics = collect_metrics(line, make_objective("acc"))
    assert [metric["acc"] for metric in metrics if "acc" in metric] == values
    assert all(metric.keys() <= {"epoch", "acc", "train_loss"} for metric in metrics)


def test_numbers_of_any_length_cause_no_error() -> None:
    """Python refuses to parse more than 4,300 digits."""
    digits = "9" * 5_000
    lines = [f"epoch {digits}/3", f"world size {digits}", f"Train Epoch: {digits} [1/{digits} (1%)] Loss: 1", digits]
    assert collect_metrics("\n".join(lines), make_objective()) == ()


def test_a_custom_format_replaces_all_others() -> None:
    """The epoch is in the match or in the lines before it."""
    objective = make_objective(metrics_format=r"accuracy: (?P<value>\S+)")
    assert collect_metrics(PRINTS, objective) == ({"accuracy": 0.91}, {"accuracy": 0.93})
    text = "Train Epoch: 3 [0/60000 (0%)]\tLoss: 0.5\nscore 7\naccuracy=0.5"
    assert collect_metrics(text, make_objective(metrics_format=r"score (?P<value>\d+)")) == (
        {"epoch": 3, "accuracy": 7},
    )
    named = make_objective(metrics_format=r"^(?P<epoch>\d+) done (?P<value>\S+)$")
    assert collect_metrics("4 done 0.25\n5 done 0.5", named) == (
        {"epoch": 4, "accuracy": 0.25},
        {"epoch": 5, "accuracy": 0.5},
    )
    assert collect_metrics("accuracy=0.5", make_objective(metrics_format="never (?P<value>.)")) == ()


@pytest.mark.parametrize("expression", ["(?P<value>(a+)+$)", "(?P<value>(a|aa)+$)", "(?P<value>(.*a){20}$)"])
def test_no_expression_takes_long(expression: str) -> None:
    """These expressions take exponential time in a backtracking engine."""
    assert expression_fault(expression) == ""
    start = time.process_time()
    collect_metrics(f"{'a' * 10_000}b\n" * 10, make_objective(metrics_format=expression))
    assert time.process_time() - start < 10


def test_an_expression_has_a_limit() -> None:
    """The limit applies before the compilation."""
    assert (
        expression_fault("(?P<value>" + "a" * MAX_CHARACTERS) == f"has {MAX_CHARACTERS + 10} characters, more than 1000"
    )
