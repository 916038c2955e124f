"""The commits of the branches and tags in `code` sections, from `git ls-remote` with the user's credentials."""

import os
import re
import shlex
import signal
import subprocess
from collections import defaultdict
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainstack.errors import TrainstackError
from trainstack.printable import printable
from trainstack.settings.loading.code_pins import code_to_pin
from trainstack.settings.model import Settings
from trainstack.settings.sections.code import Code

TIMEOUT_SECONDS = 30.0
"""The timeout of one `git ls-remote`, which reads all branches and tags of a repository."""

_PARALLEL = 8
_LINE = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(\S+)")
_GENERIC_LINES = (
    "fatal: Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
)
"""Lines that git prints after any error message of ssh, without further information."""


class GitError(TrainstackError):
    """A repository cannot be read, or a name has no commit. The message gives the reason and the remedy."""


def revisions(settings: Settings) -> dict[str, tuple[str, Code]]:
    """Return the path and the `code` of the first setting that names each branch or tag, by the key of its pin."""
    setting_by_pin: dict[str, tuple[str, Code]] = {}
    for path, key, code in code_to_pin(settings):
        setting_by_pin.setdefault(key, (path, code))
    return setting_by_pin


def resolve_commits(settings: Settings, folder: Path) -> dict[str, str]:
    """Return the commit of each branch and tag, by the key of its pin. Read each repository once, with git in `folder`.

    Raises GitError with a line for each branch or tag that cannot be resolved.
    """
    setting_by_pin, names_by_address = revisions(settings), defaultdict[str, list[str]](list)
    for _, code in setting_by_pin.values():
        names_by_address[code.git].append(code.revision)

    def read_refs(address: str) -> dict[str, str] | GitError:
        try:
            return ls_remote(address, names_by_address[address], folder)
        except GitError as error:
            return error

    with ThreadPoolExecutor(_PARALLEL) as pool:
        answers = dict(zip(names_by_address, pool.map(read_refs, names_by_address), strict=True))
    commits, faults = dict[str, str](), list[str]()
    for key, (path, code) in setting_by_pin.items():
        try:
            commits[key] = _select_commit(code, answers[code.git])
        except GitError as error:
            faults.append(f"{path}: {error}")
    if faults:
        raise GitError("\n".join(faults))
    return commits


def ls_remote(address: str, names: Collection[str], folder: Path) -> dict[str, str]:
    """Return the objects of the branches and tags with these names, by ref.

    The object of `refs/tags/<name>^{}` is the commit of an annotated tag. git runs in `folder`, so that its
    configuration applies, and never prompts. Raises GitError.
    """
    patterns = [ref for name in names for ref in _refs(name)]
    code, stdout, stderr = _run(["git", "ls-remote", "--", address, *patterns], folder, _environment(folder))
    if code != 0:
        raise GitError(
            f"{address}: {_reason(stderr) or f'git exited with {code}'}; make sure that `git ls-remote {address}` "
            "works without a prompt"
        )
    # git matches the ends of refs too: refs/remotes/x/refs/heads/main.
    object_by_ref = {match[2]: match[1] for line in stdout.splitlines() if (match := _LINE.fullmatch(line))}
    return {ref: object_by_ref[ref] for ref in patterns if ref in object_by_ref}


def _select_commit(code: Code, refs: Mapping[str, str] | GitError) -> str:
    if isinstance(refs, GitError):
        raise refs
    address, name = code.git, code.revision
    branch_ref, tag_ref, peeled_ref = _refs(name)
    branch_commit, tag_commit = refs.get(branch_ref), refs.get(peeled_ref) or refs.get(tag_ref)
    if branch_commit and tag_commit:
        raise GitError(
            f"{address}: {name} is a branch ({branch_commit}) and a tag ({tag_commit}); set the revision to one of the "
            "commits"
        )
    if commit := branch_commit or tag_commit:
        return commit
    raise GitError(f"{address}: there is no branch or tag {name}; push it, or correct the name")


def _refs(name: str) -> tuple[str, str, str]:
    """Return the refs of the branch, of the tag, and of an annotated tag's commit.

    They serve as patterns of `git ls-remote`: names contain no pattern characters.
    """
    return f"refs/heads/{name}", f"refs/tags/{name}", f"refs/tags/{name}^{{}}"


def _environment(folder: Path) -> dict[str, str]:
    """Return the user's environment variables, with all prompts disabled."""
    configured_command = (
        os.environ.get("GIT_SSH_COMMAND") or _run(["git", "config", "core.sshCommand"], folder, os.environ)[1].strip()
    )
    ssh = configured_command or shlex.quote(os.environ.get("GIT_SSH") or "ssh")
    return {
        "GIT_ASKPASS": "",  # core.askPass or SSH_ASKPASS would open a window
        **os.environ,
        "GIT_TERMINAL_PROMPT": "0",
        "GCM_INTERACTIVE": "never",
        "GIT_SSH_COMMAND": f"{ssh} -o BatchMode=yes",
        "LC_ALL": "C",
    }


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr."""
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
            # git's helpers (ssh, git-remote-https) keep the pipes open after git has exited.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            stdout, stderr = "", f"no response within {TIMEOUT_SECONDS:.0f} s"
    return process.returncode, stdout, stderr


def _reason(stderr: str) -> str:
    """Return the last specific line of git's messages. git removes credentials from the addresses in them."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    specific = [line for line in lines if line not in _GENERIC_LINES] or lines
    return printable(specific[-1]) if specific else ""
