"""Previews and updates of environments that are up and have not changed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final

import yaml

from bench import tools
from bench.case import Arm, Case, Scene, Subject
from bench.environments import as_config, environment

DEV: Final = "dev"
LARGE: Final = "large"
QUEUES, TEAMS, RUNS = 100, 30, 200


@contextmanager
def unchanged(scene: Scene, stack: str, verb: str, *options: str) -> Iterator[Sequence[Arm]]:
    """Yield the arms of `pulumi preview` or `pulumi up` of an environment without changes.

    The other tools apply the same objects with the same field manager, so they change nothing either. The short form
    has only kubectl, and the same command for one ConfigMap, by which the goal is set.
    """
    objects = tools.live_objects(scene, stack)
    words = (verb, "--expect-no-changes", *options, *(("--yes", "--skip-preview") if verb == "up" else ()))
    state = tools.state_file(tools.pulumi_backend(scene.folder), "trainstack", stack)
    kubectl = objects.kubectl(scene, "diff" if verb == "preview" else "apply")
    arms = [
        Arm(name=tools.TRAINSTACK, command=tools.pulumi(scene, stack, *words), state=state),
        Arm(name=tools.KUBECTL, command=kubectl),
    ]
    with _one_config_map(scene, words) as one:
        if scene.short:
            yield [*arms, one]
            return
        sdk = _sdk_program(scene, stack, objects)
        yield [
            *arms,
            sdk.arm(tools.SDK, *words),
            Arm(name=tools.CLIENT, command=objects.client(scene, *(["--dry-run"] if verb == "preview" else []))),
            one,
        ]


def _sdk_program(scene: Scene, stack: str, objects: tools.Objects) -> tools.Program:
    """Return a program whose state has the objects. All cases of an environment share it: its `up` takes minutes."""
    folder = scene.scratch / f"sdk-{stack}"
    if folder.exists():
        program = tools.Program(folder, scene)
    else:
        program = tools.program(scene, folder.name, "sdk.py", objects.bodies())
    # This writes nothing that differs, but gives the program's state the objects, unless an earlier case has done so.
    tools.run(program.command("up", "--yes", "--skip-preview"))
    return program


@contextmanager
def _one_config_map(scene: Scene, words: Sequence[str]) -> Iterator[Arm]:
    """Yield the arm of a program with one ConfigMap, which is removed afterwards."""
    one = tools.program(scene, "one", "one_config_map.py")
    tools.run(one.command("up", "--yes", "--skip-preview"))
    try:
        yield one.arm(tools.ONE, *words)
    finally:
        tools.run(one.command("destroy", "--yes", "--skip-preview"))


@contextmanager
def _dev(scene: Scene, *, verb: str, options: Sequence[str]) -> Iterator[Sequence[Arm]]:
    with unchanged(scene, DEV, verb, *options) as arms:
        yield arms


@contextmanager
def _large(scene: Scene, *, verb: str, options: Sequence[str]) -> Iterator[Sequence[Arm]]:
    """Yield the arms for an environment of many queues, teams and runs, which is brought up first if it is not."""
    file = scene.folder / f"Pulumi.{LARGE}.yaml"
    if not file.exists():
        settings = environment(teams=TEAMS, queues=QUEUES, runs=RUNS)
        # `dev` does not install the operator of its PyTorchJobs.
        operators = {"trainingOperator": {"requests": {"cpu": "50m", "memory": "128Mi"}}}
        file.write_text(yaml.safe_dump(as_config({**settings, "operators": operators})))
        tools.run(scene.command(*tools.CLI, "up", "-s", LARGE, "--yes", "--no-wait"))
    with unchanged(scene, LARGE, verb, *options) as arms:
        yield arms


def _cases() -> Iterator[Case]:
    sizes: tuple[tuple[Subject, str, Callable[..., AbstractContextManager[Sequence[Arm]]], int], ...] = (
        (DEV, "`dev`", _dev, 5),
        (LARGE, f"{QUEUES} queues, {TEAMS} teams and {RUNS} runs", _large, 3),
    )
    for subject, description, arms, rounds in sizes:
        for verb, action in (("preview", "Preview"), ("up", "Update")):
            for options, suffix, note in (((), "", ""), (("--refresh",), "-refresh", ", with a refresh")):
                yield Case(
                    id=f"{verb}-{subject}{suffix}",
                    title=f"{action} of {description}, unchanged{note}",
                    subject=subject,
                    place="cluster",
                    arms=partial(arms, verb=verb, options=options),
                    rounds=rounds,
                    short_rounds=3 if (subject, verb, options) == (DEV, "preview", ()) else 0,
                )


CASES = tuple(_cases())
