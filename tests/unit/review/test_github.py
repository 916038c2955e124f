"""One comment, made once and updated in place, against a server that speaks as GitHub does."""

import pytest

from tests.unit.review.github_server import BASE, HEAD, Server, make_pull
from trainstack.review.comment import MARKER
from trainstack.review.github import GitHub, GitHubError
from trainstack.review.selection import Pull


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


def test_only_pull_requests_that_end_in_the_commit_are_found(server: Server) -> None:
    """Not one that moved on, nor one whose fork is gone or is another."""
    server.pulls = [
        make_pull(1),
        make_pull(2, sha="d" * 40),
        make_pull(3, repo=None),
        make_pull(4, repo={"full_name": "x/y"}),
    ]
    with client(server) as github:
        assert github.pulls(HEAD) == [Pull(1, BASE)]
