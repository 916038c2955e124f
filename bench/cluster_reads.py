"""Waits for effects in the cluster, by frequent reads that no command of a case makes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bench.meter import BenchError
from bench.programs.client import connection
from bench.programs.lists import PAGE

DEADLINE_SECONDS = 900.0
_PAUSE_SECONDS = 0.05


def client(kubeconfig: Path | None) -> httpx.Client:
    """Return a client of the cluster. Raises BenchError without a kubeconfig."""
    if kubeconfig is None:
        raise BenchError("this case needs a cluster")
    return httpx.Client(**connection(kubeconfig))


def await_true(what: str, look: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until a condition holds. Raises BenchError after the deadline."""
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            raise BenchError(f"not within {seconds:.0f} s: {what}")
        time.sleep(_PAUSE_SECONDS)


def items(api: httpx.Client, path: str, selector: str = "") -> list[dict[str, Any]]:
    """Return the objects of a list with these labels."""
    answer = api.get(path, params={"labelSelector": selector} if selector else {})
    found: list[dict[str, Any]] = answer.raise_for_status().json()["items"]
    return found


def delete_page(api: httpx.Client, path: str, selector: str) -> bool:
    """Delete the first objects of a list with these labels; return whether there is none.

    The API server ends a request after a minute, in which it cannot delete 10,000 objects.
    """
    query = {"labelSelector": selector, "limit": str(PAGE)}
    found = api.get(path, params=query).raise_for_status().json()["items"]
    if found:
        api.delete(path, params={**query, "propagationPolicy": "Background"}).raise_for_status()
    return not found


def jobs_ended(api: httpx.Client, namespace: str) -> bool:
    """Whether every Job of a namespace has succeeded or failed."""
    jobs = items(api, f"/apis/batch/v1/namespaces/{namespace}/jobs")
    conditions = [job.get("status", {}).get("conditions") or () for job in jobs]
    return all(any(each["type"] in ("Complete", "Failed") for each in found) for found in conditions)


def first_log_line(api: httpx.Client, namespace: str, selector: str) -> bool:
    """Whether a pod with these labels has printed a line."""
    for pod in items(api, f"/api/v1/namespaces/{namespace}/pods", selector):
        name = pod["metadata"]["name"]
        answer = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}/log", params={"limitBytes": 1000})
        # A container that does not run yet has no log: the server refuses the request.
        if answer.is_success and "\n" in answer.text:
            return True
    return False
