"""A client of GitHub's REST API for one comment on each pull request, updated in place, and commit statuses.

Source: https://docs.github.com/en/rest/issues/comments
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import httpx

from trainstack.errors import TrainstackError
from trainstack.review.selection import PullRequest, Selection, WorkflowJob, select_environments

T = TypeVar("T")

AUTHOR = "github-actions[bot]"
"""The author of comments that a workflow's token creates. Comments of other authors are never edited."""

_PAUSES_SECONDS = (1.0, 3.0, 9.0)
"""The pauses between attempts. Each one reads the comments first: an attempt without response may have succeeded."""
_PAGE_SIZE = 100
_MAX_PAGES = 100
_MAX_DESCRIPTION = 140
"""GitHub's limit for a status's description, in characters."""
_MAX_FILES = 3000
"""GitHub's limit for the list of a pull request's files."""


class GitHubError(TrainstackError):
    """GitHub refused a request, or could not be reached; the message has the request and the response."""


class _RetryableError(GitHubError):
    """The request may succeed later."""


@dataclass(frozen=True)
class Head:
    """The head of a workflow run, from GitHub's event and not from the data of the run."""

    repository: str
    """`owner/name` of the branch's repository, which may be a fork."""
    branch: str
    commit: str


class GitHub:
    """A client for the pull requests of one repository, which repeats requests that may succeed later."""

    def __init__(self, api: str, repository: str, token: str, *, pause: Callable[[float], None] = time.sleep) -> None:
        """Open a client; `api` is GITHUB_API_URL, and `token` may write comments and commit statuses."""
        self._pause, self._repository = pause, repository
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        self._client = httpx.Client(base_url=f"{api.rstrip('/')}/repos/{repository}", headers=headers, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def open_pulls(self, head: Head) -> list[PullRequest]:
        """Return the open pull requests whose last commit is that of `head`."""
        owner = head.repository.partition("/")[0]
        query = {"state": "open", "head": f"{owner}:{head.branch}"}
        return [
            PullRequest(int(pull["number"]), pull["base"]["sha"])
            for pull in self._retry(lambda: list(self._read_pages("/pulls", query)))
            if pull["head"]["sha"] == head.commit and (pull["head"]["repo"] or {}).get("full_name") == head.repository
        ]

    def selection(self, pull: PullRequest) -> Selection:
        """Return the environments that a pull request selects, by its base and its changed files."""
        root_tree = self._retry(lambda: self._request("GET", f"/git/trees/{pull.base}", None))
        changed_files = self._retry(lambda: list(self._read_pages(f"/pulls/{pull.number}/files", {})))
        return select_environments(
            [entry["path"] for entry in root_tree["tree"]],
            [file["filename"] for file in changed_files if file["status"] != "removed"],
            complete=not root_tree.get("truncated") and len(changed_files) < _MAX_FILES,
        )

    def jobs(self, run: int) -> list[WorkflowJob]:
        """Return the jobs of a workflow run by its id."""
        jobs = self._retry(lambda: list(self._read_pages(f"/actions/runs/{run}/jobs", {}, "jobs")))
        return [WorkflowJob(job["name"], job["conclusion"] or "no conclusion", bool(job["steps"])) for job in jobs]

    def put_comment(self, pull: int, marker: str, body: str) -> str:
        """Create the comment that begins with `marker`, or update it; return its address."""
        return self._retry(lambda: self._put_comment(pull, marker, body))

    def put_status(self, commit: str, context: str, description: str, address: str, *, success: bool) -> None:
        """Set the commit status `context`, which branch protection can require; `address` is the page to link to."""
        status = {
            "state": "success" if success else "failure",
            "context": context,
            "description": description[:_MAX_DESCRIPTION],
            "target_url": address,
        }
        self._retry(lambda: self._request("POST", f"/statuses/{commit}", status))

    def _put_comment(self, pull: int, marker: str, body: str) -> str:
        comments = self._read_pages(f"/issues/{pull}/comments", {})
        own_comments = (comment for comment in comments if (comment["user"] or {}).get("login") == AUTHOR)
        posted_comment = next((comment for comment in own_comments if (comment["body"] or "").startswith(marker)), None)
        if posted_comment is None:
            posted_comment = self._request("POST", f"/issues/{pull}/comments", {"body": body})
        elif posted_comment["body"] != body:
            posted_comment = self._request("PATCH", f"/issues/comments/{int(posted_comment['id'])}", {"body": body})
        return str(posted_comment["html_url"])

    def _read_pages(self, path: str, query: Mapping[str, str], key: str = "") -> Iterator[dict[str, Any]]:
        """Yield the elements of all pages; `key` is the field with the list if a page is an object."""
        for page in range(1, _MAX_PAGES + 1):
            elements = self._request("GET", path, None, {**query, "per_page": str(_PAGE_SIZE), "page": str(page)})
            elements = elements[key] if key else elements
            yield from elements
            if len(elements) < _PAGE_SIZE:
                return

    def _retry(self, action: Callable[[], T]) -> T:
        for pause in _PAUSES_SECONDS:
            try:
                return action()
            except _RetryableError:
                self._pause(pause)
        return action()

    def _request(self, method: str, path: str, body: object, query: Mapping[str, str] | None = None) -> Any:
        request = f"{method} {self._repository}{path}"
        try:
            response = self._client.request(method, path, json=body, params=query)
        except httpx.TransportError as error:
            raise _RetryableError(f"{request}: GitHub cannot be reached: {error}") from None
        if response.is_success:
            return response.json()
        message = f"{request}: GitHub answered {response.status_code}: {response.text[:300]}"
        is_rate_limited = (
            response.status_code == httpx.codes.FORBIDDEN and response.headers.get("x-ratelimit-remaining") == "0"
        )
        if response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS or is_rate_limited:
            raise _RetryableError(f"{message}; retry the job later")
        if method == "PATCH" and response.status_code == httpx.codes.NOT_FOUND:
            raise _RetryableError(f"{message}: the comment has been deleted")
        rights = "`pull-requests: write`, `statuses: write`, `contents: read` and `actions: read`"
        raise GitHubError(f"{message}; the job's token requires {rights}")
