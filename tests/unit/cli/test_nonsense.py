"""Whatever stands on the command line: a command ends with a documented code and one message, never with a traceback.

The options are read from the commands themselves, so that a new one is tried too. No cluster, and no engine.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from trainstack.cli.app import app
from trainstack.dev.cluster import cluster as local_cluster
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.toolchain import tools
from trainstack.dev.toolchain.errors import ToolchainError

ROOT = Path(__file__).resolve().parents[3]
# No path of a file that exists: some options name a file to write, and the tests may run as root.
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
    """The commands that do something, each with the words that call it."""
    if hasattr(command, "commands"):
        for name in command.commands:
            yield from leaves(command.commands[name], (*words, name))
    else:
        yield words, command


LEAVES = dict(leaves(typer.main.get_command(app)))
USUAL = {"RUN": "digits", "NAME": "digits-search", "NAMESPACE": "vision", "VOLUME:PATH": "training:x"}
USUAL |= {"RUN|VOLUME:PATH": "training:x", "SRC": "defaults.yaml", "RUN RUN…": "digits", "COMPONENT": "etcd"}


SPECIAL = {"since": SPANS, "set_": CHANGES, "nodes": CHANGES, "quota": CHANGES}
"""By the name of an option, what is tried besides texts."""


def calls(every: int) -> Iterator[tuple[str, ...]]:
    """Each option and each argument of each command with such values, and the other arguments as they should be.

    Of the values each option gets one of `every`, and at least one, another one each time.
    """
    count = 0
    for words, command in LEAVES.items():
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        for option in command.params:
            if option.name == "help" or getattr(option, "is_flag", False):
                continue
            count += 1
            texts = (*TEXTS, *SPECIAL.get(option.name, ()))
            values = NUMBERS if option.type_descriptor.annotation is int else texts
            step = min(every, len(values))
            for value in values[count % step :: step]:
                others = [value if each is option else USUAL.get(each.metavar, "x") for each in arguments]
                given = [] if option in arguments else [f"{option.opts[0]}={value}"]
                yield (*words, *given, "--", *others)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without a cluster and without an engine."""
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml", "defaults.yaml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("workloads/digits", "trainstack/runs/wrapper", "sweeps/digits-search"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

    def absent(*_: object, **__: object) -> None:
        raise ToolchainError("the tools are not built")

    def stopped(*_: object, **__: object) -> None:
        raise ClusterError("the local cluster cannot be made here")

    for name in ("ensure", "engine", "program"):
        monkeypatch.setattr(tools, name, absent)
    for name in ("up", "down"):
        monkeypatch.setattr(local_cluster, name, stopped)
    return tmp_path


@pytest.mark.parametrize("every", [pytest.param(29, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_no_command_line_ends_in_a_traceback(checkout: Path, every: int) -> None:
    """Also values that are no text, no file's name, or that no calendar and no number of 64 bits holds."""
    wrong = []
    for call in calls(every):
        done = CliRunner().invoke(app, list(call))
        shown = [word[:80] for word in call]
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            wrong.append(f"{shown} ends in {done.exception!r:.300}")
        elif done.exit_code not in range(6):
            wrong.append(f"{shown} ends with {done.exit_code}")
        elif done.exit_code and not done.output.strip():
            wrong.append(f"{shown} fails without a message")
    assert not wrong, "\n".join([f"{len(wrong)} faults, the first of them:", *wrong[:10]])


def test_each_option_is_tried() -> None:
    """The commands are read as they are: none is left out when the library that reads them changes."""
    tried = list(calls(1))
    assert {("check",), ("sweep", "next"), ("cluster", "up")} <= LEAVES.keys()
    for word in ("--since=800000d", "--timeout=-1", "--set=a=b", "--gpus=inf", "--quota=cpu=-1"):
        assert any(word in call for call in tried), word


@pytest.mark.parametrize("since", ["800000d", "999999999d", "9" * 30 + "s", "0001-01-01T00:00:00+14:00"])
def test_a_time_beyond_the_calendar_is_refused(checkout: Path, since: str) -> None:
    """The message names the option and its value."""
    done = CliRunner().invoke(app, ["logs", "digits", "--since", since])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: --since {since}: ")


@pytest.mark.parametrize("command", [each for each in LEAVES if any(o.name == "stack" for o in LEAVES[each].params)])
def test_a_name_that_no_environment_can_have_is_refused_by_each_command(
    checkout: Path, command: tuple[str, ...]
) -> None:
    """A label holds 63 characters: one message, before anything else is looked at."""
    arguments = [each for each in LEAVES[command].params if each.param_type_name == "argument"]
    others = [USUAL.get(each.metavar, "x") for each in arguments]
    more = ["other"] if any(each.nargs == -1 for each in arguments) else []
    done = CliRunner().invoke(app, [*command, *others, *more, "-s", "x" * 70])
    message = "the environment's name has 70 characters, but a label value has at most 63"
    assert (done.exit_code, message in done.stdout + done.stderr) == (2, True), done.output
