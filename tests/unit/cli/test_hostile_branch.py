"""Commands in a branch of an untrusted author change and print nothing outside of the project, and never wait."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.special_files import make_socket, make_sparse_file
from trainstack.cli.app import app
from trainstack.reports.durations import read_measured_runs
from trainstack.reports.errors import ReportError
from trainstack.reports.run_figures import run_from_record

SECRET = "hunter2-is-the-password"
PLATFORM = """\
config:
  trainstack:environment: {layers: [platform], existing: {storageClasses: [fast]}}
  trainstack:queues: {flavors: [{name: cpu}]}
"""
RUNS = """\
config:
  trainstack:workloads: {runs: [{name: hello}]}
  trainstack:sweeps: {sweeps: [{name: search, run: {from: hello}}]}
"""
SPACE = """\
method: random
trials: 3
seed: 5
parameters: {lr: {logUniform: {low: 0.0001, high: 0.1}}}
objective: {metric: val_accuracy, direction: maximize}
file: /work/hyperparams.yml
"""
WRITERS = {
    "sweeps/search/hyperparams.yml": ("sweep", "expand"),
    "sweeps/search/space.yaml": ("sweep", "next", "search", "--results", "results.json"),
    "rights/lab.yaml": ("rights", "-s", "lab"),
    "Pulumi.lab.yaml": ("add-team", "vision", "-s", "lab"),
    "Pulumi.vision.yaml": ("add-team", "vision", "-s", "lab"),
    ".github/workflows/trainstack.yml": ("init", "--upgrade"),
    ".trainstack/schema/environment.schema.json": ("init", "--upgrade"),
}
"""For each file of a project the command that writes it."""
READERS = {
    "Pulumi.lab.yaml": ("check", "-s", "lab"),
    "defaults.yaml": ("render", "-s", "lab"),
    "pins/lab.yaml": ("check", "-s", "lab"),
    "workloads/hello/workload.yaml": ("render", "-s", "runs"),
    "sweeps/search/space.yaml": ("sweep", "expand", "--check"),
    "sweeps/search/hyperparams.yml": ("check", "-s", "runs"),
}
STRANGE: dict[str, Callable[[Path], object]] = {
    "leads out of the project": lambda path: path.symlink_to("/etc/hostname"),
    "is a FIFO": os.mkfifo,
    "is a directory": Path.mkdir,
    "is a socket": make_socket,
    "is larger than": make_sparse_file,
}
"""What takes the place of a file, by the words of the error."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with a platform and a sweep, and make it the current folder."""
    root = tmp_path / "project"
    (root / "sweeps/search").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: platform\n")
    (root / "Pulumi.lab.yaml").write_text(PLATFORM)
    (root / "Pulumi.runs.yaml").write_text(RUNS)
    (root / "sweeps/search/space.yaml").write_text(SPACE)
    (root / "results.json").write_text('{"sweep": "search", "trials": []}')
    monkeypatch.chdir(root)
    return root


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    """End a test that waits for a FIFO's other end."""

    def interrupt(_: int, __: object) -> None:
        raise AssertionError("the command does not end")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def run(*words: str) -> Result:
    """Run a command with wide output."""
    return CliRunner().invoke(app, words, env={"COLUMNS": "500"})


def put(root: Path, name: str, make: Callable[[Path], object]) -> None:
    """Put something in the place of a file of the project."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)


def outside(tmp_path: Path) -> dict[str, str]:
    """Return the files outside of the project."""
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(tmp_path / "project")]
    return {str(path): path.read_text() for path in files}


@pytest.mark.parametrize("target", ["mine", "missing", "folder"])
@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_through_a_link_out_of_the_project(
    root: Path, tmp_path: Path, name: str, target: str
) -> None:
    """Whether the file exists or not, and whether the link is the file or one of its folders."""
    (tmp_path / "mine").write_text(f"config: {{password: {SECRET}}}\n")
    if target == "folder" and "/" in name:
        put(root, name, lambda path: path.write_text(f"config: {{password: {SECRET}}}\n"))
        (root / name).parent.rename(tmp_path / "moved")
        (root / name).parent.symlink_to(tmp_path / "moved")
    else:
        put(root, name, lambda path: path.symlink_to(tmp_path / ("missing" if target == "missing" else "mine")))
    before = outside(tmp_path)
    result = run(*WRITERS[name])
    assert result.exit_code == 1, result.output
    assert outside(tmp_path) == before
    assert SECRET not in result.output
    assert str(Path(name).parent) in result.stderr
    assert "leads out of the project" in result.stderr


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize(("name", "words"), [*WRITERS.items(), *READERS.items()])
def test_only_a_regular_file_is_read_or_written(root: Path, name: str, words: tuple[str, ...], what: str) -> None:
    """The command ends with one error that names the file."""
    put(root, name, STRANGE[what])
    before = sorted(path for path in root.rglob("*"))
    result = run(*words)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (1, 4), result.output
    assert name in result.output
    assert what in result.output
    assert before == sorted(path for path in root.rglob("*"))


@pytest.mark.parametrize("name", [".hyperparams.yml.partial", ".trainstack-a.tmp"])
def test_a_link_with_a_foreseeable_name_is_not_followed(root: Path, tmp_path: Path, name: str) -> None:
    """A file that is being written has a name that nobody knows before."""
    (tmp_path / "mine").write_text("mine")
    (root / "sweeps/search" / name).symlink_to(tmp_path / "mine")
    assert run("sweep", "expand").exit_code == 0
    assert (tmp_path / "mine").read_text() == "mine"
    assert (root / "sweeps/search" / name).is_symlink()


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("name", ["run.json", "0/run.json", "logs/rank-0.0.log", "result/metrics.jsonl"])
def test_a_record_in_the_branch_is_of_regular_files(root: Path, name: str, what: str) -> None:
    """`forecast` and `compare` read the records in `results/`."""
    record = root / "results/hello-0123456789"
    record.mkdir(parents=True)
    if name.count("/") != 1 or not name.startswith("0"):
        (record / "run.json").write_text("{}")
    put(root, f"results/hello-0123456789/{name}", STRANGE[what])
    assert read_measured_runs(root / "results") == []
    with contextlib.suppress(ReportError, OSError):
        run_from_record(record, record.name)


@pytest.mark.parametrize("place", ["reports", "reports/lab.json", "reports/lab.diff"])
def test_a_review_writes_its_reports_in_the_branch(root: Path, tmp_path: Path, place: str) -> None:
    """A report names what is wrong with the branch, whose author chose the links."""
    (tmp_path / "mine").mkdir() if place == "reports" else (tmp_path / "mine").write_text("mine")
    put(root, place, lambda path: path.symlink_to(tmp_path / "mine"))
    before = outside(tmp_path)
    result = run("review", "static", "--base", ".", "--head", ".", "--stack", "lab", "--reports", "reports")
    assert (result.exit_code, outside(tmp_path)) == (1, before), result.output
    assert "leads out of the project" in result.stderr


@pytest.mark.parametrize(
    ("make", "words"),
    [(os.mkfifo, "No such device or address"), (lambda path: path.symlink_to("../mine"), "leads out of the project")],
)
def test_an_output_in_the_branch_is_a_file_of_it(
    root: Path, tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    """The user names the file, and the branch may have something else in its place."""
    make(root / "chart.html")
    result = run("forecast", "-s", "lab", "--html", "chart.html")
    assert (result.exit_code, (tmp_path / "mine").exists()) == (1, False)
    assert words in result.stderr


@pytest.mark.parametrize("target", [".git/config", ".trainstack/backend/state.json", ".venv/lib/x.pth"])
def test_a_hidden_file_is_not_written_through_a_link(root: Path, target: str) -> None:
    """No commit contains these files, and some of them are executed."""
    put(root, target, lambda path: path.write_text("mine"))
    put(root, "rights/lab.yaml", lambda path: path.symlink_to(f"../{target}"))
    result = run("rights", "-s", "lab")
    assert (result.exit_code, (root / target).read_text()) == (1, "mine")
    assert "in a hidden folder" in result.stderr
