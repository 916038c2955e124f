"""Origins of an installation, from the records that installers write."""

import json
from pathlib import Path

import pytest

from trainstack.onboarding.new_project.origin import Origin, read_origin

HASH, COMMIT = "ab" * 32, "cd" * 20
WHEEL = "trainstack-0.1.0-py3-none-any.whl"
REQUIREMENT = f"./wheels/{WHEEL} --hash=sha256:{HASH}"


def origin(body: object, file_hash: str | None = None) -> Origin:
    """Return the origin of a record."""
    return read_origin(json.dumps(body), lambda _: file_hash)


@pytest.mark.parametrize(
    "archive",
    [
        {"hashes": {"sha256": HASH}},
        {"hash": f"sha256={HASH}"},
        {"hash": f"sha256={HASH}", "hashes": {"sha256": HASH}},
        # uv records none.
        {},
        None,
    ],
)
def test_a_wheel_on_this_machine(archive: object) -> None:
    """The project gets a copy, with the hash of the file."""
    body = {"url": f"file:///my%20wheels/{WHEEL}", "archive_info": archive}
    assert origin(body, HASH) == Origin(requirement=REQUIREMENT, wheel=Path("/my wheels") / WHEEL)


def test_a_wheel_that_is_not_the_installed_one_any_more() -> None:
    """It was built again under the same name, or deleted: a copy would not have the recorded hash."""
    body = {"url": f"file:///wheels/{WHEEL}", "archive_info": {"hashes": {"sha256": HASH}}}
    assert "has changed since it was installed" in origin(body, "cd" * 32).problem
    assert "cannot be read any more" in origin(body, None).problem


@pytest.mark.parametrize("name", [WHEEL, "trainstack-0.1.0.tar.gz"])
def test_an_archive_at_an_address(name: str) -> None:
    """pip downloads it, and compares the hash; a source archive is built without an isolated environment."""
    url = f"https://example.org/releases/{name}"
    assert origin({"url": url, "archive_info": {"hashes": {"sha256": HASH}}}) == Origin(
        requirement=f"trainstack @ {url} --hash=sha256:{HASH}"
    )


@pytest.mark.parametrize(("subdirectory", "fragment"), [({}, ""), ({"subdirectory": "py"}, "#subdirectory=py")])
@pytest.mark.parametrize("scheme", ["https://", "ssh://git@"])
def test_a_commit(scheme: str, subdirectory: dict[str, str], fragment: str) -> None:
    """The commit identifies the content; the tag may move."""
    body = {
        "url": f"{scheme}git.example.org/ml/trainstack.git",
        "vcs_info": {"vcs": "git", "requested_revision": "v0.1.0", "commit_id": COMMIT},
        **subdirectory,
    }
    requirement = f"trainstack @ git+{scheme}git.example.org/ml/trainstack.git@{COMMIT}{fragment}"
    assert origin(body) == Origin(requirement=requirement)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "from a package index"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("7", "cannot be read"),
        ('{"url": "file:///src", "dir_info": {"editable": true}}', "from a folder, 'file:///src'"),
        ('{"url": "file:///src"}', "from a folder"),
        ('{"url": "file:///trainstack.tar.gz", "archive_info": {}}', "/trainstack.tar.gz, which is no wheel"),
        ('{"url": "file:///d/a/x.whl%0Aevil==1", "archive_info": {}}', "characters"),
        ('{"url": "file:///d/a/x.whl%0Aevil", "archive_info": {}}', "which is no wheel"),
        ('{"url": "https://example.org/a.whl", "archive_info": {"hash": "md5=0"}}', "was not recorded"),
        ('{"url": "https://example.org/a.whl", "archive_info": {"hashes": {"sha256": "AB"}}}', "was not recorded"),
        ('{"url": "https://example.org/$(id).whl", "archive_info": {}}', "characters"),
        ('{"url": "https://example.org/a.whl?sig=secret", "archive_info": {}}', "has a query"),
        ('{"url": "https://h/r", "vcs_info": {"vcs": "hg", "commit_id": "1"}}', "without a commit of git"),
        ('{"url": "https://h/r", "vcs_info": {"vcs": "git"}}', "without a commit of git"),
        ('{"url": "https://h/r", "vcs_info": []}', "cannot be read"),
        ('{"url": "https://h/a.whl", "archive_info": [1]}', "cannot be read"),
        (json.dumps({"url": "file:///r", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}), "on this machine"),
        (
            json.dumps({"url": "https://h/r", "vcs_info": {"vcs": "git", "commit_id": COMMIT}, "subdirectory": "a b"}),
            "its folder 'a b'",
        ),
    ],
)
def test_other_origins_have_a_problem(text: str | None, words: str) -> None:
    """Nothing that a workflow could not verify is written."""
    found = read_origin(text, lambda _: HASH)
    assert (found.requirement, found.wheel) == ("", None)
    assert words in found.problem
