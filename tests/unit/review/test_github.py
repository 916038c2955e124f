"""One comment, made once and updated in place, against a server that speaks as GitHub does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from review.__main__ import main
from review.comment import MARKER
from review.github import AUTHOR, GitHub, GitHubError, Head
from review.report import write
from tests.unit.review.samples import make_report

HEAD = Head("someone/fork", "topic; rm -rf /", "c" * 40)


class Server(ThreadingHTTPServer):
    """A repository `us/it` with pull requests and comments in memory."""

    def __init__(self) -> None:
        """Start without comments, and with nothing that fails."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        self.failures: list[tuple[str, int]] = []
        """Method and status of requests that fail; those with status 502 do their work before."""
        self.asked: list[str] = []

    @property
    def api(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def comment(self, body: str, author: str = AUTHOR) -> dict[str, Any]:
        """Put a comment there."""
        number = len(self.comments) + 1
        made = {"id": number, "body": body, "user": {"login": author}, "html_url": f"{self.api}/c/{number}"}
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
            things = self.server.comments if path.endswith("/comments") else self.server.pulls
            page, size = int(query["page"][0]), int(query["per_page"][0])
            return things[(page - 1) * size : page * size]
        if fails and self.command == self.server.failures[0][0]:
            return {}
        if self.command == "POST":
            return self.server.comment(sent["body"])
        number = int(path.rpartition("/")[2])
        found = next((each for each in self.server.comments if each["id"] == number), None)
        if found is not None:
            found.update(sent)
        return found


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on a port of its own."""
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def client(server: Server, pauses: list[float] | None = None) -> GitHub:
    """A client that does not really pause."""
    return GitHub(server.api, "us/it", "secret-token", pause=(pauses if pauses is not None else []).append)


def test_a_comment_is_made_and_then_updated_in_place(server: Server) -> None:
    """Also behind 250 others; the same text again asks for nothing."""
    for number in range(250):
        server.comment(f"comment {number}", author="someone")
    with client(server) as github:
        address = github.put_comment(7, MARKER, f"{MARKER}\none")
        assert github.put_comment(7, MARKER, f"{MARKER}\ntwo") == address
        server.asked.clear()
        github.put_comment(7, MARKER, f"{MARKER}\ntwo")
    assert [each["body"] for each in server.comments[250:]] == [f"{MARKER}\ntwo"]
    assert server.asked == ["GET /repos/us/it/issues/7/comments"] * 3


def test_a_comment_of_somebody_else_is_never_edited(server: Server) -> None:
    """Whatever it begins with."""
    theirs = server.comment(f"{MARKER}\nmine", author="someone")
    with client(server) as github:
        github.put_comment(7, MARKER, f"{MARKER}\nours")
    assert theirs["body"] == f"{MARKER}\nmine"
    assert len(server.comments) == 2


@pytest.mark.parametrize(("status", "pauses"), [(500, [1.0]), (502, [1.0]), (429, [1.0])])
def test_a_lost_answer_makes_no_second_comment(server: Server, status: int, pauses: list[float]) -> None:
    """A try looks first whether the one before it did its work."""
    server.failures = [("POST", status)]
    waited: list[float] = []
    with client(server, waited) as github:
        github.put_comment(7, MARKER, f"{MARKER}\none")
    assert [each["body"] for each in server.comments] == [f"{MARKER}\none"]
    assert waited == pauses


def test_a_comment_that_was_deleted_meanwhile_is_made_again(server: Server) -> None:
    """The edit finds nothing, so the next try makes it."""
    server.comment(f"{MARKER}\nold")
    server.failures = [("PATCH", 404)]
    with client(server) as github:
        github.put_comment(7, MARKER, f"{MARKER}\nnew")
    assert server.comments[0]["body"] == f"{MARKER}\nnew"


def test_a_server_that_stays_broken_is_an_error(server: Server) -> None:
    """After three pauses, with what it said."""
    server.failures = [("GET", 503)] * 4
    waited: list[float] = []
    with client(server, waited) as github, pytest.raises(GitHubError, match="answered 503"):
        github.put_comment(7, MARKER, MARKER)
    assert waited == [1.0, 3.0, 9.0]


def test_a_refusal_is_not_tried_again(server: Server) -> None:
    """It names the right that is missing, and never the token."""
    with (
        GitHub(server.api, "us/it", "wrong-token", pause=lambda _: None) as github,
        pytest.raises(GitHubError, match="pull-requests: write") as caught,
    ):
        github.put_comment(7, MARKER, MARKER)
    assert "wrong-token" not in str(caught.value)
    assert len(server.asked) == 1


def make_pull(number: int, **head: Any) -> dict[str, Any]:
    """An open pull request whose head is HEAD, but for the changes."""
    return {"number": number, "head": {"sha": HEAD.commit, "repo": {"full_name": HEAD.repository}, **head}}


def test_only_pull_requests_that_end_in_the_commit_are_found(server: Server) -> None:
    """Not one that moved on, nor one whose fork is gone or is another."""
    server.pulls = [
        make_pull(1),
        make_pull(2, sha="d" * 40),
        make_pull(3, repo=None),
        make_pull(4, repo={"full_name": "x/y"}),
    ]
    with client(server) as github:
        assert github.pulls(HEAD) == [1]


@pytest.mark.parametrize(("open_pulls", "expected"), [([7], 7), ([6, 7], 7), ([8], 8), ([], None), ([5, 6], None)])
def test_the_program_posts_to_the_pull_request_that_github_names(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_pulls: list[int], expected: int | None
) -> None:
    """Reports may choose among several, and nothing else: their number 7 is never believed by itself."""
    head = {"head_repository": {"full_name": HEAD.repository}, "head_branch": HEAD.branch, "head_sha": HEAD.commit}
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"workflow_run": {**head, "html_url": "https://example.org/1"}}), encoding="utf-8")
    write(make_report(pull=7, diff="+ a"), tmp_path / "reports")
    server.pulls = [make_pull(number) for number in open_pulls]
    for name, value in {
        "GITHUB_API_URL": server.api,
        "GITHUB_REPOSITORY": "us/it",
        "GITHUB_TOKEN": "secret-token",
        "GITHUB_EVENT_PATH": str(event),
    }.items():
        monkeypatch.setenv(name, value)
    assert main(["comment", "--reports", str(tmp_path / "reports"), "--post"]) == 0
    posted = [each for each in server.asked if each.startswith("POST")]
    assert posted == ([] if expected is None else [f"POST /repos/us/it/issues/{expected}/comments"])
