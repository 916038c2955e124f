"""What a team's stack asks of the platform's stack, held against what that one says it has.

Pure: from the settings and the platform's outputs to refusals.
"""

from collections.abc import Sequence

from trainstack.settings.errors import nearest
from trainstack.settings.model import Settings


def unknown_queues(settings: Settings, local_queues: Sequence[str]) -> tuple[str, ...]:
    """Name every run whose queue the platform does not have.

    Args:
        settings: the team's environment.
        local_queues: the platform's, as `<namespace>/<name>`.

    """
    found = []
    for path, run in settings.trained():
        queue = f"{run.namespace}/{run.queue}"
        if run.queue is not None and queue not in local_queues:
            here = [other.partition("/")[2] for other in local_queues if other.startswith(f"{run.namespace}/")]
            found.append(
                f"{path}.queue: platform stack {settings.environment.platform} has no local queue {queue}; "
                f"{nearest(run.queue, here)} (or ask the platform's owner to declare it)"
            )
    return tuple(sorted(found))
