"""The parent's side of an operation: it controls each moment and receives the result."""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from tests.stateful.child import COLLECT_GARBAGE, Operation, OperationResult, run
from tests.stateful.network import LateRequest

TIMEOUT_SECONDS = 180.0
"""An operation that is silent for so long hangs."""
COLLECTION_SECONDS = 0.3
"""How often the garbage collector comes round while an operation is silent."""
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.stateful.child"])


@dataclass
class Session:
    """A running operation, which pauses at each moment until the parent continues it."""

    operation: Operation
    collect_garbage: Callable[[], None]
    """Plays the cluster's garbage collector."""
    moments: list[tuple[str, str]] = field(default_factory=list)
    ended: OperationResult | None = None
    killed: bool = False
    late: list[LateRequest] = field(default_factory=list)
    """The requests that have not arrived yet."""
    _process: Any = None
    _connection: Connection | None = None

    def start(self) -> "Session":
        """Start the process, and wait for its first moment or its end."""
        self._connection, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=run, args=(self.operation, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._listen()
        return self

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, or was killed."""
        return self.killed or self.ended is not None

    def resume(self, reply: str = "go") -> None:
        """Continue to the next moment; `kill` or the text of a refusal applies to the current one."""
        assert self._connection is not None
        self._connection.send(reply)
        if reply == "kill":
            self.killed = True
            self._close()
        else:
            self._listen()

    def finish(self, reply_to: Callable[[int, str, str], str] | None = None) -> "Session":
        """Continue to the end; `reply_to` returns the reply for each moment from its number, kind and name."""
        while not self.is_finished:
            kind, name = self.moments[-1]
            self.resume(reply_to(len(self.moments) - 1, kind, name) if reply_to else "go")
        return self

    def _listen(self) -> None:
        assert self._connection is not None
        end = time.monotonic() + TIMEOUT_SECONDS
        while True:
            while not self._connection.poll(COLLECTION_SECONDS):
                assert time.monotonic() < end, f"the operation hangs after {self.moments[-3:]}"
                # It may wait for something to be gone.
                self.collect_garbage()
            message = self._connection.recv()
            if isinstance(message, OperationResult):
                self.ended = message
                self._close()
                return
            if isinstance(message, LateRequest):
                self.late.append(message)
                continue
            if message[0] != COLLECT_GARBAGE:
                self.moments.append(message)
                return
            self.collect_garbage()
            self._connection.send("go")

    def close(self) -> None:
        """Kill the process in any state."""
        if not self.is_finished:
            self._process.kill()
            self.killed = True
            self._close()

    def _close(self) -> None:
        self._process.join(TIMEOUT_SECONDS)
        if self._connection is not None:
            self._connection.close()
