"""Errors about queues of a team's runs that the platform's stack does not declare. Pure."""

from collections.abc import Sequence

from trainstack.settings.errors import suggest_name
from trainstack.settings.model import Settings


def unknown_queue_errors(settings: Settings, local_queues: Sequence[str]) -> tuple[str, ...]:
    """Return an error for each run whose queue is not in `local_queues` (`<namespace>/<name>`), sorted."""
    errors = []
    for path, run in settings.runs_and_trials():
        queue = f"{run.namespace}/{run.queue}"
        if run.queue is not None and queue not in local_queues:
            queues_in_namespace = [
                local_queue.partition("/")[2]
                for local_queue in local_queues
                if local_queue.startswith(f"{run.namespace}/")
            ]
            errors.append(
                f"{path}.queue: platform stack {settings.environment.platform} has no local queue {queue}; "
                f"{suggest_name(run.queue, queues_in_namespace)} (or ask the platform's owner to declare it)"
            )
    return tuple(sorted(errors))
