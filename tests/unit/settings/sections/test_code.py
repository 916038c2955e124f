"""The addresses and revisions of code that are accepted, and the faults of others."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.settings.loading.test_load import runs_of
from trainstack.settings.model import Settings
from trainstack.settings.sections.code import Code

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CANARY = "canary-7f3a"


def make_code(**changes: Any) -> Code:
    """Return the code of a public repository, by https."""
    return Code(**{"git": "https://git.example.org/mnist.git", "revision": COMMIT, "mount_path": "/mnist", **changes})


@pytest.mark.parametrize(
    "address",
    [
        "https://git.example.org/mnist",
        "https://GIT.example.org:8443/mnist.git/",
        "ssh://git@git.example.org/mnist.git",
        "ssh://git.example.org:2222/mnist",
        "git@git.example.org:mnist.git",
        "git.example.org:/mnist",
    ],
)
def test_a_repository_does_not_depend_on_its_protocol(address: str) -> None:
    """Protocol, user, port and `.git` are not part of its identity."""
    assert make_code(git=address, secret="deploy-key").repository == "git.example.org/mnist"


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{CANARY}@git.example.org/mnist",
        f"https://{CANARY}@git.example.org/mnist",
        f"http://{CANARY}@git.example.org/mnist",
        f"ssh://git:{CANARY}@git.example.org/mnist",
        f"git:{CANARY}@git.example.org:mnist",
        f"https://git.example.org/mnist?private_token={CANARY}",
        f"https://git.example.org/mnist#{CANARY}",
        f"http://git.example.org/{CANARY}",
        f"git://git.example.org/{CANARY}",
        f"file:///srv/{CANARY}",
        f"/srv/{CANARY}",
        f"ext::sh -c {CANARY}",
        f"-oProxyCommand={CANARY}:x",
        f"https://git.example.org/$({CANARY})",
        f"https://git.example.org/x\n{CANARY}",
    ],
)
def test_a_refused_address_is_never_repeated(address: str) -> None:
    """It may contain a password. Only https and ssh are accepted."""
    with pytest.raises(ValidationError) as invalid:
        make_code(git=address, secret="deploy-key")
    (error,) = invalid.value.errors(include_input=False, include_url=False)
    assert error["loc"] == ("git",)
    assert CANARY not in error["msg"]


def test_a_password_in_the_address_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """The message names the right place for the credential, without the text of the file."""
    run = f"""
    - name: train
      namespace: a
      code: {{git: "https://user:{CANARY}@git.example.org/mnist", revision: "{COMMIT}", mountPath: /mnist}}
"""
    (fault,) = runs_of(tmp_path, run)
    assert fault == (
        "Pulumi.test.yaml:7: workloads.runs[train].code.git: contains a credential, which would appear in manifests, "
        "logs and records; remove it from the address, and set `secret` to a Secret of the cluster that contains it"
    )


@pytest.mark.parametrize("revision", ["0123abc", "beef", COMMIT[:-1], COMMIT.upper()])
def test_an_abbreviated_commit_is_refused(revision: str) -> None:
    """It may become ambiguous; the remedy is the command that prints the full one."""
    with pytest.raises(ValidationError) as invalid:
        make_code(revision=revision)
    (error,) = invalid.value.errors()
    assert error["msg"].endswith(f"is an abbreviated commit; write what `git rev-parse {revision}` prints in a clone")


@pytest.mark.parametrize(
    "revision", ["main", "v1.0", "team/new-loss", "release-2024.05", "a@b", "HEAD", "größe", "x" * 255]
)
def test_a_branch_or_a_tag_is_a_revision(revision: str) -> None:
    """git accepts it, and the key of its pin has address and name."""
    assert git_accepts(revision)
    assert make_code(revision=revision).pin_key == f"https://git.example.org/mnist.git {revision}"


@pytest.mark.parametrize(
    "revision",
    [
        "",
        "@",
        "-u",
        "--upload-pack=touch x",
        "a b",
        "a..b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "[a]",
        "a\\b",
        "a@{1}",
        ".a",
        "a/.b",
        "a.",
        "a/",
        "/a",
        "a//b",
        "a.lock",
        "a.lock/b",
        "a\tb",
        "a\nb",
        "a\x7f",
    ],
)
def test_an_invalid_name_for_git_is_refused(revision: str) -> None:
    """The rules are those of `git check-ref-format`, which also exclude options."""
    assert not git_accepts(revision)
    with pytest.raises(ValidationError, match="neither a commit nor a valid name of a branch or tag"):
        make_code(revision=revision)


@pytest.mark.parametrize("revision", ["a\u202eb", "a\u00a0b", "x" * 256])
def test_names_that_no_reviewer_can_read_are_refused(revision: str) -> None:
    """git would accept them."""
    with pytest.raises(ValidationError, match="neither a commit nor a valid name of a branch or tag"):
        make_code(revision=revision)


def git_accepts(name: str) -> bool:
    """Return whether git accepts the name of a branch or tag; it parses a name with a leading dash as an option."""
    command = ["git", "check-ref-format", "--allow-onelevel", name]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("revision", [COMMIT, "ab" * 32])
def test_commits_of_sha1_and_sha256_are_accepted(revision: str) -> None:
    assert make_code(revision=revision).revision == revision


def test_ssh_without_a_secret_is_refused() -> None:
    """Host keys are never accepted blindly, so there is no ssh without known_hosts."""
    with pytest.raises(ValidationError, match=r"--from-file=known_hosts=<file>"):
        make_code(git="git@git.example.org:mnist.git")


def test_the_schema_has_the_format_of_a_revision() -> None:
    """Editors find the same faults as the validator."""
    schema = Settings.model_json_schema(by_alias=True)["$defs"]["Code"]["properties"]["revision"]
    samples = (COMMIT, "main", "0123abc", "a b", "-u")
    valid = [
        text for text in samples if re.search(schema["pattern"], text) and not re.search(schema["not"]["pattern"], text)
    ]
    assert valid == [COMMIT, "main"]


def test_a_commit_needs_no_pin() -> None:
    """It is already immutable."""
    assert make_code().pin_key is None
