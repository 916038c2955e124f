"""One comment, created once and updated in place, on a server that answers like GitHub."""

import pytest

from tests.unit.review.github_server import BASE, HEAD, Server, make_pull
from trainstack.review.comment import MARKER
from trainstack.review.github import GitHub, GitHubError
from trainstack.review.selection import PullRequest


def client(server: Server, pauses: list[float] | None = None) -> GitHub:
    """Return a client that does not pause."""
    return GitHub(server.api, "us/it", "secret-token", pause=(pauses if pauses is not None else []).append)


def test_a_comment_is_made_and_then_updated_in_place(server: Server) -> None:
    """The same holds after 250 other comments; an unchanged text makes no write."""
    for number in range(250):
        server.comment(f"comment {number}", author="someone")
    with client(server) as github:
        address = github.put_comment(7, MARKER, f"{MARKER}\none")
        assert github.put_comment(7, MARKER, f"{MARKER}\ntwo") == address
        server.requests.clear()
        github.put_comment(7, MARKER, f"{MARKER}\ntwo")
    assert [comment["body"] for comment in server.comments[250:]] == [f"{MARKER}\ntwo"]
    assert server.requests == ["GET /repos/us/it/issues/7/comments"] * 3


def test_a_foreign_comment_is_never_edited(server: Server) -> None:
    """Its first line does not matter."""
    theirs = server.comment(f"{MARKER}\nmine", author="someone")
    with client(server) as github:
        github.put_comment(7, MARKER, f"{MARKER}\nours")
    assert theirs["body"] == f"{MARKER}\nmine"
    assert len(server.comments) == 2


@pytest.mark.parametrize(("status", "pauses"), [(500, [1.0]), (502, [1.0]), (429, [1.0])])
def test_a_lost_answer_makes_no_second_comment(server: Server, status: int, pauses: list[float]) -> None:
    """A retry first checks whether the previous attempt succeeded."""
    server.failures = [("POST", status)]
    waited: list[float] = []
    with client(server, waited) as github:
        github.put_comment(7, MARKER, f"{MARKER}\none")
    assert [comment["body"] for comment in server.comments] == [f"{MARKER}\none"]
    assert waited == pauses


def test_a_comment_that_was_deleted_before_its_edit_is_created_again(server: Server) -> None:
    """The edit fails, so the next attempt creates the comment."""
    server.comment(f"{MARKER}\nold")
    server.failures = [("PATCH", 404)]
    with client(server) as github:
        github.put_comment(7, MARKER, f"{MARKER}\nnew")
    assert server.comments[0]["body"] == f"{MARKER}\nnew"


def test_a_server_that_stays_broken_is_an_error(server: Server) -> None:
    """It fails after three pauses, with the message of the server."""
    server.failures = [("GET", 503)] * 4
    waited: list[float] = []
    with client(server, waited) as github, pytest.raises(GitHubError, match="answered 503"):
        github.put_comment(7, MARKER, MARKER)
    assert waited == [1.0, 3.0, 9.0]


def test_a_refusal_is_not_tried_again(server: Server) -> None:
    """The error names the missing right, and never the token."""
    with (
        GitHub(server.api, "us/it", "wrong-token", pause=lambda _: None) as github,
        pytest.raises(GitHubError, match="pull-requests: write") as caught,
    ):
        github.put_comment(7, MARKER, MARKER)
    assert "wrong-token" not in str(caught.value)
    assert len(server.requests) == 1


def test_only_pull_requests_that_end_in_the_commit_are_found(server: Server) -> None:
    """Pull requests with a newer commit, without their fork or with another fork are not found."""
    server.pulls = [
        make_pull(1),
        make_pull(2, sha="d" * 40),
        make_pull(3, repo=None),
        make_pull(4, repo={"full_name": "x/y"}),
    ]
    with client(server) as github:
        assert github.open_pulls(HEAD) == [PullRequest(1, BASE)]
