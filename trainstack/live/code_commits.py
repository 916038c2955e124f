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
from trainstack.settings.loading.code_pins import named_code
from trainstack.settings.model import Settings
from trainstack.settings.sections.code import Code

TIMEOUT_SECONDS = 30.0
"""The timeout of one `git ls-remote`, which reads all branches and tags of a repository."""

_PARALLEL = 8
_LINE = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(\S+)")
_GENERAL = (
    "fatal: Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
)
"""Lines that git prints after any error message of ssh, without further information."""


class GitError(TrainstackError):
    """A repository cannot be read, or a name has no commit. The message gives the reason and the remedy."""


def revisions(settings: Settings) -> dict[str, tuple[str, Code]]:
    """Return the path and the `code` of the first setting that names each branch or tag, by the key of its pin."""
    found: dict[str, tuple[str, Code]] = {}
    for path, key, code in named_code(settings):
        found.setdefault(key, (path, code))
    return found


def resolve(settings: Settings, folder: Path) -> dict[str, str]:
    """Return the commit of each branch and tag, by the key of its pin. Read each repository once, with git in `folder`.

    Raises GitError with a line for each branch or tag that cannot be resolved.
    """
    named, names = revisions(settings), defaultdict[str, list[str]](list)
    for _, code in named.values():
        names[code.git].append(code.revision)

    def read(address: str) -> dict[str, str] | GitError:
        try:
            return ls_remote(address, names[address], folder)
        except GitError as error:
            return error

    with ThreadPoolExecutor(_PARALLEL) as pool:
        answers = dict(zip(names, pool.map(read, names), strict=True))
    commits, faults = dict[str, str](), list[str]()
    for key, (path, code) in named.items():
        try:
            commits[key] = _commit(code, answers[code.git])
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
    found = {match[2]: match[1] for line in stdout.splitlines() if (match := _LINE.fullmatch(line))}
    return {ref: found[ref] for ref in patterns if ref in found}


def _commit(code: Code, refs: Mapping[str, str] | GitError) -> str:
    if isinstance(refs, GitError):
        raise refs
    address, name = code.git, code.revision
    head, tag, peeled = _refs(name)
    branch, tagged = refs.get(head), refs.get(peeled) or refs.get(tag)
    if branch and tagged:
        raise GitError(
            f"{address}: {name} is a branch ({branch}) and a tag ({tagged}); set the revision to one of the commits"
        )
    if commit := branch or tagged:
        return commit
    raise GitError(f"{address}: there is no branch or tag {name}; push it, or correct the name")


def _refs(name: str) -> tuple[str, str, str]:
    """Return the refs of the branch, of the tag, and of an annotated tag's commit.

    They serve as patterns of `git ls-remote`: names contain no pattern characters.
    """
    return f"refs/heads/{name}", f"refs/tags/{name}", f"refs/tags/{name}^{{}}"


def _environment(folder: Path) -> dict[str, str]:
    """Return the user's environment variables, with all prompts disabled."""
    own = os.environ.get("GIT_SSH_COMMAND") or _run(["git", "config", "core.sshCommand"], folder, os.environ)[1].strip()
    ssh = own or shlex.quote(os.environ.get("GIT_SSH") or "ssh")
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
    specific = [line for line in lines if line not in _GENERAL] or lines
    return printable(specific[-1]) if specific else ""
