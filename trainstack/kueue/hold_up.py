"""What keeps a workload from being admitted although its quota is available."""

from dataclasses import dataclass

from trainstack.kueue.model import Workload
from trainstack.objects.ownership import format_names

_MAX_NAMES = 3


@dataclass(frozen=True, slots=True)
class HoldUp:
    """The head of the workload's own queue, or of another one whose quota is not available to it."""

    workload: Workload
    """The head."""
    cluster_queue: str
    is_own_queue: bool
    """Whether the head is ahead of the workload in the same cluster queue."""
    is_strict: bool = False
    """Whether the head's cluster queue is StrictFIFO."""
    preempts: tuple[str, ...] = ()
    """The workloads that the head preempts and whose end it waits for, `<namespace>/<name>`."""


def hold_up_message(hold_up: HoldUp, *, never_fits: bool) -> str:
    """Return what holds up a workload. `never_fits`: whether the head never fits."""
    name, queue = hold_up.workload.key, hold_up.cluster_queue
    if hold_up.preempts:
        targets = format_names(hold_up.preempts, _MAX_NAMES)
        place = "is ahead in" if hold_up.is_own_queue else "comes first, from"
        return f"{name} {place} cluster queue {queue}, and waits for the end of {targets}, which it preempts"
    if not hold_up.is_own_queue:
        return f"Kueue keeps quota of the cohort for {name}, which waits at the head of cluster queue {queue}"
    if hold_up.is_strict:
        state = "never fits" if never_fits else "waits"
        return f"cluster queue {queue} is StrictFIFO: {name} {state}, and holds up all workloads behind it"
    return f"Kueue tries {name} again in every cycle, and nothing behind it in cluster queue {queue}"
