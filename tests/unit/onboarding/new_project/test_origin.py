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
    [{"hashes": {"sha256": HASH}}, {"hash": f"sha256={HASH}"}, {"hash": f"sha256={HASH}", "hashes": {"sha256": HASH}}],
)
def test_a_wheel_on_this_machine(archive: object) -> None:
    """The project gets a copy. pip wrote the hash in one of two forms."""
    found = origin({"url": f"file:///my%20wheels/{WHEEL}".replace("%20", "_"), "archive_info": archive})
    assert found == Origin(requirement=REQUIREMENT, wheel=Path("/my_wheels") / WHEEL)


def test_a_wheel_without_a_recorded_hash_is_hashed() -> None:
    """uv records none; the file may be gone."""
    body = {"url": f"file:///my%20wheels/{WHEEL}", "archive_info": {}}
    assert origin(body, HASH) == Origin(requirement=REQUIREMENT, wheel=Path("/my wheels") / WHEEL)
    assert "the hash of file:///my%20wheels/" in origin(body).problem


def test_a_wheel_at_an_address() -> None:
    """pip downloads it, and compares the hash."""
    url = f"https://example.org/releases/{WHEEL}"
    assert origin({"url": url, "archive_info": {"hashes": {"sha256": HASH}}}) == Origin(
        requirement=f"trainstack @ {url} --hash=sha256:{HASH}"
    )


def test_a_source_archive_at_an_address() -> None:
    """It is built without an isolated environment."""
    url = "https://example.org/trainstack-0.1.0.tar.gz"
    assert origin({"url": url, "archive_info": {"hash": f"sha256={HASH}"}}) == Origin(
        source=f"trainstack @ {url}#sha256={HASH}"
    )


def test_a_commit() -> None:
    """The commit identifies the content; the tag may move."""
    body = {
        "url": "https://git.example.org/ml/trainstack.git",
        "vcs_info": {"vcs": "git", "requested_revision": "v0.1.0", "commit_id": COMMIT},
    }
    assert origin(body) == Origin(source=f"trainstack @ git+https://git.example.org/ml/trainstack.git@{COMMIT}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "from a package index"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("7", "cannot be read"),
        ('{"url": "file:///src", "dir_info": {"editable": true}}', "from a folder, file:///src"),
        ('{"url": "file:///src"}', "from a folder"),
        ('{"url": "file:///trainstack.tar.gz", "archive_info": {}}', "/trainstack.tar.gz, which is no wheel"),
        ('{"url": "https://example.org/a.whl", "archive_info": {"hash": "md5=0"}}', "is not known"),
        ('{"url": "https://example.org/a.whl", "archive_info": {"hashes": {"sha256": "AB"}}}', "is not known"),
        ('{"url": "https://example.org/$(id).whl", "archive_info": {}}', "characters"),
        ('{"url": "https://h/r", "vcs_info": {"vcs": "hg", "commit_id": "1"}}', "without a commit of git"),
        ('{"url": "https://h/r", "vcs_info": {"vcs": "git"}}', "without a commit of git"),
        ('{"url": "https://h/r", "vcs_info": []}', "cannot be read"),
        ('{"url": "https://h/a.whl", "archive_info": [1]}', "cannot be read"),
    ],
)
def test_other_origins_have_a_problem(text: str | None, words: str) -> None:
    """Nothing that a workflow could not verify is written."""
    found = read_origin(text, lambda _: None)
    assert (found.requirement, found.source, found.wheel) == ("", "", None)
    assert words in found.problem
