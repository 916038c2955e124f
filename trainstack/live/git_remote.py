"""What a repository's branches and tags name now: `git ls-remote` with the person's own git and credentials."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

from trainstack.settings.errors import printable

TIMEOUT_SECONDS = 30.0
"""For one repository, all its names together."""

_LINE = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(\S+)")
_GENERAL = (
    "fatal: Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
)
"""What git prints below the message of ssh, whatever that is."""


class GitError(Exception):
    """A repository that does not answer, or a name without a commit. The message has the reason and the remedy."""


def ls_remote(address: str, names: Collection[str], folder: Path) -> dict[str, str]:
    """The objects of the branches and tags with these names, by ref; a tag's commit is that of `refs/tags/<name>^{}`.

    git runs in `folder`, whose own configuration counts. It never prompts. Raises GitError.
    """
    patterns = [ref for name in names for ref in _refs(name)]
    code, stdout, stderr = _run(["git", "ls-remote", "--", address, *patterns], folder, _environment(folder))
    if code != 0:
        raise GitError(
            f"{address}: {_reason(stderr) or f'git ended with {code}'}; see that `git ls-remote {address}` works "
            "without a prompt"
        )
    # git matches the ends of refs too: refs/remotes/x/refs/heads/main.
    found = {match[2]: match[1] for line in stdout.splitlines() if (match := _LINE.fullmatch(line))}
    return {ref: found[ref] for ref in patterns if ref in found}


def commit_of(address: str, name: str, refs: Mapping[str, str]) -> str:
    """The commit of a branch or a tag, by what `ls_remote` found. Raises GitError where there is none, or are two."""
    head, tag, peeled = _refs(name)
    branch, tagged = refs.get(head), refs.get(peeled) or refs.get(tag)
    if branch and tagged:
        raise GitError(
            f"{address}: {name} is a branch ({branch}) and a tag ({tagged}); write the commit that is meant as revision"
        )
    if found := branch or tagged:
        return found
    raise GitError(f"{address}: there is no branch or tag {name}; push it, or correct the name")


def _refs(name: str) -> tuple[str, str, str]:
    """The branch, the tag, and the commit that an annotated tag points to. Names hold no characters of patterns."""
    return f"refs/heads/{name}", f"refs/tags/{name}", f"refs/tags/{name}^{{}}"


def _environment(folder: Path) -> dict[str, str]:
    """The person's variables, with everything off that would prompt."""
    own = os.environ.get("GIT_SSH_COMMAND") or _run(["git", "config", "core.sshCommand"], folder, os.environ)[1].strip()
    ssh = own or shlex.quote(os.environ.get("GIT_SSH") or "ssh")
    return {
        "GIT_ASKPASS": "",  # else core.askPass or SSH_ASKPASS would open a window
        **os.environ,
        "GIT_TERMINAL_PROMPT": "0",
        "GCM_INTERACTIVE": "never",
        "GIT_SSH_COMMAND": f"{ssh} -o BatchMode=yes",
        "LC_ALL": "C",
    }


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """The exit code, stdout and stderr."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise GitError("git is not installed; install it, or write commits instead of branches and tags") from None
    with process:
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            # git's helpers (ssh, git-remote-https) hold the pipes open after git itself is gone.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            stdout, stderr = "", f"no answer within {TIMEOUT_SECONDS:.0f} s"
    return process.returncode, stdout, stderr


def _reason(stderr: str) -> str:
    """The last line of git's that has a reason. Credentials of addresses are not in it: git leaves them out."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if line not in _GENERAL] or lines
    return printable(telling[-1]) if telling else ""
