"""Errors about queues of a team's runs that the platform's stack does not declare. Pure."""

from collections.abc import Sequence

from trainstack.settings.errors import nearest
from trainstack.settings.model import Settings


def unknown_queues(settings: Settings, local_queues: Sequence[str]) -> tuple[str, ...]:
    """Return an error for each run whose queue is not in `local_queues` (`<namespace>/<name>`), sorted."""
    found = []
    for path, run in settings.trained():
        queue = f"{run.namespace}/{run.queue}"
        if run.queue is not None and queue not in local_queues:
            known = [other.partition("/")[2] for other in local_queues if other.startswith(f"{run.namespace}/")]
            found.append(
                f"{path}.queue: platform stack {settings.environment.platform} has no local queue {queue}; "
                f"{nearest(run.queue, known)} (or ask the platform's owner to declare it)"
            )
    return tuple(sorted(found))
