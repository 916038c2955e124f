"""The parent's side of an operation: it controls each moment and receives the result."""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from tests.stateful.child import SETTLE, Ended, Operation, run

PATIENCE_SECONDS = 180.0
"""An operation that is silent for so long hangs."""
COLLECTION_SECONDS = 0.3
"""How often the garbage collector comes round while an operation is silent."""
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.stateful.child"])


@dataclass
class Session:
    """A running operation, which pauses at each moment until the parent continues it."""

    operation: Operation
    settle: Callable[[], None]
    """Plays the cluster's garbage collector."""
    moments: list[tuple[str, str]] = field(default_factory=list)
    ended: Ended | None = None
    killed: bool = False
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
    def over(self) -> bool:
        """Whether it has ended, or was killed."""
        return self.killed or self.ended is not None

    def go_on(self, reply: str = "go") -> None:
        """Continue to the next moment; `kill` or the text of a refusal applies to the current one."""
        assert self._connection is not None
        self._connection.send(reply)
        if reply == "kill":
            self.killed = True
            self._close()
        else:
            self._listen()

    def finish(self, strike: Callable[[int, str, str], str] | None = None) -> "Session":
        """Continue to the end; `strike` returns the reply for each moment from its number, kind and name."""
        while not self.over:
            what, name = self.moments[-1]
            self.go_on(strike(len(self.moments) - 1, what, name) if strike else "go")
        return self

    def _listen(self) -> None:
        assert self._connection is not None
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            while not self._connection.poll(COLLECTION_SECONDS):
                assert time.monotonic() < end, f"the operation hangs after {self.moments[-3:]}"
                # It may wait for something to be gone.
                self.settle()
            message = self._connection.recv()
            if isinstance(message, Ended):
                self.ended = message
                self._close()
                return
            if message[0] != SETTLE:
                self.moments.append(message)
                return
            self.settle()
            self._connection.send("go")

    def close(self) -> None:
        """Kill the process in any state."""
        if not self.over:
            self._process.kill()
            self.killed = True
            self._close()

    def _close(self) -> None:
        self._process.join(PATIENCE_SECONDS)
        if self._connection is not None:
            self._connection.close()
