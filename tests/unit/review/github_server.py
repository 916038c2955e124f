"""A server that answers like GitHub, for the tests of the review."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from trainstack.review.github import AUTHOR, Head

HEAD = Head("someone/fork", "topic; rm -rf /", "c" * 40)
BASE = "b" * 40
RUN = 11
"""The run of preview.yml that a comment follows."""


def make_pull(number: int, **head: Any) -> dict[str, Any]:
    """Return an open pull request whose head is HEAD with these changes."""
    return {
        "number": number,
        "base": {"sha": BASE},
        "head": {"sha": HEAD.commit, "repo": {"full_name": HEAD.repository}, **head},
    }


def make_job(name: str, conclusion: str | None, *, steps: int = 1) -> dict[str, Any]:
    """Return a job of the run that started this number of steps."""
    return {"name": name, "conclusion": conclusion, "steps": [{"name": f"step {number}"} for number in range(steps)]}


class Server(ThreadingHTTPServer):
    """A repository `us/it` with pull requests and comments in memory."""

    def __init__(self) -> None:
        """Start without comments and failures."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        self.root: list[dict[str, Any]] = []
        """The entries of the root folder of BASE."""
        self.changed: list[dict[str, Any]] = []
        """The files that every pull request changes."""
        self.jobs: list[dict[str, Any]] = []
        """The jobs of RUN."""
        self.statuses: list[dict[str, Any]] = []
        """The statuses of HEAD, in the order in which they were set."""
        self.failures: list[tuple[str, int]] = []
        """Method and status of requests that fail; those with status 502 take effect before."""
        self.requests: list[str] = []

    @property
    def api(self) -> str:
        """Return the address of the API."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def comment(self, body: str, author: str = AUTHOR, pull: int = 7) -> dict[str, Any]:
        """Put a comment on a pull request."""
        number = len(self.comments) + 1
        comment = {"id": number, "body": body, "user": {"login": author}, "html_url": f"{self.api}/c/{number}"}
        comment["issue_url"] = f"{self.api}/repos/us/it/issues/{pull}"
        self.comments.append(comment)
        return comment


class Handler(BaseHTTPRequestHandler):
    """Handler of the REST API."""

    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the standard library)
        """Print nothing."""

    def answer(self) -> None:
        """Answer a request, or fail as the test demands."""
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        self.server.requests.append(f"{self.command} {path}")
        length = int(self.headers.get("Content-Length") or 0)
        payload = json.loads(self.rfile.read(length)) if length else None
        status, result = 200, self.respond(path, query, payload)
        if result is None:
            status = 404
        if self.server.failures and self.server.failures[0][0] == self.command:
            status = self.server.failures.pop(0)[1]
        if self.headers["Authorization"] != "Bearer secret-token":
            status, result = 401, None
        body = json.dumps(result).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = answer  # noqa: N815 (the names that the standard library calls)

    def respond(self, path: str, query: dict[str, list[str]], payload: Any) -> Any:
        """Return the result of a request, or None for an unknown object."""
        fails = bool(self.server.failures) and self.server.failures[0] in (("POST", 500), ("PATCH", 500))
        if self.command == "GET":
            return self.read(path, query)
        if fails and self.command == self.server.failures[0][0]:
            return {}
        if self.command == "POST":
            if not path.endswith(f"/statuses/{HEAD.commit}"):
                return self.server.comment(payload["body"], pull=int(path.split("/")[-2]))
            self.server.statuses.append(payload)
            return payload
        number = int(path.rpartition("/")[2])
        existing = next((comment for comment in self.server.comments if comment["id"] == number), None)
        if existing is not None:
            existing.update(payload)
        return existing

    def read(self, path: str, query: dict[str, list[str]]) -> Any:
        """Return the answer to a GET."""
        if path.endswith(f"/git/trees/{BASE}"):
            return {"tree": self.server.root}
        page, size = int(query["page"][0]), int(query["per_page"][0])
        part = slice((page - 1) * size, page * size)
        if path.endswith(f"/actions/runs/{RUN}/jobs"):
            return {"total_count": len(self.server.jobs), "jobs": self.server.jobs[part]}
        comments = [comment for comment in self.server.comments if f"{comment['issue_url']}/comments".endswith(path)]
        lists = {"comments": comments, "pulls": self.server.pulls, "files": self.server.changed}
        return lists[path.rpartition("/")[2]][part]
