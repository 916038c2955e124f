"""Runs the wrapper up to one operation on its record, there to be killed or stopped: `faulty.py WRAPPER -- COMMAND…`.

It is a separate program, since a pod is a process: the wrapper dies with its command, as a container does. It can
happen at every operation that changes the record, because Python raises an audit event (`sys.audit`) before each.
Operations of other threads, which write heartbeats, do not count: their number depends on timing.

Environment:
    FAULT         `<signal> <n>`: before operation n, from 1, this process group gets that signal (9: it is killed;
                  19: it is stopped); unset: nothing happens
    FAULT_COUNT   a file that gets the number of operations at the end
"""

import atexit
import os
import runpy
import sys
import threading
from pathlib import Path
from typing import Any

CHANGES = {"os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.chmod"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def watch(record: str, signal: int, at: int, counted: str) -> None:
    """Count the main thread's operations on the record, and send the signal before operation `at`."""
    main, seen = threading.main_thread(), 0

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event not in CHANGES and not (event == "open" and int(arguments[2] or 0) & WRITES):
            return
        named = any(
            isinstance(argument, (str, os.PathLike)) and os.fspath(argument).startswith(record)
            for argument in arguments
        )
        if named and threading.current_thread() is main:
            seen += 1
            if seen == at:
                os.killpg(0, signal)

    def tell() -> None:
        Path(counted).write_text(str(seen))

    sys.addaudithook(look)
    if counted:
        atexit.register(tell)


def main() -> None:
    """See the top of this file."""
    program, *arguments = sys.argv[1:]
    signal, at = (int(word) for word in os.environ.pop("FAULT", "0 0").split())
    watch(os.environ["TRAINSTACK_RECORD"], signal, at, os.environ.pop("FAULT_COUNT", ""))
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
