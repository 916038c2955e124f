"""What live launches refer to: of a TrainJob the runtime, which has the volumes of its pods."""

from collections.abc import Iterable, Mapping
from typing import Any

from trainstack.live.client import Answer
from trainstack.live.paths import location
from trainstack.runs.status.kinds import KINDS

Body = Mapping[str, Any]


def companion_paths(bodies: Iterable[Body]) -> list[str]:
    """Where to read the companions of these launches; empty where they have none."""
    return [path for body in bodies if (path := _path(body))]


def companions(body: Body, answers: Mapping[str, Answer]) -> list[Body]:
    """The launch's companions among what was read; empty also where they are gone or may not be read."""
    path = _path(body)
    return [answers[path].body] if path and answers[path].found else []


def _path(body: Body) -> str | None:
    named = KINDS[body["kind"]].companion(body)
    return None if named is None else location(named)
