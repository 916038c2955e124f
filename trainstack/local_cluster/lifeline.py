"""The pipe whose closing shows a cluster's supervisor that the process that started it has ended.

Standard library only: the supervisor uses it.
"""

import contextlib
import os
import select

LIFELINE = 3
"""The supervisor's file descriptor of the pipe."""


class Lifeline:
    """The writing end of the pipe, in the process that starts the cluster.

    When that process ends, for whatever reason, the kernel closes the pipe, and the cluster stops.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def release(self) -> None:
        """Detach the cluster from this process, so that it continues after its end."""
        with contextlib.suppress(BrokenPipeError):  # the supervisor has died
            os.write(self._pipe, b"released")
        self.close()

    def close(self) -> None:
        """Close the pipe, which stops the cluster unless it was released. Return at once."""
        os.close(self._pipe)


class StarterProcess:
    """The process that started the cluster, as the supervisor observes it by the reading end of the pipe."""

    def __init__(self) -> None:
        os.set_inheritable(LIFELINE, False)  # noqa: FBT003 (it has no keywords)
        self._released = False

    def has_ended(self) -> bool:
        """Return whether that process has ended without releasing the cluster. Return at once."""
        if self._released or not select.select([LIFELINE], [], [], 0)[0]:
            return False
        self._released = bool(os.read(LIFELINE, 1))
        return not self._released
