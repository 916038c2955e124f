"""Cases that need neither the engine nor a cluster: what a command costs from the start of its process."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bench.case import Arm, Case, Scene
from bench.tools import CLI, TRAINSTACK

LIBRARIES = "Python with the same libraries"
"""The floor of a command: a Python that imports what the command needs of other projects, and ends."""
_HELP = "import typer, rich.table"
_SETTINGS = "import typer, rich.table, yaml, pydantic"


def _against_libraries(scene: Scene, words: Sequence[str], imports: str) -> list[Arm]:
    return [
        Arm(name=TRAINSTACK, command=scene.command(*CLI, *words)),
        Arm(name=LIBRARIES, command=scene.command(sys.executable, "-c", imports)),
    ]


@contextmanager
def _help(scene: Scene) -> Iterator[list[Arm]]:
    yield _against_libraries(scene, ["--help"], _HELP)


@contextmanager
def _check(scene: Scene) -> Iterator[list[Arm]]:
    yield _against_libraries(scene, ["check", "-s", "dev"], _SETTINGS)


@contextmanager
def _render(scene: Scene) -> Iterator[list[Arm]]:
    yield _against_libraries(scene, ["render", "-s", "dev"], _SETTINGS)


@contextmanager
def _review(scene: Scene) -> Iterator[list[Arm]]:
    folder, reports = str(scene.folder), str(scene.scratch / "reports")
    words = ["review", "static", "--base", folder, "--head", folder, "--stack", "dev", "--reports", reports]
    yield _against_libraries(scene, words, _SETTINGS)


def _programs(scene: Scene, module: str, arguments: Mapping[str, object]) -> list[Arm]:
    """Return an arm for each argument of a program of `bench.programs` that prints its seconds."""
    return [
        Arm(
            name=name,
            command=scene.command(sys.executable, "-m", f"bench.programs.{module}", str(argument)),
            reports=True,
        )
        for name, argument in arguments.items()
    ]


@contextmanager
def _check_many(scene: Scene) -> Iterator[list[Arm]]:
    yield _programs(scene, "check_many", {"check the settings": "check", "read the settings from their file": "read"})


@contextmanager
def _forecast_many(scene: Scene) -> Iterator[list[Arm]]:
    yield _programs(scene, "forecast_many", {f"{count:,} runs": count for count in (10_000, 1_000)})


@contextmanager
def _judge_nodes(scene: Scene) -> Iterator[list[Arm]]:
    yield _programs(scene, "judge_nodes", {f"{count} nodes": count for count in (500, 50)})


CASES = (
    Case(id="help", title="`trainstack --help`", subject="files", place="files", arms=_help, short_rounds=3),
    Case(id="check", title="`trainstack check -s dev`", subject="files", place="files", arms=_check, short_rounds=3),
    Case(id="render", title="`trainstack render -s dev`", subject="files", place="files", arms=_render),
    Case(id="review", title="`trainstack review static --stack dev`", subject="files", place="files", arms=_review),
    Case(
        id="check-many",
        title="Check of 1,000 runs and 100 cluster queues",
        subject="files",
        place="files",
        arms=_check_many,
        rounds=3,
        warm_up=False,
    ),
    Case(
        id="forecast-many",
        title="Forecast of 10,000 runs and of 1,000",
        subject="files",
        place="files",
        arms=_forecast_many,
        rounds=3,
        warm_up=False,
    ),
    Case(
        id="judge-nodes",
        title="Kueue's own verdicts on 10 runs in racks of 500 nodes and of 50",
        subject="files",
        place="files",
        arms=_judge_nodes,
    ),
)
