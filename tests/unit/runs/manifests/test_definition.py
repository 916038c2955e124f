"""The definition of a run in its pods: complete, in variables that Linux accepts, and not at the program's expense."""

import json
import random
from typing import Any

import pytest

from tests.unit.make import make_distributed, make_run
from tests.unit.runs.launches import make_launch
from trainstack.runs.identity import canonical
from trainstack.runs.manifests.build import manifest
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.pod_template import MAX_VARIABLE_BYTES
from trainstack.runs.manifests.variable_expansion import container_program, container_variables
from trainstack.runs.wrapper.run import WrapperSettings
from trainstack.settings.sections.workloads import Role, Workload


def definitions(run: Workload) -> list[dict[str, Any]]:
    """Return what the wrapper of each role's pods records, from what Kubernetes gives it."""
    found = []
    for pods in launched_pods(manifest(run, "dev", make_launch())):
        variables = {name: value or "" for name, value in container_variables(pods.spec["containers"][0]).items()}
        for name, value in variables.items():
            assert len(f"{name}={value}".encode()) <= MAX_VARIABLE_BYTES, name
        found.append(
            WrapperSettings(
                {**variables, "TRAINSTACK_POD": "a"}, container_program(pods.spec["containers"][0])[3:]
            ).definition
        )
    return found


def assert_complete(run: Workload) -> None:
    """Compare the definition with the settings."""
    (definition,) = definitions(run)
    assert (definition["command"], definition["args"]) == ([*run.command], [*run.args])
    assert definition["env"] == run.env
    assert definition["workload"] == run.name


def variables_of(run: Workload) -> dict[str, str]:
    (pods,) = launched_pods(manifest(run, "dev", make_launch()))
    return {name: value or "" for name, value in container_variables(pods.spec["containers"][0]).items()}


@pytest.mark.parametrize("count", [1, 100, 3_000, 40_000])
def test_a_list_of_arguments_of_any_length_is_recorded(count: int) -> None:
    """The definition was once one variable, too long for Linux from 128 KiB on."""
    assert_complete(make_run(args=tuple(f"--id={number:08}" for number in range(count)), env={"A": "é" * 200}))


def test_a_long_definition_leaves_out_what_the_pod_has() -> None:
    """It takes nothing from the sizes that are left to arguments and environment."""
    run = make_run(args=tuple("x" * 1_000 for _ in range(900)), env={"DATA": "y" * 100_000})
    size = sum(len(value) for name, value in variables_of(run).items() if name.startswith("TRAINSTACK_"))
    assert size < 10_000
    ours = len(canonical(manifest(run, "dev", make_launch())))
    unmanaged = len(canonical(manifest(make_run(**{**run.model_dump(), "managed": False}), "dev", make_launch())))
    assert ours - unmanaged < 12_000


def test_a_short_definition_is_written_out() -> None:
    """People read it with kubectl."""
    variables = variables_of(make_run(args=("--lr=0.1",), env={"A": "b"}))
    assert json.loads(variables["TRAINSTACK_RUN"])["args"] == ["--lr=0.1"]
    assert "TRAINSTACK_RUN_PART_2" not in variables


def test_texts_that_kubernetes_changes_are_recorded_as_declared() -> None:
    """Whatever their length: `$(TOKEN)` may be a secret in the pod."""
    script = "echo $(TOKEN) $(date) $$\n" * 10_000
    run = make_run(
        command=("sh", "-c", script[:120_000]), args=(script, "plain" * 10_000), env={"A": "$(B)$$", "B": "b"}
    )
    assert "TRAINSTACK_RUN_PART_3" in variables_of(run)
    assert_complete(run)


def test_each_role_has_its_own_definition() -> None:
    worker = Role(replicas=2, args=tuple("x" * 1_000 for _ in range(50)), env={"A": "worker"})
    master, workers = definitions(
        make_distributed(args=("--master",), env={"A": "b"}, roles={"Master": Role(), "Worker": worker})
    )
    assert (master["args"], master["env"]) == (["--master"], {"A": "b"})
    assert (workers["args"], workers["env"]) == ([*(worker.args or ())], {"A": "worker"})


@pytest.mark.parametrize("seed", range(20))
def test_drawn_programs_are_recorded_as_declared(seed: int) -> None:
    """With texts of all kinds and lengths."""
    draw = random.Random(seed)
    words = [
        "x",
        "é",
        "$",
        "$$",
        "$(A)",
        "$(B)",
        "(",
        ")",
        "\\",
        '"',
        "\n",
        " ",
        "{}",
        "$TRAINSTACK_OUTPUT",
        "\U0001f600",
    ]

    def text() -> str:
        return "".join(draw.choices(words, k=draw.choice([0, 1, 5, 50]))) * draw.choice([1, 1, 20, 400])

    args = tuple(text() for _ in range(draw.choice([0, 1, 10, 40])))
    command = ("train", *(text() for _ in range(draw.randrange(3))))
    env = {name: text() for name in draw.sample(["A", "B", "C", "D"], k=draw.randrange(5))}
    assert_complete(make_run(command=command, args=args, env=env))
