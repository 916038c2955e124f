"""Objects that live launches refer to: a TrainJob's TrainingRuntime, which defines the volumes of its pods."""

from collections.abc import Iterable, Mapping
from typing import Any

from trainstack.live.client import Answer
from trainstack.live.paths import location
from trainstack.runs.status.kinds import kind_of_launch

Body = Mapping[str, Any]


def companion_paths(bodies: Iterable[Body]) -> list[str]:
    """Return the API paths of the companions of launches."""
    return [path for body in bodies if (path := _path(body))]


def companions(body: Body, answers: Mapping[str, Answer]) -> list[Body]:
    """Return the launch's companions from the responses; [] if they do not exist or the user may not read them."""
    path = _path(body)
    return [answers[path].body] if path and answers[path].found else []


def _path(body: Body) -> str | None:
    companion = kind_of_launch(body["kind"]).companion_of(body)
    return None if companion is None else location(companion)
