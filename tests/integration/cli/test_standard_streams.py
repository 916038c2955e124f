"""A command whose output cannot be written ends with a documented code and one line, never with a traceback."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.test_nonsense import LEAVES, USUAL

ROOT = Path(__file__).resolve().parents[3]
Result = tuple[int, str, str]

FULL = "error: standard output: No space left on device; free space on its file system, then run the command again\n"
NAMED = re.compile(r"^error: .*[\w/.-]+: File too large; \w.* the command again$", re.MULTILINE)
CLOSED = "error: standard output is closed; redirect it to a file, a pipe or /dev/null\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a project without a cluster and without an engine."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml", "defaults.yaml"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("workloads/digits", "trainstack/runs/wrapper", "sweeps/digits-search"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def results(project: Path, cases: list[tuple[list[str], str, str]], *options: str) -> list[Result]:
    """Run the cases in one process."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "KUBECONFIG": str(project / "kubeconfig")}
    variables |= {"TRAINSTACK_STACK": "dev", "GITHUB_OUTPUT": str(project / "output")}
    command = [sys.executable, "-m", "tests.integration.cli.forked", *options]
    done = subprocess.run(
        command, cwd=project, env=variables, input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    return [tuple(result) for result in json.loads(done.stdout)]


def usual_calls() -> list[list[str]]:
    """Return a call of each command that changes no file of the project.

    The commands of `dev` would write to this checkout, and `init` to the project.
    """
    calls = []
    for words, command in sorted(LEAVES.items()):
        arguments = [USUAL.get(param.metavar, "x") for param in command.params if param.param_type_name == "argument"]
        dry_run = ["--dry-run"] if any(param.name == "dry_run" for param in command.params) else []
        if words[0] not in ("dev", "init"):
            calls.append([*words, *arguments, *dry_run])
    review = ["--base", ".", "--head", "."]
    return [*calls, ["review", "environments", *review], ["--version"], ["render", "--without-releases"], ["nonsense"]]


def helps() -> list[list[str]]:
    """Return the help of each command and group."""
    return [[*words, "--help"] for words in sorted({words[:depth] for words in LEAVES for depth in range(4)})]


MODES: dict[tuple[str, str], int] = {
    ("kept", "kept"): 0,
    ("full", "kept"): 0,
    ("left", "kept"): 0,
    ("kept", "full"): 0,
    ("kept", "left"): 10,
    ("full", "full"): 10,
    ("closed", "kept"): 10,
    ("kept", "closed"): 10,
    ("closed", "closed"): 10,
}
"""The places of stdout and stderr, the first of them the usual ones, and how many calls are tried; 0: all."""


@pytest.fixture(scope="module")
def ends(project: Path) -> dict[tuple[str, str], list[Result]]:
    """Return the ends of the usual calls, with each place of their output; of the help, on a full disk."""
    cases = {places: usual_calls()[-count:] for places, count in MODES.items()} | {("help", ""): helps()}
    found = iter(
        results(
            project,
            [
                (words, *(places if places in MODES else ("full", "kept")))
                for places, calls in cases.items()
                for words in calls
            ],
        )
    )
    return {places: [next(found) for _ in calls] for places, calls in cases.items()}


def test_the_help_of_every_command_reports_a_full_disk(ends: dict[tuple[str, str], list[Result]]) -> None:
    """The library that prints the help knows nothing of this."""
    wrong = [(words, end) for words, end in zip(helps(), ends["help", ""], strict=True) if end != (1, "", FULL)]
    assert wrong == []


@pytest.mark.parametrize("places", [*MODES][1:], ids="-".join)
def test_every_command_ends_in_order_where_its_output_is_lost(
    ends: dict[tuple[str, str], list[Result]], places: tuple[str, str]
) -> None:
    """Each is compared with its end where the output is kept."""
    lost_ends = ends[places]
    calls, kept_ends = usual_calls()[-len(lost_ends) :], ends["kept", "kept"][-len(lost_ends) :]
    wrong = [
        f"{words}: {fault}: {kept} {lost}"[:1500]
        for words, kept, lost in zip(calls, kept_ends, lost_ends, strict=True)
        if (fault := fault_of(kept, places, lost))
    ]
    assert not wrong, "\n".join([f"{len(wrong)} faults, the first of them:", *wrong[:5]])


def fault_of(kept: Result, places: tuple[str, str], lost: Result) -> str:
    """Return what is wrong with the end of a command whose output is lost; empty if nothing is."""
    code, stdout, stderr = kept
    loses_results = places[0] != "kept" and stdout != ""
    loses_messages = places[1] in ("full", "left") and stderr != ""
    if "Traceback" in lost[2] or "Exception ignored" in lost[2]:
        return "a traceback"
    if places[0] == "closed":
        return "" if (lost[0], lost[2]) in ((2, CLOSED), (2, "")) else "no refusal"
    # Without results, a command ends at once.
    if lost[0] not in ({1} if loses_results else {code or int(loses_messages)}):
        return "another code"
    if places[1] == "kept" and (FULL in lost[2]) != (loses_results and places[0] == "full"):
        return "another message"
    return "" if places[0] != "kept" or lost[1] == stdout else "other results"


def test_every_command_names_the_file_that_a_full_disk_refuses(project: Path) -> None:
    """A limit of 0 bytes for each file is as a full disk, whose error does not name the file either."""
    checkouts = ["--base", ".", "--head", "."]
    writers = [
        ["review", "static", *checkouts, "--reports", "reports"],
        ["review", "preview", *checkouts, "--reports", "reports"],
        ["review", "environments", *checkouts, "--output"],
        ["forecast", "--html", "forecast.html"],
        ["sweep", "expand"],
        ["add-team", "nlp", "--namespace", "nlp"],
    ]
    (project / "sweeps" / "digits-search" / "hyperparams.yml").unlink()
    usual = [[word for word in call if word != "--dry-run"] for call in usual_calls()]
    ends = results(project, [(words, "kept", "kept") for words in (*usual, *writers)], "--full-disk")
    faults = [
        (words, stderr)
        for words, (code, _, stderr) in zip((*usual, *writers), ends, strict=True)
        if "Traceback" in stderr or ("File too large" in stderr and not (code == 1 and NAMED.search(stderr)))
    ]
    assert faults == []
    assert [words for words, end in zip(writers, ends[-len(writers) :], strict=True) if "too large" not in end[2]] == []
