"""SIGTERM: at once while the program is starting, after the current batch once it trains."""

import os
import signal
import threading

STOPPED = 128 + signal.SIGTERM
"""Exit code of a stopped run, 143: restart policies take it as "run me again"."""


class StopSignal:
    """Knows whether SIGTERM came.

    A Python signal handler cannot run while the main thread sits in native code, and joining the other ranks may sit
    there for half an hour; nor does a container's first process die of a signal by default. So a thread of its own
    listens, and until `defer` is called (nothing is worth saving before) it ends the process itself.
    """

    def __init__(self) -> None:
        """Listens from now on. Call from the main thread."""
        self._deferred = False
        self._came = threading.Event()
        self._lock = threading.Lock()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(reader,), daemon=True).start()

    def defer(self) -> None:
        """From now on a signal is only noted, for `came`."""
        with self._lock:
            self._deferred = True

    def came(self) -> bool:
        """Whether SIGTERM has come."""
        return self._came.is_set()

    def _listen(self, reader: int) -> None:
        while number := os.read(reader, 1):
            if number[0] != signal.SIGTERM:
                continue
            with self._lock:
                self._came.set()
                if not self._deferred:
                    os.write(2, b"stopped by SIGTERM before the training began\n")
                    os._exit(STOPPED)
