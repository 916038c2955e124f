"""The variables of a command, in every spelling that a shell or Kubernetes knows, and the definition in its record."""

import json
import random
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.wrapper.pods import RUN_ID, WRITE_RESULT, python, read_json, run
from tests.unit.make import make_run
from tests.unit.runs.launches import make_launch
from trainstack.runs.manifests.build import manifest
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.variable_expansion import container_program, container_variables
from trainstack.runs.wrapper.run import unknown_variables

SHOW = "import json, sys; print('shown', json.dumps(sys.argv[1:]))"
SPELLINGS = ("${}", "${{{}}}", "$({})")


def shown(output: str) -> list[str]:
    """Return the arguments that the command has printed."""
    (line,) = (line for line in output.splitlines() if line.startswith("shown "))
    arguments: list[str] = json.loads(line.removeprefix("shown "))
    return arguments


def values(record: Path) -> dict[str, str]:
    """Return the promised variables of the first attempt of a run with seed 7."""
    folder = record / RUN_ID
    return {
        "TRAINSTACK_OUTPUT": f"{folder}/attempts/pod-a-1/output",
        "TRAINSTACK_CHECKPOINT": f"{folder}/checkpoints",
        "TRAINSTACK_RESUME": "0",
        "TRAINSTACK_RUN_ID": RUN_ID,
        "TRAINSTACK_SEED": "7",
    }


def test_every_spelling_of_every_variable_is_replaced(tmp_path: Path) -> None:
    """Also within an argument, and next to characters that no name has."""
    expected = values(tmp_path)
    written = [spelling.format(name) for name in expected for spelling in SPELLINGS]
    _, output = run(tmp_path, python(SHOW, *written, *(f"--x={each}/y" for each in written)), TRAINSTACK_SEED="7")
    replaced = [value for value in expected.values() for _ in SPELLINGS]
    assert shown(output) == [*replaced, *(f"--x={value}/y" for value in replaced)]


def test_a_script_of_a_shell_has_the_same_values(tmp_path: Path) -> None:
    """The variables are in its environment, too, for what only a shell expands."""
    script = " ".join(f'"{spelling.format(name)}"' for name in values(tmp_path) for spelling in SPELLINGS)
    more = '"${TRAINSTACK_OUTPUT%/output}" "${TRAINSTACK_NEW:-none}" "$HOME"'
    command = ["sh", "-c", f'exec "$@" {script} {more}', "sh", *python(SHOW)]
    _, output = run(tmp_path, command, TRAINSTACK_SEED="7", HOME="/home")
    replaced = [value for value in values(tmp_path).values() for _ in SPELLINGS]
    attempt = values(tmp_path)["TRAINSTACK_OUTPUT"].removesuffix("/output")
    assert shown(output) == [*replaced, attempt, "none", "/home"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["TRAINSTACK_OUTPTU", "TRAINSTACK_OUTPUT_DIR", "TRAINSTACK_POD", "TRAINSTACK_"])
def test_an_unknown_variable_is_refused(tmp_path: Path, spelling: str, name: str) -> None:
    code, output = run(tmp_path, ["true", f"--x={spelling.format(name)}"])
    assert (code, f"unknown variables in the command: ${name}; valid are" in output) == (64, True)


def test_the_seed_is_known_if_the_workload_has_one(tmp_path: Path) -> None:
    code, output = run(tmp_path, ["true", "--seed=$TRAINSTACK_SEED"])
    assert code == 64
    assert "unknown variables in the command: $TRAINSTACK_SEED" in output
    assert "$TRAINSTACK_SEED if the workload has a seed" in output


@pytest.mark.parametrize("seed", range(8))
def test_drawn_commands_get_what_a_shell_would_give_them(tmp_path: Path, seed: int) -> None:
    """Of each text, a shell in which the variables are set makes the same. `$(NAME)` is Kubernetes' own."""
    draw = random.Random(seed)
    known = values(tmp_path)
    others = ["", " ", "/", "--a=", "x", ":", "{", "}", "(", ")", "é", "-", "."]
    texts = []
    for _ in range(40):
        parts = draw.choices(
            [*others, *(draw.choice(SPELLINGS).format(name) for name in known)], k=draw.randrange(1, 6)
        )
        text = "".join(parts)
        if not unknown_variables([text], known):
            texts.append(text)
    _, output = run(tmp_path, python(SHOW, *texts), TRAINSTACK_SEED="7")
    # For a shell `$(NAME)` is a command.
    quoted = re.sub(r"\$\((\w+)\)", r"${\1}", " ".join(f'"{text}"' for text in texts))
    by_shell = subprocess.check_output(["sh", "-c", f'printf "%s\\n" {quoted}'], env=known, text=True)
    assert len(texts) > 10
    assert shown(output) == by_shell.splitlines()


def test_the_record_has_the_texts_that_the_definition_leaves_out(tmp_path: Path) -> None:
    """A long definition has null for what the pod has anyway, and its text in several variables."""
    command = python(WRITE_RESULT, "--a=$TRAINSTACK_OUTPUT", "é" * 3, "secret")
    count = len(command) - 3
    definition = {
        "command": [None] * count,
        "args": [None, None, "$(TOKEN)"],
        "env": {"A": None, "B": "$(A)"},
        "commit": "abc",
    }
    text = json.dumps(definition)
    variables = {"TRAINSTACK_RUN": text[:20], "TRAINSTACK_RUN_PART_2": text[20:30], "TRAINSTACK_RUN_PART_3": text[30:]}
    code, output = run(tmp_path, command, A="a é", B="a é", **variables)
    assert code == 0, output
    assert read_json(tmp_path / RUN_ID / "run.json")["definition"] == {
        "command": command[:count],
        "args": ["--a=$TRAINSTACK_OUTPUT", "ééé", "$(TOKEN)"],
        "env": {"A": "a é", "B": "$(A)"},
        "commit": "abc",
    }


def test_a_program_as_long_as_linux_accepts_starts_and_is_recorded(tmp_path: Path) -> None:
    """With the longest argument and variable, and most of a mebibyte in all: the definition takes no part of it."""
    script = f"exit 0 # {'$(date) ' * 20_000}"[:131_071]
    workload = make_run(
        command=("sh", "-c", script), args=("x" * 131_071, *("y" * 100_000,) * 4), env={"DATA": "z" * 131_066}
    )
    ((container, *_),) = (pods.spec["containers"] for pods in launched_pods(manifest(workload, "dev", make_launch())))
    ours = {name: value or "" for name, value in container_variables(container).items() if name != "TRAINSTACK_POD"}
    identity = {"TRAINSTACK_RUN_ID": RUN_ID, "TRAINSTACK_RECORD": str(tmp_path)}
    code, output = run(tmp_path, container_program(container)[3:], **{**ours, **identity})
    assert code == 0, output[-500:]
    definition = read_json(tmp_path / RUN_ID / "run.json")["definition"]
    assert [*definition["command"], *definition["args"]] == [*workload.command, *workload.args]
    assert definition["env"] == workload.env
