"""Any content of an environment's files is accepted, or refused with file, line and remedy.

The files are drawn from TRAINSTACK_FAULTS_SEED, which is printed.
"""

import json
import random
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.faults.bad_input import NON_REGULAR_FILES, ROOT, SEARCH, Case, draw_case, make_checkout, targets
from tests.faults.hostile import FRAGMENTS
from tests.seeds import chosen_seed
from trainstack.cli.app import app
from trainstack.errors import ExitCode

SEED = chosen_seed("TRAINSTACK_FAULTS_SEED")
MOST_SECONDS = 20.0
"""
Of a processor, for one command. A right file takes 0.1 s and one with 5,000 faults 1.5 s, so a command that takes
longer than this does not end in a time that a user would wait.
"""
SERIES = [pytest.param(50, id="some"), pytest.param(1500, id="many", marks=pytest.mark.slow)]
DRAWN = [pytest.param(20, id="some"), pytest.param(500, id="many", marks=pytest.mark.slow)]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with valid environments, in which the commands run."""
    print(f"TRAINSTACK_FAULTS_SEED={SEED}")
    monkeypatch.chdir(make_checkout(tmp_path))
    for stack in ("dev", SEARCH):
        assert CliRunner().invoke(app, ["check", "-s", stack]).exit_code == 0, stack
    return tmp_path


def faults(checkout: Path, case: Case) -> list[str]:
    """Return the faults of the commands with a changed file, and restore the file."""
    original = (checkout / case.file).read_bytes()
    (checkout / case.file).write_bytes(case.content)
    try:
        return list(_faults(checkout, case))
    finally:
        (checkout / case.file).write_bytes(original)


def _faults(checkout: Path, case: Case) -> Iterator[str]:
    commands: list[tuple[str, ...]] = [
        ("check", "-s", case.stack, "--json"),
        ("render", "-s", case.stack, "--without-releases"),
    ]
    if case.file.endswith("space.yaml"):
        commands.append(("sweep", "expand", Path(case.file).parent.name, "--check"))
    before = _files(checkout)
    for command in commands:
        started = time.process_time()
        done = CliRunner().invoke(app, command)
        elapsed_seconds = time.process_time() - started
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            yield f"{command}: ends in {done.exception!r}"
            continue
        if elapsed_seconds > MOST_SECONDS:
            yield f"{command}: takes {elapsed_seconds:.1f} s"
        failed = ExitCode.FINDINGS if command[0] == "check" or "--check" in command else ExitCode.FAILED
        if done.exit_code not in (0, ExitCode.FAILED, failed):
            yield f"{command}: exit code {done.exit_code}"
        if command[0] == "check":
            yield from _unclear_errors(checkout, done.stdout, refused=done.exit_code == failed)
        elif done.exit_code and not done.stderr.startswith("error: "):
            yield f"{command}: says {done.stderr[:200]!r}"
    if _files(checkout) != before:
        yield "a file is written"


def _unclear_errors(checkout: Path, output: str, *, refused: bool) -> Iterator[str]:
    """Yield the errors of `check --json` that lack a file, a line or a remedy."""
    errors = [finding for finding in json.loads(output)["findings"] if finding["severity"] == "error"]
    if refused != bool(errors):
        yield f"check: {'refuses without an error' if refused else 'accepts with an error'}"
    for error in errors:
        position = error["where"]
        if not error["remedy"]:
            yield f"check: no remedy for {error['message'][:200]!r}"
        if position is None or not (checkout / position["file"]).is_file():
            yield f"check: no file for {error['message'][:200]!r}"
        elif not position["line"] and error["message"] != "the environment declares nothing":
            yield f"check: no line for {error['message'][:200]!r}"


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}


@pytest.mark.parametrize("count", SERIES)
def test_a_broken_file_is_accepted_or_refused_clearly(checkout: Path, count: int) -> None:
    """The project's files with a few faults cause no traceback, no write and no hanging command."""
    wrong = []
    for number in range(count):
        case = draw_case(checkout, random.Random(f"{SEED}/{number}"))
        wrong += [(number, case.file, case.changes, fault) for fault in faults(checkout, case)]
    assert not wrong, f"TRAINSTACK_FAULTS_SEED={SEED}: {len(wrong)} faults, the first of them {wrong[:5]}"


@pytest.mark.parametrize("file_kind", NON_REGULAR_FILES)
def test_no_command_hangs_on_a_path_that_is_not_a_regular_file(checkout: Path, file_kind: str) -> None:
    """Each settings file in turn is replaced by a FIFO, a device or the like; no command hangs or reads it whole."""
    wrong = []
    for file, stack in targets(checkout):
        path = checkout / file
        original = path.read_bytes()
        path.unlink()
        NON_REGULAR_FILES[file_kind](path)
        started = time.process_time()
        done = CliRunner().invoke(app, ("check", "-s", stack))
        elapsed_seconds = time.process_time() - started
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
        path.write_bytes(original)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            wrong.append(f"{file}: ends in {done.exception!r}")
        elif elapsed_seconds > MOST_SECONDS or (
            done.exit_code != ExitCode.FINDINGS and file_kind != "a link to nothing"
        ):
            wrong.append(f"{file}: exit code {done.exit_code} after {elapsed_seconds:.1f} s")
    assert not wrong


_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    _PLAIN | st.sampled_from(sorted({word for word in FRAGMENTS.values() if len(word) < 50})),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("count", DRAWN)
def test_any_value_anywhere_is_accepted_or_refused_clearly(checkout: Path, count: int) -> None:
    """Any value of an environment is replaced by any other YAML value."""
    environment = yaml.safe_load((checkout / f"Pulumi.{SEARCH}.yaml").read_text(encoding="utf-8"))
    paths = sorted(_paths(environment["config"]), key=repr)

    @hypothesis.seed(SEED)
    @hypothesis.settings(max_examples=count, deadline=None, database=None)
    @hypothesis.given(st.sampled_from(paths), VALUES)
    def holds(path: tuple[str | int, ...], value: object) -> None:
        content = yaml.safe_dump(
            {"config": _with_value(environment["config"], path, value)}, allow_unicode=True
        ).encode()
        assert faults(checkout, Case(f"Pulumi.{SEARCH}.yaml", SEARCH, content, (repr(path),))) == []

    holds()


def _paths(value: object) -> Iterator[tuple[str | int, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in below:
        yield (key,)
        yield from ((key, *rest) for rest in _paths(item))


def _with_value(tree: object, path: Sequence[str | int], value: object) -> object:
    """The same with another value at a path."""
    if not path:
        return value
    assert isinstance(tree, dict | list)
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    changed = {key: _with_value(item, path[1:], value) if key == path[0] else item for key, item in pairs}
    return changed if isinstance(tree, dict) else list(changed.values())


@pytest.mark.parametrize(
    "fragment", ["a bomb of aliases", "lists 2,000 deep", "a number of many digits", "a long list", "the tag of Python"]
)
def test_the_command_itself_refuses(checkout: Path, fragment: str) -> None:
    """The program as it is installed ends with a message and exit code 4, and does not hang."""
    command: list[str | Path] = [ROOT / ".venv/bin/trainstack", "check", "-s", "dev"]
    valid, seconds = _run(command)
    assert valid.returncode == 0, valid.stderr
    file = checkout / "Pulumi.dev.yaml"
    text = file.read_text(encoding="utf-8")
    assert "accessModes: [ReadWriteMany]" in text
    file.write_text(text.replace("[ReadWriteMany]", FRAGMENTS[fragment]), encoding="utf-8")
    done, elapsed_seconds = _run(command)
    line = text[: text.index("accessModes:")].count("\n") + 1
    assert done.returncode == ExitCode.FINDINGS
    assert f"Pulumi.dev.yaml:{line}" in done.stdout, done.stdout[:2000]
    assert "Traceback" not in done.stdout + done.stderr
    assert elapsed_seconds < seconds + MOST_SECONDS


def _run(command: Sequence[str | Path]) -> tuple[subprocess.CompletedProcess[str], float]:
    """What a program did, and the seconds of a processor that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
