"""A tenant's environment with one run on an API server alone, and its Jobs, ledgers and claims."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.apiserver import ApiServer, Body, api_server
from tests.stateful.checkout import make_run

NAMESPACE, MOVED = "team", "team-b"
MERGE = "application/merge-patch+json"


@contextmanager
def launch_server(folder: Path) -> Iterator[ApiServer]:
    """Yield an API server with two namespaces."""
    with api_server(folder) as running:
        for name in (NAMESPACE, MOVED):
            running.make_namespace(name)
        yield running


def make_config(name: str, **run: Any) -> dict[str, Any]:
    """Return a tenant's environment with one run."""
    existing = {"namespaces": [NAMESPACE, MOVED]}
    return {
        "trainstack:environment": {"profile": "tenant", "layers": ["training"], "existing": existing},
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:workloads": {"runs": [make_run(name, **{"namespace": NAMESPACE, **run})]},
    }


def objects(server: ApiServer, kind: str, workload: str, namespace: str = NAMESPACE) -> list[Body]:
    """Return the Jobs, or the ledgers and claims, of a workload."""
    root = {"jobs": "/apis/batch/v1", "configmaps": "/api/v1"}[kind]
    found = server.get(f"{root}/namespaces/{namespace}/{kind}")
    assert found is not None
    return [body for body in found["items"] if f"{workload}-" in json.dumps(body["metadata"]["labels"])]


def only_job(server: ApiServer, workload: str) -> Body:
    """Return the only Job of a workload."""
    (job,) = objects(server, "jobs", workload)
    return job


def job_path(job: Body) -> str:
    """Return the API path of a Job."""
    return f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job['metadata']['name']}"
