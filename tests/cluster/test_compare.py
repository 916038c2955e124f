"""The comparison of a baseline with distributed runs, from their records and from their pods' logs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.lab import MOUNT, NAMESPACE, Config, bare, launch, run_id, team_config
from tests.cluster.project import Project

pytestmark = pytest.mark.cluster

EPOCHS = 6
STEPS_ALONE = 63
"""In each epoch: 1,259 training images in batches of 20; a third of them gives 21 steps."""
DATA = "data/digits"
PROGRAM = ["python3", "/opt/digits/train.py"]
WITH_DATA = f'[ "$RANK" != 0 ] || until [ -e {MOUNT}/{DATA}/manifest.json ]; do sleep 0.2; done; exec "$@"'
"""Unmanaged, a run does not wait for data by itself; it is brought for the managed ones, its manifest last."""
ARGS = ["--backend=gloo", "--no-cuda", f"--epochs={EPOCHS}", "--batch-size=20", "--lr=0.04", "--momentum=0.9"]
VOLUME = {"volume": "lab", "mountPath": MOUNT}


def digits(name: str, kind: str, **changes: Any) -> Config:
    """A run of the digits training; of several replicas the master alone has the volume."""
    if kind == "PyTorchJob":
        changes |= {"volumes": [], "roles": {"Master": {"volumes": [VOLUME]}, "Worker": {"replicas": 2}}}
        # Their pods alone have the workers' logs.
        changes |= {"cleanPodPolicy": "None"}
    return bare(
        name,
        kind,
        image={"build": "workloads/digits"},
        command=changes.pop("command", PROGRAM),
        args=[*ARGS, f"--data={MOUNT}/{DATA}", f"--output={changes.pop('output')}"],
        resources={"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        **changes,
    )


def recorded(name: str, kind: str) -> Config:
    """A managed one: its data is waited for and its seed known."""
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
    """The same training alone, by three replicas, and by three replicas verbatim; all have ended."""
    verbatim = digits("verbatim", "PyTorchJob", output="/tmp/output", command=["sh", "-c", WITH_DATA, "sh", *PROGRAM])
    runs = [recorded("alone", "Job"), recorded("together", "PyTorchJob"), verbatim]
    project = lab.other("compare", team_config(lab.stack, *runs))
    try:
        done = project.trainstack("up", "--yes", seconds=180)
        assert done.code == 0, done.text
        yield project
    finally:
        project.take_down()


def test_three_replicas_take_a_third_of_the_steps_each_and_learn_as_well(team: Project, tmp_path: Path) -> None:
    """By record and by live logs: 3 : 1 on each replica, accuracy within 0.02; picture and page are whole."""
    files = tmp_path / "compare.png", tmp_path / "compare.html"
    words = ["alone", "together", "verbatim", "--png", str(files[0]), "--html", str(files[1])]
    done = team.trainstack("compare", *words, "--json")
    assert done.code == 0, done.text
    told = json.loads(done.out)
    alone, together, verbatim = told["runs"]
    assert [each["run"] for each in told["runs"]] == [
        run_id(launch(team, name)) for name in ("alone", "together", "verbatim")
    ]
    assert told["baseline"] == alone["run"]
    assert [each["source"] for each in told["runs"]] == ["record", "record", "logs"]
    assert [each["world_size"] for each in told["runs"]] == [1, 3, 3]
    assert [each["epochs"] for each in told["runs"]] == [EPOCHS] * 3
    assert alone["steps"] == {"0": EPOCHS * STEPS_ALONE}
    for each in (together, verbatim):
        assert each["steps"] == dict.fromkeys("012", EPOCHS * STEPS_ALONE // 3)
        assert each["test_accuracy"] == pytest.approx(alone["test_accuracy"], abs=0.02)
        assert each["seconds_per_epoch"] > 0
        assert each["speed_up"] == pytest.approx(alone["seconds_per_epoch"] / each["seconds_per_epoch"])
    # The same program, data, seed and number of replicas: the record and the log tell the same.
    assert verbatim["test_accuracy"] == pytest.approx(together["test_accuracy"], abs=1e-4)
    assert files[0].read_bytes().startswith(b"\x89PNG")
    page = files[1].read_text()
    assert all(each["run"] in page for each in told["runs"])
    assert re.findall(r'(?:src|href)="(?!#)[^"]*|url\((?!#)[^)]*|@import|<script', page) == []


def test_a_run_whose_pods_are_gone_is_compared_by_its_record(team: Project) -> None:
    """The recorded ones still are; the verbatim one has left nothing, and the message says what would have."""
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
