"""The handling of SIGTERM: it ends the program at once during its start, and after the current step during training."""

import os
import signal
import threading

STOPPED = 128 + signal.SIGTERM
"""The exit code of a stopped run, 143, which is a failure for restart policies, so the run is restarted."""


class StopSignal:
    """A record of whether SIGTERM has arrived.

    Python runs no signal handler while the main thread is in native code, where joining the other ranks may take half
    an hour; and by default a signal does not end PID 1 of a container. So a separate thread waits for signals. It ends
    the process until `defer` is called, because there is nothing to save before.
    """

    def __init__(self) -> None:
        """Start to listen. Must be called from the main thread."""
        self._deferred = False
        self._has_arrived = threading.Event()
        self._lock = threading.Lock()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(reader,), daemon=True).start()

    def defer(self) -> None:
        """Only record further signals, for `has_arrived`."""
        with self._lock:
            self._deferred = True

    def has_arrived(self) -> bool:
        """Return whether SIGTERM has arrived."""
        return self._has_arrived.is_set()

    def _listen(self, reader: int) -> None:
        while number := os.read(reader, 1):
            if number[0] != signal.SIGTERM:
                continue
            with self._lock:
                self._has_arrived.set()
                if not self._deferred:
                    os.write(2, b"stopped by SIGTERM before training started\n")
                    os._exit(STOPPED)
