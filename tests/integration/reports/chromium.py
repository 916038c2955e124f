"""Chromium without a window, controlled by its DevTools protocol over two pipes.

Source: https://chromedevtools.github.io/devtools-protocol/, and the switch --remote-debugging-pipe.
"""

import base64
import fcntl
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def find() -> str | None:
    """Return the first Chromium on PATH that can open the tests' files; a snap, like Ubuntu's package, cannot."""
    for program in filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        file = Path(program).resolve()
        with file.open("rb") as opened:
            is_script = opened.read(2) == b"#!"
        if not (file.name == "snap" or (is_script and b"/snap/" in file.read_bytes())):
            return program
    return None


PROGRAM = find()
"""None if this machine has no such program."""


@dataclass
class Visit:
    """A page as a browser renders it."""

    width: int
    complaints: list[str] = field(default_factory=list)
    """The page's console output, exceptions included."""
    requests: list[str] = field(default_factory=list)
    """The requested addresses, the page's own first."""
    found: Any = None
    """The result of the script."""


class Browser:
    """A running Chromium."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = os.fdopen(to, "wb", buffering=0), os.fdopen(back, "rb")
        self._read_ahead = bytearray()
        self._number = 0
        self._events: list[dict[str, Any]] = []
        (page,) = (target for target in self._call("Target.getTargets")["targetInfos"] if target["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable", self._session)

    def visit(
        self,
        file: Path,
        width: int,
        script: str = "null",
        *,
        phone: bool = False,
        dark: bool = False,
        picture: Path | None = None,
    ) -> Visit:
        """Open a file in a tab of this width, evaluate a script in it, and take a picture of the whole page as PNG.

        There is one tab: each tab is another process.
        """
        visit = Visit(width)

        def call(method: str, **parameters: Any) -> dict[str, Any]:
            return self._call(method, self._session, **parameters)

        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": phone}
        call("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        call("Page.navigate", url=file.as_uri())
        self._until("Page.loadEventFired")
        result = call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        visit.found = result["result"].get("value")
        if picture:
            size = call("Page.getLayoutMetrics")["cssContentSize"]
            area = {"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1}
            shot = call("Page.captureScreenshot", captureBeyondViewport=True, clip=area)
            picture.write_bytes(base64.b64decode(shot["data"]))
        for event in self._events:
            visit.complaints += _complaints(event)
            if event["method"] == "Network.requestWillBeSent":
                visit.requests.append(event["params"]["request"]["url"])
        return visit

    def close(self) -> None:
        """End the browser."""
        self._call("Browser.close")

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._to.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self._events.append(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    def _until(self, method: str) -> None:
        while not any(event["method"] == method for event in self._events):
            self._events.append(self._read())

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._read_ahead:
            chunk = self._back.read1()
            if not chunk:
                raise AssertionError("Chromium has ended")
            self._read_ahead += chunk
        text, _, self._read_ahead = self._read_ahead.partition(b"\0")
        return dict(json.loads(text))


def _complaints(event: dict[str, Any]) -> list[str]:
    params = event.get("params", {})
    if event["method"] == "Runtime.consoleAPICalled":
        return [" ".join(str(argument.get("value")) for argument in params["args"])]
    if event["method"] == "Runtime.exceptionThrown":
        return [params["exceptionDetails"]["text"]]
    return [params["entry"]["text"]] if event["method"] == "Log.entryAdded" else []


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Run a Chromium during the block, with its state in a temporary folder."""
    if PROGRAM is None:
        raise AssertionError("there is no Chromium")
    its_input, to = map(_high, os.pipe())
    back, its_output = map(_high, os.pipe())
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
    words = [PROGRAM, *options, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
    # Chromium reads from descriptor 3 and writes to 4. Its output for people is about this machine.
    descriptors = [
        (os.POSIX_SPAWN_DUP2, its_input, 3),
        (os.POSIX_SPAWN_DUP2, its_output, 4),
        *((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)),
    ]
    process = os.posix_spawn(PROGRAM, words, os.environ, file_actions=descriptors)
    os.close(its_input)
    os.close(its_output)
    started = Browser(to, back)
    try:
        yield started
        started.close()
    except BaseException:
        os.kill(process, signal.SIGKILL)
        raise
    finally:
        os.waitpid(process, 0)


def _high(descriptor: int) -> int:
    """Duplicate a descriptor to a number beyond those that a program inherits."""
    number = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return number
