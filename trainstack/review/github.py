"""One comment of a pull request, made once and updated in place, through GitHub's REST API.

Source: https://docs.github.com/en/rest/issues/comments
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import httpx

from trainstack.review.errors import ReviewError
from trainstack.review.selection import Job, Pull, Selection, selected

T = TypeVar("T")

AUTHOR = "github-actions[bot]"
"""Who a workflow's own token comments as. A comment of anybody else is never edited, whatever it begins with."""

_PAUSES_SECONDS = (1.0, 3.0, 9.0)
"""Between tries. An answer that was lost on its way may stand for a comment that was made: each try looks first."""
_PAGE = 100
_MOST_PAGES = 100
_DESCRIPTION = 140
"""Characters of a status's description that GitHub accepts."""
_MOST_FILES = 3000
"""Changed files of a pull request that GitHub lists."""


class GitHubError(ReviewError):
    """GitHub refused, or could not be reached. Says what was asked and what it answered."""


class _TryAgainError(GitHubError):
    """It may work later."""


@dataclass(frozen=True)
class Head:
    """What a workflow run was of, as GitHub tells it and not as the run does."""

    repository: str
    """The repository of the pull request's branch: a fork, maybe; `owner/name`."""
    branch: str
    commit: str


class GitHub:
    """A repository at GitHub."""

    def __init__(
        self,
        api: str,
        repository: str,
        token: str,
        *,
        author: str = AUTHOR,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open it.

        Args:
            api: the API's address, as GITHUB_API_URL has it.
            repository: `owner/name`.
            token: one that may write pull requests' comments and commit statuses.
            author: whose comments are ours.
            pause: waits for so many seconds.

        """
        self._author, self._pause, self._repository = author, pause, repository
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        self._client = httpx.Client(base_url=f"{api.rstrip('/')}/repos/{repository}", headers=headers, timeout=30)

    def __enter__(self) -> Self:
        """Use it in `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._client.close()

    def pulls(self, head: Head) -> list[Pull]:
        """The open pull requests whose last commit this still is."""
        owner = head.repository.partition("/")[0]
        query = {"state": "open", "head": f"{owner}:{head.branch}"}
        return [
            Pull(int(pull["number"]), pull["base"]["sha"])
            for pull in self._tried(lambda: list(self._pages("/pulls", query)))
            if pull["head"]["sha"] == head.commit and (pull["head"]["repo"] or {}).get("full_name") == head.repository
        ]

    def selection(self, pull: Pull) -> Selection:
        """The environments that a pull request selects, by its base and the files that it changes."""
        root = self._tried(lambda: self._ask("GET", f"/git/trees/{pull.base}", None))
        changed = self._tried(lambda: list(self._pages(f"/pulls/{pull.number}/files", {})))
        return selected(
            [entry["path"] for entry in root["tree"]],
            [file["filename"] for file in changed if file["status"] != "removed"],
            complete=not root.get("truncated") and len(changed) < _MOST_FILES,
        )

    def jobs(self, run: int) -> list[Job]:
        """The jobs of the last attempt of a workflow run."""
        found = self._tried(lambda: list(self._pages(f"/actions/runs/{run}/jobs", {}, "jobs")))
        return [Job(job["name"], job["conclusion"] or "no conclusion", bool(job["steps"])) for job in found]

    def put_comment(self, pull: int, marker: str, body: str) -> str:
        """Make the comment that begins with `marker`, or update the one that does. Returns its address."""
        return self._tried(lambda: self._put(pull, marker, body))

    def put_status(self, commit: str, context: str, description: str, address: str, *, reviewed: bool) -> None:
        """Set the commit status `context`, which a branch protection rule can require.

        Args:
            commit: the commit of the pull request's head.
            context: the name of the status.
            description: what GitHub shows beside it, at most 140 characters.
            address: the page that explains it.
            reviewed: whether it is `success` or `failure`.

        """
        status = {
            "state": "success" if reviewed else "failure",
            "context": context,
            "description": description[:_DESCRIPTION],
            "target_url": address,
        }
        self._tried(lambda: self._ask("POST", f"/statuses/{commit}", status))

    def _put(self, pull: int, marker: str, body: str) -> str:
        comments = self._pages(f"/issues/{pull}/comments", {})
        ours = (each for each in comments if each["user"] and each["user"]["login"] == self._author)
        found = next((each for each in ours if (each["body"] or "").startswith(marker)), None)
        if found is None:
            made = self._ask("POST", f"/issues/{pull}/comments", {"body": body})
        elif found["body"] == body:
            made = found
        else:
            made = self._ask("PATCH", f"/issues/comments/{int(found['id'])}", {"body": body})
        return str(made["html_url"])

    def _pages(self, path: str, query: Mapping[str, str], key: str = "") -> Iterator[dict[str, Any]]:
        """The elements of all pages. `key`: of the list, where a page is an object."""
        for page in range(1, _MOST_PAGES + 1):
            part = self._ask("GET", path, None, {**query, "per_page": str(_PAGE), "page": str(page)})
            part = part[key] if key else part
            yield from part
            if len(part) < _PAGE:
                return

    def _tried(self, action: Callable[[], T]) -> T:
        for pause in _PAUSES_SECONDS:
            try:
                return action()
            except _TryAgainError:
                self._pause(pause)
        return action()

    def _ask(self, method: str, path: str, body: object, query: Mapping[str, str] | None = None) -> Any:
        what = f"{method} {self._repository}{path}"
        try:
            answer = self._client.request(method, path, json=body, params=query)
        except httpx.TransportError as error:
            raise _TryAgainError(f"{what}: GitHub cannot be reached: {error}") from None
        if answer.is_success:
            return answer.json()
        said = f"{what}: GitHub answered {answer.status_code}: {answer.text[:300]}"
        limited = answer.status_code == httpx.codes.FORBIDDEN and answer.headers.get("x-ratelimit-remaining") == "0"
        if answer.is_server_error or answer.status_code == httpx.codes.TOO_MANY_REQUESTS or limited:
            raise _TryAgainError(f"{said}; run the job again later")
        if method == "PATCH" and answer.status_code == httpx.codes.NOT_FOUND:
            raise _TryAgainError(f"{said}: the comment was deleted meanwhile")
        rights = "`pull-requests: write`, `statuses: write`, `contents: read` and `actions: read`"
        raise GitHubError(f"{said}; the job's token needs {rights}")
