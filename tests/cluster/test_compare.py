"""The comparison of a baseline with distributed runs, from records and from pod logs.

In `make test`, tests/cluster/test_systems.py compares pod logs on a cluster; only the unit tests compare records.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.lab import MOUNT, NAMESPACE, Config, launch, run_id, team_config, unmanaged_run
from tests.cluster.project import Project

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

EPOCHS = 6
STEPS_ALONE = 63
"""The steps per epoch of one process: 1,259 training images in batches of 20; a third of them takes 21 steps."""
DATA = "data/digits"
PROGRAM = ["python3", "/opt/digits/train.py"]
WITH_DATA = f'[ "$RANK" != 0 ] || until [ -e {MOUNT}/{DATA}/manifest.json ]; do sleep 0.2; done; exec "$@"'
"""An unmanaged run does not wait for data. The managed runs have it loaded; its manifest is written last."""
ARGS = ["--backend=gloo", "--no-cuda", f"--epochs={EPOCHS}", "--batch-size=20", "--lr=0.04", "--momentum=0.9"]
VOLUME = {"volume": "lab", "mountPath": MOUNT}


def digits(name: str, kind: str, **changes: Any) -> Config:
    """Return a run of the digits training; of several replicas, only the master has the volume."""
    if kind == "PyTorchJob":
        changes |= {"volumes": [], "roles": {"Master": {"volumes": [VOLUME]}, "Worker": {"replicas": 2}}}
        # Only the pods have the workers' logs.
        changes |= {"cleanPodPolicy": "None"}
    return unmanaged_run(
        name,
        kind,
        image={"build": "workloads/digits"},
        command=changes.pop("command", PROGRAM),
        args=[*ARGS, f"--data={MOUNT}/{DATA}", f"--output={changes.pop('output')}"],
        resources={"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        **changes,
    )


def recorded(name: str, kind: str) -> Config:
    """Return a managed run, which waits for its data and has a fixed seed."""
    data = {"manifest": "workloads/digits/data.json", "volume": "lab", "path": DATA}
    return digits(
        name,
        kind,
        managed=True,
        record={"volume": "lab"},
        data={**data, "prepare": "workloads.digits.prepare"},
        seed=1,
        output="$TRAINSTACK_OUTPUT",
    )


@pytest.fixture(scope="module")
def team(lab: Project) -> Iterator[Project]:
    """Yield finished runs of the same training: one process, three replicas, and three replicas unmanaged."""
    verbatim = digits("verbatim", "PyTorchJob", output="/tmp/output", command=["sh", "-c", WITH_DATA, "sh", *PROGRAM])
    runs = [recorded("alone", "Job"), recorded("together", "PyTorchJob"), verbatim]
    project = lab.other_stack("compare", team_config(lab.stack, *runs))
    try:
        done = project.trainstack("up", "--yes", seconds=180)
        assert done.code == 0, done.text
        yield project
    finally:
        project.take_down()


def test_three_replicas_take_a_third_of_the_steps_with_equal_accuracy(team: Project, tmp_path: Path) -> None:
    """Records and live logs give the same: a third of the steps per replica, accuracy within 0.02, and valid files."""
    files = tmp_path / "compare.png", tmp_path / "compare.html"
    words = ["alone", "together", "verbatim", "--png", str(files[0]), "--html", str(files[1])]
    done = team.trainstack("compare", *words, "--json")
    assert done.code == 0, done.text
    comparison = json.loads(done.out)
    alone, together, verbatim = comparison["runs"]
    assert [run["run"] for run in comparison["runs"]] == [
        run_id(launch(team, name)) for name in ("alone", "together", "verbatim")
    ]
    assert comparison["baseline"] == alone["run"]
    assert [run["source"] for run in comparison["runs"]] == ["record", "record", "logs"]
    assert [run["world_size"] for run in comparison["runs"]] == [1, 3, 3]
    assert [run["epochs"] for run in comparison["runs"]] == [EPOCHS] * 3
    assert alone["steps"] == {"0": EPOCHS * STEPS_ALONE}
    for distributed in (together, verbatim):
        assert distributed["steps"] == dict.fromkeys("012", EPOCHS * STEPS_ALONE // 3)
        assert distributed["test_accuracy"] == pytest.approx(alone["test_accuracy"], abs=0.02)
        assert distributed["seconds_per_epoch"] > 0
        assert distributed["speed_up"] == pytest.approx(alone["seconds_per_epoch"] / distributed["seconds_per_epoch"])
    # Program, data, seed and number of replicas are equal, so record and log must agree.
    assert verbatim["test_accuracy"] == pytest.approx(together["test_accuracy"], abs=1e-4)
    assert files[0].read_bytes().startswith(b"\x89PNG")
    page = files[1].read_text()
    assert all(run["run"] in page for run in comparison["runs"])
    assert re.findall(r'(?:src|href)="(?!#)[^"]*|url\((?!#)[^)]*|@import|<script', page) == []


def test_a_run_without_pods_is_compared_by_its_record(team: Project) -> None:
    """Recorded runs can be compared; for the unmanaged one, the message has the reason and the remedy."""
    words = "-n", NAMESPACE, "-l", "trainstack.dev/stack=compare"
    runs = [run_id(launch(team, name)) for name in ("alone", "together", "verbatim")]
    assert team.kubectl("delete", "jobs,pytorchjobs", *words).code == 0
    done = team.trainstack("compare", runs[0], runs[1])
    assert done.code == 0, done.text
    assert "3.0" in done.out
    done = team.trainstack("compare", runs[0], runs[2])
    assert done.code == 1
    assert "Traceback" not in done.text
    assert "no record" in done.text
