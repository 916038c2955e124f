"""The commits of the branches and tags in an environment's `code`."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainstack.cli.git_remote import GitError, commit_of, ls_remote
from trainstack.settings.loading.code_pins import named_code
from trainstack.settings.model import Settings
from trainstack.settings.sections.code import Code

_WORKERS = 8


def revisions(settings: Settings) -> dict[str, tuple[str, Code]]:
    """Return the branches and tags by pin key, with the first setting that names them."""
    found: dict[str, tuple[str, Code]] = {}
    for path, key, code in named_code(settings):
        found.setdefault(key, (path, code))
    return found


def resolve(settings: Settings, folder: Path) -> dict[str, str]:
    """Return the commit of each branch and tag by pin key; runs git once per repository, in `folder`.

    Raises GitError with a line for each one that has no commit.
    """
    wanted, names = revisions(settings), defaultdict[str, list[str]](list)
    for _, code in wanted.values():
        names[code.git].append(code.revision)

    def list_refs(address: str) -> dict[str, str] | GitError:
        try:
            return ls_remote(address, names[address], folder)
        except GitError as error:
            return error

    with ThreadPoolExecutor(_WORKERS) as pool:
        answers = dict(zip(names, pool.map(list_refs, names), strict=True))
    commits, faults = dict[str, str](), list[str]()
    for key, (path, code) in wanted.items():
        answer = answers[code.git]
        try:
            if isinstance(answer, GitError):
                raise answer
            commits[key] = commit_of(code.git, code.revision, answer)
        except GitError as error:
            faults.append(f"{path}: {error}")
    if faults:
        raise GitError("\n".join(faults))
    return commits
