"""The training program in its image, which `trainstack cluster load` builds: three ranks with gloo.

In every run of `make test`, three ranks learn the digits in tests/cluster/test_dev.py, which also evaluates the model,
and a run resumes in tests/cluster/test_runs.py.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.image_runs import run_in_image
from trainstack.local_cluster.images import workload
from workloads.digits.prepare import write_dataset

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PROGRAM = Path(__file__).parents[2] / "workloads" / "digits"
SCENARIOS = Path(__file__).parent


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the output of digits_scenarios.py, run in the image as the image's user."""
    folder = tmp_path_factory.mktemp("digits")
    write_dataset(folder / "data")
    scratch = folder / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)  # The image's user is another one.
    done = run_in_image(
        workload(PROGRAM).image,
        ["python3", "/scenarios/digits_scenarios.py", "/opt/digits", "/data", "/scratch"],
        {SCENARIOS: "/scenarios", folder / "data": "/data", scratch: "/scratch"},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def without_times(metrics: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return metrics without the seconds, which may differ between equal runs."""
    return [{key: value for key, value in line.items() if key != "seconds"} for line in metrics]


def test_three_ranks_learn_the_digits(outcome: dict[str, Any]) -> None:
    """The accuracy on held-out images is at least 0.97; the metrics have a line per epoch and one for the test."""
    whole = outcome["whole"]
    assert whole["codes"] == [0, 0, 0], whole["logs"]
    assert whole["files"] == ["metrics.jsonl", "model.pt"]
    assert [line["epoch"] for line in whole["metrics"]] == [*range(1, 13), 12]
    assert whole["metrics"][-1]["test_accuracy"] >= 0.97
    for rank, log in enumerate(whole["logs"]):
        assert f"world size 3 rank {rank} backend gloo device cpu\n" in log
        assert "epoch 3/12 step 14/14 loss " in log
    assert len(outcome["summaries"]) == 1


def test_the_saved_model_has_the_same_accuracy(outcome: dict[str, Any]) -> None:
    """evaluate.py splits the data by the model's seed, in one process."""
    assert outcome["evaluated"]["test_accuracy"] == outcome["whole"]["metrics"][-1]["test_accuracy"]
    assert outcome["evaluated"]["test_loss"] == pytest.approx(outcome["whole"]["metrics"][-1]["test_loss"])


def test_a_resumed_run_has_the_same_result(outcome: dict[str, Any]) -> None:
    """SIGTERM to one worker ends all ranks with 143 after the same step; after a restart, all metrics are equal."""
    stopped, resumed, finished = outcome["stopped"], outcome["resumed"], outcome["finished"]
    assert stopped["codes"] == [143, 143, 143], stopped["logs"]
    # The signal is sent at the second step of epoch 4; the step of its arrival depends on timing.
    places = [re.search(r"stopped by SIGTERM in epoch (\d+) after step (\d+)", log) for log in stopped["logs"]]
    assert len({place and place.groups() for place in places}) == 1
    assert places[0] is not None, stopped["logs"]
    epoch, step = (int(number) for number in places[0].groups())
    assert epoch < 12
    assert [line["epoch"] for line in stopped["metrics"]] == list(range(1, epoch))
    assert f"resumed after epoch {epoch - 1} step {step}\n" in resumed["logs"][0]
    assert without_times(resumed["metrics"]) == without_times(outcome["whole"]["metrics"])
    assert without_times(finished["metrics"]) == without_times(outcome["whole"]["metrics"])
    assert "step" not in finished["logs"][0].partition("images train")[2]


def test_a_checkpoint_of_another_seed_is_refused(outcome: dict[str, Any]) -> None:
    """All ranks exit with the same message; none hangs."""
    assert outcome["other_seed"]["codes"] == [2, 2, 2]
    assert all("is of a different run: seed is 2, was 1" in log for log in outcome["other_seed"]["logs"])


def test_one_process_without_ranks_is_deterministic(outcome: dict[str, Any]) -> None:
    """Equal seed and world size give equal metrics."""
    assert without_times(outcome["alone"]["metrics"]) == without_times(outcome["again"]["metrics"])


def test_missing_data_and_a_missing_gpu_are_reported(outcome: dict[str, Any]) -> None:
    """Every rank reports them, with the remedy."""
    assert outcome["no_data"]["codes"] == [2, 2]
    assert all("load the data first or correct --data" in log for log in outcome["no_data"]["logs"])
    assert outcome["no_gpu"]["codes"] == [2]
    assert "--backend nccl needs CUDA" in outcome["no_gpu"]["logs"][0]
