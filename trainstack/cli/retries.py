"""Repeated reads of a cluster: their pause, and retries while it does not answer."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from trainstack.cli.output.console import fail, report
from trainstack.cli.session import Session
from trainstack.live.client import ClusterError, PermanentError

T = TypeVar("T")

PAUSE_SECONDS = 1.0
"""Between two reads of the cluster."""

RETRY_SECONDS = 300
"""How long `wait` retries while the cluster does not answer; an upgrade of its control plane takes minutes."""


@dataclass
class RetryBudget:
    """Retries of reads while the cluster does not answer, each error reported once.

    The runs continue meanwhile, so only a permanent error, such as a missing kubeconfig or right, ends the command.
    """

    session: Session
    seconds: float | None = None
    """How long to retry; None: without limit."""
    report: Callable[[str], None] = report
    _failing_since: float | None = field(default=None, init=False)
    _reported_error: str = field(default="", init=False)

    def record_failure(self, error: ClusterError) -> None:
        """Record a failed read; exits if the error is permanent or the time is up."""
        if isinstance(error, PermanentError):
            fail(str(error), error.exit_code)
        self._failing_since = self._failing_since or time.monotonic()
        if self.seconds is not None and time.monotonic() - self._failing_since > self.seconds:
            status = f"trainstack status -s {self.session.stack}"
            fail(f"{error}; the runs continue. Check them with: {status}", error.exit_code)
        if self._reported_error != str(error):
            self._reported_error = str(error)
            self.report(f"{error}; retrying")

    def reset(self) -> None:
        """Record a successful read."""
        self._failing_since, self._reported_error = None, ""

    def retry(self, read: Callable[[], T]) -> T:
        """Repeat a read until it succeeds, and return its result."""
        while True:
            try:
                answer = read()
            except ClusterError as error:
                self.record_failure(error)
                time.sleep(PAUSE_SECONDS)
            else:
                self.reset()
                return answer
