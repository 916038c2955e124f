"""The comparison of runs."""

import json
import math
from typing import Any

import pytest

from tests.unit.reports.make import make_run
from trainstack.reports.comparison import compare
from trainstack.reports.comparison_table import as_json, table_rows
from trainstack.reports.run_figures import Definition, RunFigures
from trainstack.runs.logs.training_log import Epoch, TrainingLog

ALONE = make_run("alone", steps=24, seconds=0.6)
TOGETHER = make_run("together", world=3, steps=8, seconds=0.25, test_accuracy=0.98)


def test_three_replicas_against_one() -> None:
    """One replica takes 48 steps, each of three takes 16; the time of an epoch decides the speed-up."""
    compared = compare([ALONE, TOGETHER])
    assert table_rows(compared) == [
        ("alone-0123456789", "1", "2", "48", "0.6", "baseline", "0.9900", "0.0500"),
        ("together-0123456789", "3", "2", "16", "0.25", "2.40", "0.9800", "0.0500"),
    ]
    (sentence,) = compared.sentences()
    assert sentence == (
        "together, 3 replicas: 16 steps each against 48 (1 : 3.0); an epoch in 0.25 s against 0.6 s (2.40 times as "
        "fast); accuracy 0.9800 against 0.9900 (the same within 0.02)."
    )
    assert (compared.warnings, compared.notes) == ((), ())


def test_a_program_gets_the_same_figures() -> None:
    """The JSON is valid for every parser: unknown and infinite numbers are null."""
    diverged = make_run("diverged", world=2, seconds=None, test_loss=math.nan, logs={0: TrainingLog(epochs={})})
    output = json.loads(json.dumps(as_json(compare([ALONE, diverged])), allow_nan=False))
    assert output["baseline"] == "alone-0123456789"
    assert output["runs"][1] == {
        "run": "diverged-0123456789",
        "source": "record",
        "finished": True,
        "world_size": 2,
        "epochs": 2,
        "steps": {"0": None, "1": None},
        "steps_counted": "steps",
        "steps_ratio": None,
        "seconds_per_epoch": None,
        "speed_up": None,
        "test_accuracy": 0.99,
        "accuracy": 0.99,
        "accuracy_difference": 0.0,
        "loss": None,
    }


def test_the_slowest_single_run_is_the_baseline() -> None:
    """Its position does not matter; without a single run the first run is the baseline."""
    faster = make_run("faster", seconds=0.3)
    assert compare([TOGETHER, faster, ALONE]).baseline.run is ALONE
    assert compare([TOGETHER, make_run("pair", world=2)]).baseline.run is TOGETHER


def test_runs_of_one_workload_are_distinguished_by_id() -> None:
    """A run that is the only one of its workload has the name of the workload."""
    runs = [make_run("digits"), make_run("digits", run_id="digits-abcdef0123"), TOGETHER]
    assert [row.name for row in compare(runs).rows] == ["digits-0123456789", "digits-abcdef0123", "together"]


def test_of_many_runs_the_best_ones_are_described() -> None:
    """The table has the others. Unknown and infinite figures are not the best."""
    runs = [make_run(f"run-{number}", seconds=10.0 - number, test_accuracy=0.9 + number / 100) for number in range(4)]
    runs += [make_run("diverged", seconds=20.0, test_accuracy=math.inf), make_run("unknown", seconds=None)]
    assert compare(runs).sentences() == [
        "The baseline is diverged.",
        "Shortest epoch: run-3, 7 s, 2.86 times as fast as the baseline.",
        "Highest accuracy: unknown, 0.9900.",
    ]


def test_accuracies_differ_as_decimals_do() -> None:
    """0.98 is 0.02 more than 0.96, though not in binary."""
    other = make_run("together", world=3, steps=8, test_accuracy=0.98)
    (sentence,) = compare([make_run("alone", test_accuracy=0.96), other]).sentences()
    assert "accuracy 0.9800 against 0.9600 (the same within 0.02)" in sentence


def test_accuracies_that_differ_are_reported() -> None:
    """The threshold is one of 50 images."""
    worse = make_run("together", world=3, steps=8, test_accuracy=0.9)
    assert "accuracy 0.9000 against 0.9900 (differs by more than 0.02)" in compare([ALONE, worse]).sentences()[0]


def definition(**changes: Any) -> Definition:
    """Return the definition of ALONE with these changes."""
    values: dict[str, Any] = {"image": "digits:1", "args": ("--epochs=2",), "seed": 1, "data": "0465864d278d"}
    return Definition(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"definition": definition(data="99ff")}, "read different data (0465864d278d… and 99ff…)"),
        ({"definition": definition(seed=2)}, "have different seeds (1 and 2)"),
        ({"definition": definition(revision="3f78")}, "ran different code (revisions none and 3f78)"),
        ({"definition": definition(image="digits:2")}, "ran different images (digits:1 and digits:2)"),
        (
            {"definition": definition(args=("--epochs=2", "--lr=1", "--data=/elsewhere"))},
            "ran with different arguments: none against --lr=1",
        ),
        ({"epochs": {1: Epoch(steps=8)}}, "trained 2 and 1 epochs: steps, accuracy and loss are not comparable"),
        ({"finished": False}, "together has not succeeded, so its figures are incomplete"),
        (
            {"logs": {0: TrainingLog(epochs={1: Epoch(steps=8)}, counted="progress lines")}},
            "alone counts steps, together counts progress lines",
        ),
    ],
)
def test_what_makes_runs_incomparable_is_a_warning(changes: dict[str, Any], warning: str) -> None:
    """Each warning is a sentence that occurs once; the figures are shown nevertheless."""
    (sentences,) = compare([ALONE, make_run("together", world=1, seconds=0.1, **changes)]).warnings
    assert warning in sentences


def test_progress_lines_compare_where_they_cover_as_many_images() -> None:
    """Another batch size or log interval makes the counts incomparable."""

    def classic(name: str, every: int, world: int = 1) -> RunFigures:
        log = TrainingLog(
            epochs={1: Epoch(steps=8), 2: Epoch(steps=8)}, counted="progress lines", images_per_line=every
        )
        return make_run(name, world=world, logs=dict.fromkeys(range(world), log))

    same = compare([classic("alone", 640), classic("together", 640, 3)])
    assert (same.warnings, same.rows[1].steps_ratio) == ((), 1.0)
    (sentences,) = compare([classic("alone", 640), classic("together", 320, 3)]).warnings
    assert "a progress line every 640 and 320 images" in sentences


def test_steps_that_are_counted_otherwise_have_no_ratio() -> None:
    """A step is not a progress line."""
    lines = {0: TrainingLog(epochs={1: Epoch(steps=8)}, counted="progress lines")}
    assert compare([ALONE, make_run("other", seconds=0.1, logs=lines)]).rows[1].steps_ratio is None


def test_what_is_not_known_is_explained() -> None:
    """Each gap has its reason."""
    epochs = {1: Epoch()}
    gaps = make_run(
        "gaps",
        world=5,
        epochs=epochs,
        logs={1: TrainingLog(epochs=epochs)},
        source="logs",
        definition=None,
        test_loss=None,
        test_accuracy=None,
        notes=("a word",),
    )
    assert [note.partition(":")[0] for note in compare([gaps]).notes] == [
        "gaps",
        "gaps has no record, so its data and seed are unknown",
        *["gaps"] * 4,
    ]
    explanations = "\n".join(compare([gaps]).notes)
    assert "gaps: a word" in explanations
    assert "no log of rank 0, 2-4" in explanations
    assert "the log of rank 1 has no steps" in explanations
    assert "no accuracy" in explanations
    assert "the time per epoch is unknown" in explanations
    assert table_rows(compare([gaps])) == [("gaps-0123456789", "5", "1", "-", "-", "baseline", "-", "-")]
