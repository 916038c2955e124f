"""Objects that live launches refer to: a TrainJob's TrainingRuntime, which defines the volumes of its pods."""

from collections.abc import Iterable, Mapping
from typing import Any

from trainstack.live.client import Answer
from trainstack.live.paths import object_path
from trainstack.runs.status.launch_kinds import kind_of_launch

Body = Mapping[str, Any]


def companion_paths(bodies: Iterable[Body]) -> list[str]:
    """Return the API paths of the companions of launches."""
    return [path for body in bodies if (path := _companion_path(body))]


def companions(body: Body, answers: Mapping[str, Answer]) -> list[Body]:
    """Return the launch's companions from the responses; [] if they do not exist or the user may not read them."""
    path = _companion_path(body)
    return [answers[path].body] if path and answers[path].is_success else []


def _companion_path(body: Body) -> str | None:
    companion = kind_of_launch(body["kind"]).companion_reference(body)
    return None if companion is None else object_path(companion)
