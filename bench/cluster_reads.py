"""Waits for effects in the cluster, by frequent reads that no command of a case makes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bench.meter import BenchError
from bench.programs.client import connection

DEADLINE_SECONDS = 900.0
_PAGE = 100
_PAUSE_SECONDS = 0.05


def client(kubeconfig: Path | None) -> httpx.Client:
    """Return a client of the cluster. Raises BenchError without a kubeconfig."""
    if kubeconfig is None:
        raise BenchError("this case needs a cluster")
    return httpx.Client(**connection(kubeconfig))


def await_true(what: str, condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until a condition holds. Raises BenchError after the deadline."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise BenchError(f"not within {seconds:.0f} s: {what}")
        time.sleep(_PAUSE_SECONDS)


def items(api: httpx.Client, path: str, selector: str = "") -> list[dict[str, Any]]:
    """Return the objects of a list with these labels."""
    response = api.get(path, params={"labelSelector": selector} if selector else {})
    objects: list[dict[str, Any]] = response.raise_for_status().json()["items"]
    return objects


def delete_page(api: httpx.Client, path: str, selector: str) -> bool:
    """Delete the first objects of a list with these labels; return whether there is none.

    The API server ends a request after a minute, in which a busy machine cannot delete 500 Jobs.
    """
    query = {"labelSelector": selector, "limit": str(_PAGE)}
    objects = api.get(path, params=query).raise_for_status().json()["items"]
    if objects:
        api.delete(path, params={**query, "propagationPolicy": "Background"}).raise_for_status()
    return not objects


def jobs_ended(api: httpx.Client, namespace: str, selector: str = "") -> bool:
    """Return whether every Job of a namespace with these labels has succeeded or failed."""
    jobs = items(api, f"/apis/batch/v1/namespaces/{namespace}/jobs", selector)
    conditions = [job.get("status", {}).get("conditions") or () for job in jobs]
    return all(any(condition["type"] in ("Complete", "Failed") for condition in found) for found in conditions)


def first_log_line(api: httpx.Client, namespace: str, selector: str) -> bool:
    """Return whether a pod with these labels has printed a line."""
    for pod in items(api, f"/api/v1/namespaces/{namespace}/pods", selector):
        name = pod["metadata"]["name"]
        response = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}/log", params={"limitBytes": 1000})
        # A container that does not run yet has no log: the server refuses the request.
        if response.is_success and "\n" in response.text:
            return True
    return False
