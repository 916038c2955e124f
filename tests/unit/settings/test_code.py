"""Which addresses and revisions of code are taken, and what is said of the others."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from settings.code import Code
from settings.model import Settings
from tests.unit.settings.test_load import runs_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CANARY = "canary-7f3a"


def make_code(**changes: Any) -> Code:
    """A public repository, by https."""
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
def test_a_repository_is_one_by_whatever_way_it_is_reached(address: str) -> None:
    """Protocol, user, port and `.git` say how to get there, not what is there."""
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
    """It may hold a password; nor is anything taken but https and ssh."""
    with pytest.raises(ValidationError) as caught:
        make_code(git=address, secret="deploy-key")
    (error,) = caught.value.errors(include_input=False, include_url=False)
    assert error["loc"] == ("git",)
    assert CANARY not in error["msg"]


def test_a_password_in_the_address_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """The person is told where the credential belongs, and the file's line does not come with it."""
    run = f"""
    - name: train
      namespace: a
      code: {{git: "https://user:{CANARY}@git.example.org/mnist", revision: "{COMMIT}", mountPath: /mnist}}
"""
    (fault,) = runs_of(tmp_path, run)
    assert fault == (
        "Pulumi.test.yaml:7: workloads.runs[train].code.git: holds a credential, which would stand in manifests, logs "
        "and records; take it out of the address, and name under `secret` a Secret of the cluster that holds it"
    )


@pytest.mark.parametrize(
    ("revision", "remedy"),
    [
        ("v1.0", "the last commit that `git ls-remote https://git.example.org/mnist.git 'v1.0' 'v1.0^{}'` prints"),
        ("main", "the last commit that `git ls-remote https://git.example.org/mnist.git 'main' 'main^{}'` prints"),
        ("0123abc", "what `git rev-parse 0123abc` prints in a clone"),
    ],
)
def test_only_a_whole_commit_is_a_revision(revision: str, remedy: str) -> None:
    """What moves would change what a run is; the remedy is the command that prints the commit."""
    with pytest.raises(ValidationError) as caught:
        make_code(revision=revision)
    (error,) = caught.value.errors()
    assert error["msg"].endswith(f"; write {remedy}")


@pytest.mark.parametrize("revision", [COMMIT, "ab" * 32])
def test_both_lengths_of_commits_are_taken(revision: str) -> None:
    """Of SHA-1 and of SHA-256."""
    assert make_code(revision=revision).revision == revision


def test_ssh_without_a_secret_is_refused() -> None:
    """Host keys are never accepted blindly, so there is no ssh without known_hosts."""
    with pytest.raises(ValidationError, match=r"--from-file=known_hosts=<file>"):
        make_code(git="git@git.example.org:mnist.git")


def test_editors_know_what_a_revision_looks_like() -> None:
    """The schema says what the validator does."""
    found = Settings.model_json_schema(by_alias=True)["$defs"]["Code"]["properties"]["revision"]
    assert found["pattern"] == "^([0-9a-f]{40}|[0-9a-f]{64})$"
