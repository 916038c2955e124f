"""The seconds of a part of a program, printed for the meter."""

import json
import sys
import time

Seconds = dict[str, float]


class Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def seconds(self) -> Seconds:
        """Return the seconds since the clock was made."""
        return {"wall_seconds": time.monotonic() - self._wall, "cpu_seconds": time.process_time() - self._cpu}

    def show(self, seconds: Seconds | None = None) -> None:
        """Print the seconds as the last line of the program."""
        sys.stdout.write(json.dumps(seconds or self.seconds()) + "\n")
