"""The commits that the branches and tags of an environment's `code` name now."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainstack.cli.git_remote import GitError, commit_of, ls_remote
from trainstack.settings.loading.code_pins import named_code
from trainstack.settings.model import Settings
from trainstack.settings.sections.code import Code

_AT_ONCE = 8


def revisions(settings: Settings) -> dict[str, tuple[str, Code]]:
    """The branches and tags by the key of their pin, with the first setting that names each."""
    found: dict[str, tuple[str, Code]] = {}
    for path, key, code in named_code(settings):
        found.setdefault(key, (path, code))
    return found


def resolve(settings: Settings, folder: Path) -> dict[str, str]:
    """The commit of each branch and tag, by the key of its pin; each repository is asked once, with git in `folder`.

    Raises GitError with a line for each that has none.
    """
    wanted, names = revisions(settings), defaultdict[str, list[str]](list)
    for _, code in wanted.values():
        names[code.git].append(code.revision)

    def ask(address: str) -> dict[str, str] | GitError:
        try:
            return ls_remote(address, names[address], folder)
        except GitError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(names, pool.map(ask, names), strict=True))
    commits, faults = dict[str, str](), list[str]()
    for key, (path, code) in wanted.items():
        try:
            commits[key] = _commit(code, answers[code.git])
        except GitError as error:
            faults.append(f"{path}: {error}")
    if faults:
        raise GitError("\n".join(faults))
    return commits


def _commit(code: Code, answer: dict[str, str] | GitError) -> str:
    if isinstance(answer, GitError):
        raise answer
    return commit_of(code.git, code.revision, answer)
