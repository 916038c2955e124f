"""The pipe by which a cluster's supervisor learns that the process that started it has ended.

Standard library only: the supervisor uses it.
"""

import contextlib
import os
import select

LIFELINE = 3
"""The supervisor's file descriptor of the pipe."""


class Lifeline:
    """The end of the process that starts the cluster. When that process ends, however it does, the cluster stops."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def release(self) -> None:
        """Let the cluster outlive this process."""
        with contextlib.suppress(BrokenPipeError):  # the supervisor has died
            os.write(self._pipe, b"released")
        self.cut()

    def cut(self) -> None:
        """Stop the cluster, unless it was released. Returns at once."""
        os.close(self._pipe)


class Owner:
    """The supervisor's end."""

    def __init__(self) -> None:
        os.set_inheritable(LIFELINE, False)  # noqa: FBT003 (it has no keywords)
        self._released = False

    def has_ended(self) -> bool:
        """Return whether the process that started the cluster has ended without releasing it. Does not wait."""
        if self._released or not select.select([LIFELINE], [], [], 0)[0]:
            return False
        self._released = bool(os.read(LIFELINE, 1))
        return not self._released
