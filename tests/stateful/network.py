"""What a network between a client and an API server does to single requests."""

from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

REQUEST_LOST, ANSWER_LOST, LATE = "the request is lost", "the answer is lost", "the request is late"
FAULTS = (REQUEST_LOST, ANSWER_LOST, LATE)


@dataclass(frozen=True)
class LateRequest:
    """A request that a load balancer or a slow webhook still holds when the client has given up."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    content: bytes


@dataclass
class Network:
    """The way from one process to the API server."""

    postpone: Callable[[LateRequest], None]
    """Takes the requests that are to arrive later."""
    faults: list[str] = field(default_factory=list)
    """What happens to the next writes."""

    def arm(self, reply: str) -> None:
        """Let a fault happen to the next write."""
        if reply in FAULTS:
            self.faults.append(reply)

    def next_fault(self) -> str:
        """Return what happens to this write; nothing if empty."""
        return self.faults.pop(0) if self.faults else ""

    def before(self, fault: str, request: httpx.Request) -> None:
        """Lose or postpone a request. Raises TransportError."""
        if fault == REQUEST_LOST:
            raise httpx.ConnectError("dial tcp: connect: connection refused", request=request)
        if fault == LATE:
            kept = tuple((key, value) for key, value in request.headers.items() if key in ("content-type", "accept"))
            self.postpone(LateRequest(request.method, str(request.url), kept, request.content))
            raise _no_answer(request)

    @staticmethod
    def after(fault: str, request: httpx.Request) -> None:
        """Lose an answer. Raises TransportError."""
        if fault == ANSWER_LOST:
            raise _no_answer(request)


def _no_answer(request: httpx.Request) -> httpx.ReadError:
    return httpx.ReadError("read tcp: read: connection reset by peer", request=request)
