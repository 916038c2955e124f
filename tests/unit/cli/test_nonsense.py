"""For any command line, a command ends with a documented code and one message, never with a traceback.

The options are read from the commands themselves, so that new ones are included. No cluster and no engine are used.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from trainstack.cli.app import app
from trainstack.local_cluster import cluster as local_cluster
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.printable import clean
from trainstack.toolchain import tools
from trainstack.toolchain.errors import ToolchainError

ROOT = Path(__file__).resolve().parents[3]
# No value is the path of an existing file: some options name a file to write, and the tests may run as root.
TEXTS = (
    *(
        "",
        " ",
        "-",
        "--",
        ".",
        "..",
        "../..",
        "/",
        "/nonexistent/file",
        "a/b",
        "\n",
        "\t",
        "\x1b[2J",
        "a\x00b",
        "\udcff",
    ),
    *("x" * 70, "x" * 300, "x" * 5000, "X", "-x", "x-", "x_y", "x.y", "ü", "\u0663", "\u202e", "dev\n", "DEV"),
    *(":cat:", "[bold]x", "[/]", "%s", "{0}", "${x}", "$(id)", "'", '"', "*"),
    *("digits-../../x", "training:../..", "training:\x00"),
)
NUMBERS = (
    *("0", "-1", "1", "1.5", "1e9", "nan", "inf", "0x10", "1_000", "\u0663", str(2**31), str(2**63), "9" * 400),
    *("9" * 5000, "", " ", "x"),
)
SPANS = (
    *("800000d", "999999999d", "9" * 30 + "s", "0s", "1d1d", "1h30", "-5m", "1.5h", "d", "\u0663s", "10000000000s"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2024-02-30", "2024", "24:00", "99999-01-01"),
)
CHANGES = (
    *("a=b", "=", "workloads=", "workloads.runs[digits].priority", "workloads.runs[9" + "9" * 400 + "].x=1"),
    *("storage.volumes=&a [*a]", "queues=" + "[" * 3000, "cpu=1e99", "cpu=" + "9" * 5000, "cpu=" + "9" * 400),
    *("cpu=-1", "cpu=4:cpu=64", "nope=4", "cpu=1000000000", "cpu==1", "cpu=4:cpu=1,cpu=2", "cpu=4:x", "sets.x=1"),
)


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return the commands without subcommands, each with the words that call it."""
    if hasattr(command, "commands"):
        for name in command.commands:
            yield from leaves(command.commands[name], (*words, name))
    else:
        yield words, command


LEAVES = dict(leaves(typer.main.get_command(app)))
USUAL = {"RUN": "digits", "NAME": "digits-search", "NAMESPACE": "vision", "VOLUME:PATH": "training:x"}
USUAL |= {"RUN|VOLUME:PATH": "training:x", "SRC": "defaults.yaml", "RUN RUN…": "digits", "COMPONENT": "etcd"}


SPECIAL = {"since": SPANS, "set_": CHANGES, "nodes": CHANGES, "quota": CHANGES}
"""The values to try besides texts, by the name of an option."""


def calls(every: int) -> Iterator[tuple[str, ...]]:
    """Yield each option and argument of each command with such values, and valid values for the other arguments.

    Each option gets one of `every` values, and at least one, a different one each time.
    """
    count = 0
    for words, command in LEAVES.items():
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        for option in command.params:
            if option.name == "help" or getattr(option, "is_flag", False):
                continue
            count += 1
            texts = (*TEXTS, *SPECIAL.get(option.name, ()))
            values = NUMBERS if option.type_descriptor.annotation is int else texts
            step = min(every, len(values))
            for value in values[count % step :: step]:
                others = [value if argument is option else USUAL.get(argument.metavar, "x") for argument in arguments]
                option_words = [] if option in arguments else [f"{option.opts[0]}={value}"]
                yield (*words, *option_words, "--", *others)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project without a cluster and without an engine."""
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml", "defaults.yaml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("workloads/digits", "trainstack/runs/wrapper", "sweeps/digits-search"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

    def absent(*_: object, **__: object) -> None:
        raise ToolchainError("the tools are not built")

    def stopped(*_: object, **__: object) -> None:
        raise LocalClusterError("the local cluster cannot be made here")

    for name in ("ensure", "engine", "program"):
        monkeypatch.setattr(tools, name, absent)
    for name in ("up", "down"):
        monkeypatch.setattr(local_cluster, name, stopped)
    return tmp_path


@pytest.mark.parametrize("every", [pytest.param(29, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_no_command_line_ends_in_a_traceback(checkout: Path, every: int) -> None:
    """Values include invalid text, invalid file names, and dates and numbers beyond the calendar and 64 bits."""
    wrong = []
    for call in calls(every):
        result = CliRunner().invoke(app, list(call))
        message = [word[:80] for word in call]
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            wrong.append(f"{message} ends in {result.exception!r:.300}")
        elif result.exit_code not in range(6):
            wrong.append(f"{message} ends with {result.exit_code}")
        elif result.exit_code and not result.output.strip():
            wrong.append(f"{message} fails without a message")
        elif clean(result.output) != result.output:
            wrong.append(f"{message} prints what controls a terminal: {result.output!r:.300}")
    assert not wrong, "\n".join([f"{len(wrong)} faults, the first of them:", *wrong[:10]])


def test_each_option_is_tried() -> None:
    """The options are those of the commands, so none is skipped when the library that parses them changes."""
    tried = list(calls(1))
    assert {("check",), ("sweep", "next"), ("cluster", "up")} <= LEAVES.keys()
    for word in ("--since=800000d", "--timeout=-1", "--set=a=b", "--gpus=inf", "--quota=cpu=-1"):
        assert any(word in call for call in tried), word


@pytest.mark.parametrize("since", ["800000d", "999999999d", "9" * 30 + "s", "0001-01-01T00:00:00+14:00"])
def test_a_time_beyond_the_calendar_is_refused(checkout: Path, since: str) -> None:
    """The message names the option and its value."""
    result = CliRunner().invoke(app, ["logs", "digits", "--since", since])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: --since {since}: ")


@pytest.mark.parametrize(
    "command",
    [command_words for command_words in LEAVES if any(o.name == "stack" for o in LEAVES[command_words].params)],
)
def test_a_name_that_no_environment_can_have_is_refused_by_each_command(
    checkout: Path, command: tuple[str, ...]
) -> None:
    """A label holds 63 characters: the one error precedes any other check."""
    arguments = [param for param in LEAVES[command].params if param.param_type_name == "argument"]
    others = [USUAL.get(argument.metavar, "x") for argument in arguments]
    more = ["other"] if any(argument.nargs == -1 for argument in arguments) else []
    result = CliRunner().invoke(app, [*command, *others, *more, "-s", "x" * 70])
    message = "the environment's name has 70 characters, but a label value has at most 63"
    assert (result.exit_code, message in result.stdout + result.stderr) == (2, True), result.output
