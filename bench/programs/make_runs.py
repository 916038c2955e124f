"""Create many launches of one run's manifest: live ones, and ended ones without pods.

python -m bench.programs.make_runs JOB.json LIVE ENDED
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx

from bench.programs.client import connection
from trainstack.objects.labels import LAUNCH, QUEUE, RUN, WORKLOAD

_AT_ONCE = 32
_TIMES = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")
_COMPLETE = {
    "startTime": _TIMES[0],
    "completionTime": _TIMES[1],
    "succeeded": 1,
    "conditions": [
        {"type": kind, "status": "True", "lastProbeTime": _TIMES[1], "lastTransitionTime": _TIMES[1]}
        for kind in ("SuccessCriteriaMet", "Complete")
    ],
}
Body = dict[str, Any]


def launch(template: Body, number: int, *, ended: bool) -> Body:
    """Return the launch of another run. An ended one is in no queue, and suspended: no controller acts on it."""
    body: Body = json.loads(json.dumps(template))
    workload = f"run-{number}"
    run = f"{workload}-{number:010x}"
    name = f"{run}-{number % 0xFFFFFF:06x}"
    for metadata in (body["metadata"], body["spec"]["template"]["metadata"]):
        metadata["labels"] |= {WORKLOAD: workload, RUN: run, LAUNCH: name}
    body["metadata"]["name"] = name
    if ended:
        del body["metadata"]["labels"][QUEUE]
        body["spec"]["suspend"] = True
    return body


async def main(template: Body, live: int, ended: int) -> None:
    path = f"/apis/batch/v1/namespaces/{template['metadata']['namespace']}/jobs"
    slots = asyncio.Semaphore(_AT_ONCE)
    limits = httpx.Limits(max_connections=_AT_ONCE)
    async with httpx.AsyncClient(**connection(Path(os.environ["KUBECONFIG"])), limits=limits) as api:

        async def make(number: int) -> None:
            body = launch(template, number, ended=number >= live)
            async with slots:
                answer = await api.post(path, json=body)
                if answer.is_success and number >= live:
                    answer = await api.patch(
                        f"{path}/{body['metadata']['name']}/status",
                        content=json.dumps({"status": _COMPLETE}),
                        headers={"Content-Type": "application/merge-patch+json"},
                    )
            if answer.is_error:
                raise SystemExit(f"{body['metadata']['name']}: {answer.status_code} {answer.text}")

        await asyncio.gather(*(make(number) for number in range(live + ended)))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]), int(sys.argv[3])))
