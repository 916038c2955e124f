"""The section `trainstack:sweeps`: a run with its workload file, a space and its sets; faults with file and line."""

from pathlib import Path
from textwrap import dedent, indent

import pytest

from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load, load_with_places
from trainstack.settings.loading.sweep_files import load_space
from trainstack.settings.search_space.hyperparams import format_sets, number_sets, space_digest

BASE = """
kind: Job
image: {name: "python:3.11"}
command: [python3, train.py]
args: [--epochs=1]
record: {volume: training}
"""
SPACE = """\
method: grid
parameters:
  batch_size: {values: [32, 64]}
objective: {metric: val_accuracy, direction: maximize}
args: ["--batch-size=${parameters.batch_size}"]
"""


def make_project(root: Path, sweeps: str, space: str = SPACE, *, expanded: bool = True) -> Path:
    """Write a project with the environment `test`, the workload `train` and the sweep `search`."""
    (root / "workloads/train").mkdir(parents=True)
    (root / "workloads/train/workload.yaml").write_text(BASE, encoding="utf-8")
    (root / "sweeps/search").mkdir(parents=True)
    (root / "sweeps/search/space.yaml").write_text(space, encoding="utf-8")
    if expanded:
        loaded = load_space(root, "search").space
        text = format_sets("search", loaded, number_sets([{"batch_size": 32}, {"batch_size": 64}]))
        (root / "sweeps/search/hyperparams.yml").write_text(text, encoding="utf-8")
    lines = "config:\n  trainstack:sweeps:\n    sweeps:\n" + indent(dedent(sweeps), "      ")
    (root / "Pulumi.test.yaml").write_text(lines, encoding="utf-8")
    return root


def faults(root: Path) -> list[str]:
    """Return the faults of the environment."""
    with pytest.raises(SettingsError) as error:
        load(root, "test")
    return [str(finding) for finding in error.value.findings]


def test_a_sweep_is_loaded_from_three_files(tmp_path: Path) -> None:
    """Its run overrides the workload's file and has the sweep's name; space and sets are in its folder."""
    root = make_project(tmp_path, "- {name: search, run: {from: train, namespace: a, queue: q, args: [--epochs=2]}}\n")
    loaded = load_with_places(root, "test")
    (sweep,) = loaded.settings.sweeps.sweeps
    assert sweep.run.model_dump(exclude_unset=True) == {
        "name": "search",
        "kind": "Job",
        "namespace": "a",
        "queue": "q",
        "image": {"name": "python:3.11"},
        "command": ("python3", "train.py"),
        "args": ("--epochs=2",),
        "record": {"volume": "training"},
    }
    assert (sweep.form, sweep.parallelism) == ("jobs", None)
    assert sweep.space == load_space(root, "search").space
    assert sweep.expansion is not None
    assert sweep.expansion.space == space_digest(sweep.space)
    assert [(item.number, item.parameters) for item in sweep.expansion.sets] == [
        (1, {"batch_size": 32}),
        (2, {"batch_size": 64}),
    ]
    assert sweep.sets_text == (root / "sweeps/search/hyperparams.yml").read_text(encoding="utf-8")
    assert str(loaded.place_of("sweeps.sweeps[search].run.queue")) == "Pulumi.test.yaml:4"
    assert str(loaded.place_of("sweeps.sweeps[search].run.kind")) == "workloads/train/workload.yaml:2"
    assert [(path, run.name) for path, run in loaded.settings.runs_and_trials()] == [
        ("sweeps.sweeps[search].run", "search")
    ]


def test_a_sweep_that_is_not_expanded_loads(tmp_path: Path) -> None:
    """The preflight reports it; commands that need no sets work."""
    root = make_project(tmp_path, "- {name: search, run: {from: train, namespace: a}}\n", expanded=False)
    (sweep,) = load(root, "test").sweeps.sweeps
    assert (sweep.expansion, sweep.sets_text) == (None, "")


def test_faults_of_all_files_are_reported_together(tmp_path: Path) -> None:
    """They are in the environment, in the space, and in the sets."""
    root = make_project(tmp_path, "- {name: search, form: index, run: {from: train}}\n")
    file = root / "sweeps/search/space.yaml"
    file.write_text(SPACE.replace("maximize", "up"), encoding="utf-8")
    (root / "sweeps/search/hyperparams.yml").write_text("- 1\n", encoding="utf-8")
    assert faults(root) == [
        ('Pulumi.test.yaml:4: sweeps.sweeps[search].form: is not supported (value "index"); write jobs or indexed'),
        "Pulumi.test.yaml:4: sweeps.sweeps[search].run.namespace: is missing; add `namespace:`",
        (
            "sweeps/search/hyperparams.yml:1: was not written by `trainstack sweep expand`; generate it with "
            "`trainstack sweep expand search`"
        ),
        ('sweeps/search/space.yaml:4: objective.direction: is not supported (value "up"); write minimize or maximize'),
    ]


SWEEP = "Pulumi.test.yaml:4: sweeps.sweeps[search]"
INDEXED = "name: search, form: indexed, parallelism: 2, run: {from: train, namespace: a"
REFUSED = {
    "name: other, run: {from: train, namespace: a}": (
        "Pulumi.test.yaml:4: sweeps/other/space.yaml does not exist; create it, or use an existing sweep: valid names: "
        "search"
    ),
    "name: search, run: {from: trian, namespace: a}": (
        f"{SWEEP}.run.from: is not a folder with a workload.yaml (value trian); did you mean train?"
    ),
    "name: search, run: {namespace: a}": (
        f"{SWEEP}.run: is incomplete, and there is no workloads/search/workload.yaml with the missing values; "
        "valid names: train (set it with `from:`)"
    ),
    "name: search, run: {from: train, namespace: a, name: b}": (
        f"{SWEEP}.run: unknown key name; leave it out: the run has the sweep's name"
    ),
    "name: search, space: {seed: 1}, run: {from: train, namespace: a}": (
        f"{SWEEP}: unknown key space; set it in sweeps/search/space.yaml, for all environments"
    ),
    "name: search, from: train, run: {from: train, namespace: a}": f"{SWEEP}: unknown key from; did you mean form?",
    f"{INDEXED}, restartPolicy: OnFailure}}": (
        f"{SWEEP}: form indexed retries in new pods (counted by backoffLimit); leave out run.restartPolicy"
    ),
    "name: search, form: indexed, run: {from: train, namespace: a}": (
        f"{SWEEP}: form indexed requires the size of its gang; set parallelism"
    ),
    f"{INDEXED}, kind: Pod}}": (
        f"{SWEEP}: form indexed requires kind Job (got Pod); set run.kind to Job, or form to jobs"
    ),
    f"{INDEXED}, managed: false}}": (
        f"{SWEEP}: form indexed requires the wrapper, which assigns the sets; "
        "leave out run.managed, or set form to jobs"
    ),
    f"{INDEXED}, completions: 3}}": (
        f"{SWEEP}: form indexed has one index for each trial; leave out run.completions and run.parallelism"
    ),
    "name: search, maxFailedIndexes: 2, run: {from: train, namespace: a}": (
        f"{SWEEP}: maxFailedIndexes requires form indexed; leave it out, or set form to indexed"
    ),
    "name: search, maxGpuHours: 2, run: {from: train, namespace: a}": (
        f"{SWEEP}: maxGpuHours requires a deadline for trials; set run.activeDeadlineSeconds"
    ),
    "name: search, run: {from: train, namespace: a, kind: Job, completions: 2}": (
        f"{SWEEP}: a trial is one run with one record; leave out run.completions, or set run.managed to false"
    ),
    (
        "name: search, run: {from: train, namespace: a, kind: TrainJob, managed: false, record: null, volumes: [], "
        "roles: {Master: {}}, runtime: torch}"
    ): (f"{SWEEP}: the pods of a trial have labels and files that a runtime does not set; leave out run.runtime"),
    "name: search, run: {from: train, namespace: a, kind: Pod, managed: false}": (
        f"{SWEEP}: a trial must end, but this Pod is always restarted; set run.restartPolicy to Never or OnFailure"
    ),
    f"{INDEXED}, naming: fixed}}": (
        f"{SWEEP}: form indexed creates several Jobs, which cannot share a fixed name; leave out run.naming"
    ),
}


@pytest.mark.parametrize("sweep", REFUSED)
def test_an_invalid_sweep_is_refused(tmp_path: Path, sweep: str) -> None:
    """The fault has the line and the remedy."""
    assert faults(make_project(tmp_path, f"- {{{sweep}}}\n")) == [REFUSED[sweep]]


def test_a_target_requires_one_job(tmp_path: Path) -> None:
    """If each trial has its own Job, it cannot stop the others. Trials that miss the target are failed indexes."""
    space = SPACE.replace("maximize}", "maximize, target: 0.9}")
    jobs = make_project(tmp_path / "jobs", "- {name: search, run: {from: train, namespace: a}}\n", space)
    assert faults(jobs) == [
        (
            "Pulumi.test.yaml:4: sweeps.sweeps[search]: objective.target requires form indexed, which stops "
            "other trials; leave it out, or set form to indexed"
        )
    ]
    line = "- {name: search, form: indexed, parallelism: 1, maxFailedIndexes: 1, run: {from: train, namespace: a}}\n"
    assert faults(make_project(tmp_path / "indexed", line, space)) == [
        (f"{SWEEP}: trials that do not reach objective.target count as failed indexes; leave out maxFailedIndexes")
    ]
