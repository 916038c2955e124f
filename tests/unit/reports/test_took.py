"""The durations of earlier runs."""

import json
import math
from pathlib import Path
from typing import Any

from trainstack.reports.durations import MeasuredRun, read_measured_runs


def make_facts(**changes: Any) -> dict[str, Any]:
    """Return a record's run.json: 12 seconds, in the first attempt."""
    definition = {"workload": "digits", "command": ["train"], "args": ["--epochs=2"], "env": {"A": "b"}}
    facts = {"state": "succeeded", "attempts": 1, "definition": definition, "world_size": 3}
    times = {"started": "2026-11-21T12:11:55Z", "finished": "2026-11-21T12:12:07Z"}
    return {**facts, **times, **changes}


def write(folder: Path, facts: object) -> None:
    """Write a record into a folder."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(facts if isinstance(facts, str) else json.dumps(facts))


def test_a_record_has_the_duration_of_its_run(tmp_path: Path) -> None:
    """The definition of the run is included."""
    write(tmp_path / "digits-1", make_facts())
    expected = MeasuredRun(
        workload="digits", seconds=12.0, command=("train",), args=("--epochs=2",), env={"A": "b"}, world_size=3
    )
    assert read_measured_runs(tmp_path) == [expected]
    assert read_measured_runs(tmp_path / "nowhere") == []


def test_a_job_of_several_takes_from_the_first_start_to_the_last_end(tmp_path: Path) -> None:
    """It has a record for each completion."""
    write(tmp_path / "many-1" / "0", make_facts())
    write(tmp_path / "many-1" / "1", make_facts(started="2026-11-21T12:12:00Z", finished="2026-11-21T12:13:55Z"))
    assert [run.seconds for run in read_measured_runs(tmp_path)] == [120.0]


def test_an_incomplete_record_has_no_duration(tmp_path: Path) -> None:
    """The cases are a run that failed, was evicted or is running; invalid records; some records of a Job."""
    definition = make_facts()["definition"]
    for number, facts in enumerate(
        (
            make_facts(state="started"),
            make_facts(attempts=2),
            {"state": "succeeded"},
            make_facts(definition={key: definition[key] for key in definition if key != "args"}),
            make_facts(started="yesterday"),
            make_facts(started="2026-11-21T12:11:55"),
            make_facts(attempts="two"),
            make_facts(world_size=math.inf),
            make_facts(definition={**definition, "command": "train"}),
            make_facts(definition={**definition, "env": {"A": []}}),
            make_facts(definition=[]),
            "{",
            "[]",
            "[" * 200_000,
            "9" * 5000,
        )
    ):
        write(tmp_path / f"run-{number}", facts)
    write(tmp_path / "many-1" / "0", make_facts())
    write(tmp_path / "many-1" / "1", make_facts(state="started"))
    (tmp_path / "empty").mkdir()
    assert read_measured_runs(tmp_path) == []
