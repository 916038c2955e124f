"""A server that speaks as GitHub does, for the tests of the review."""

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
    """An open pull request whose head is HEAD, but for the changes."""
    return {
        "number": number,
        "base": {"sha": BASE},
        "head": {"sha": HEAD.commit, "repo": {"full_name": HEAD.repository}, **head},
    }


def make_job(name: str, conclusion: str | None, *, steps: int = 1) -> dict[str, Any]:
    """A job of the run, with so many steps that were started."""
    return {"name": name, "conclusion": conclusion, "steps": [{"name": f"step {number}"} for number in range(steps)]}


class Server(ThreadingHTTPServer):
    """A repository `us/it` with pull requests and comments in memory."""

    def __init__(self) -> None:
        """Start without comments, and with nothing that fails."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        self.root: list[dict[str, Any]] = []
        """The entries of the root folder of BASE."""
        self.changed: list[dict[str, Any]] = []
        """The files that every pull request changes."""
        self.jobs: list[dict[str, Any]] = []
        """Those of RUN."""
        self.statuses: list[dict[str, Any]] = []
        """Those of HEAD, in the order in which they were set."""
        self.failures: list[tuple[str, int]] = []
        """Method and status of requests that fail; those with status 502 do their work before."""
        self.asked: list[str] = []

    @property
    def api(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def comment(self, body: str, author: str = AUTHOR, pull: int = 7) -> dict[str, Any]:
        """Put a comment on a pull request."""
        number = len(self.comments) + 1
        made = {"id": number, "body": body, "user": {"login": author}, "html_url": f"{self.api}/c/{number}"}
        made["issue_url"] = f"{self.api}/repos/us/it/issues/{pull}"
        self.comments.append(made)
        return made


class Handler(BaseHTTPRequestHandler):
    """Answers as the REST API does."""

    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name that the standard library gave it)
        """Say nothing."""

    def answer(self) -> None:
        """Do what was asked, and fail where the test wants it."""
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        self.server.asked.append(f"{self.command} {path}")
        length = int(self.headers.get("Content-Length") or 0)
        sent = json.loads(self.rfile.read(length)) if length else None
        status, result = 200, self.work(path, query, sent)
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

    def work(self, path: str, query: dict[str, list[str]], sent: Any) -> Any:
        """The result of a request; None where there is no such thing."""
        fails = bool(self.server.failures) and self.server.failures[0] in (("POST", 500), ("PATCH", 500))
        if self.command == "GET":
            return self.read(path, query)
        if fails and self.command == self.server.failures[0][0]:
            return {}
        if self.command == "POST":
            if not path.endswith(f"/statuses/{HEAD.commit}"):
                return self.server.comment(sent["body"], pull=int(path.split("/")[-2]))
            self.server.statuses.append(sent)
            return sent
        number = int(path.rpartition("/")[2])
        found = next((each for each in self.server.comments if each["id"] == number), None)
        if found is not None:
            found.update(sent)
        return found

    def read(self, path: str, query: dict[str, list[str]]) -> Any:
        """The answer to a GET."""
        if path.endswith(f"/git/trees/{BASE}"):
            return {"tree": self.server.root}
        page, size = int(query["page"][0]), int(query["per_page"][0])
        part = slice((page - 1) * size, page * size)
        if path.endswith(f"/actions/runs/{RUN}/jobs"):
            return {"total_count": len(self.server.jobs), "jobs": self.server.jobs[part]}
        comments = [each for each in self.server.comments if f"{each['issue_url']}/comments".endswith(path)]
        lists = {"comments": comments, "pulls": self.server.pulls, "files": self.server.changed}
        return lists[path.rpartition("/")[2]][part]
