"""Apply objects with nothing but an asynchronous HTTP client: the floor of what any tool does.

    python -m bench.programs.apply OBJECTS.json FIELD_MANAGER [--dry-run]

Every object is one server-side apply; 16 are under way at once. Definitions and namespaces precede the others, and
objects of defined kinds follow, each until its webhook answers. KUBECONFIG names the cluster.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

from bench.programs.client import connection

Body = dict[str, Any]
_AT_ONCE = 16
_DEADLINE_SECONDS = 300
_DISCOVERY = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
_FIRST = ("CustomResourceDefinition", "Namespace")


async def resources(api: httpx.AsyncClient) -> dict[tuple[str, str], tuple[str, bool]]:
    """Return the plural of each API version and kind, and whether its objects have namespaces."""
    found = {}
    for path in ("/api", "/apis"):
        answer = await api.get(path, headers=_DISCOVERY)
        for group in answer.raise_for_status().json()["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                api_version = f"{name}/{version['version']}" if name else version["version"]
                for resource in version.get("resources", ()):
                    kind = resource["responseKind"]["kind"]
                    found[api_version, kind] = (resource["resource"], resource["scope"] == "Namespaced")
    return found


async def apply(api: httpx.AsyncClient, bodies: Iterable[Body], manager: str, *, dry_run: bool) -> None:
    """Apply objects in no order. Retries while a definition or a webhook is not ready. Raises HTTPStatusError."""
    known = await resources(api)
    slots = asyncio.Semaphore(_AT_ONCE)
    end = asyncio.get_running_loop().time() + _DEADLINE_SECONDS
    query = {"fieldManager": manager, "force": "true", **({"dryRun": "All"} if dry_run else {})}
    headers = {"Content-Type": "application/apply-patch+yaml"}

    async def one(body: Body) -> None:
        plural, namespaced = known[body["apiVersion"], body["kind"]]
        metadata = body["metadata"]
        root = "apis" if "/" in body["apiVersion"] else "api"
        space = f"/namespaces/{metadata['namespace']}" if namespaced else ""
        path = f"/{root}/{body['apiVersion']}{space}/{plural}/{metadata['name']}"
        async with slots:
            while True:
                answer = await api.patch(path, params=query, content=json.dumps(body), headers=headers)
                # A webhook that does not answer yet is an internal error of the server.
                if not answer.is_server_error or asyncio.get_running_loop().time() > end:
                    break
                await asyncio.sleep(0.5)
        if answer.is_error:
            raise SystemExit(f"{path}: {answer.status_code} {answer.text}")

    await asyncio.gather(*(one(body) for body in bodies))


async def established(api: httpx.AsyncClient, kinds: set[tuple[str, str]]) -> None:
    """Wait until the server serves all API versions and kinds."""
    end = asyncio.get_running_loop().time() + _DEADLINE_SECONDS
    while missing := kinds - (await resources(api)).keys():
        if asyncio.get_running_loop().time() > end:
            raise SystemExit(f"not served within {_DEADLINE_SECONDS} s: {missing}")
        await asyncio.sleep(0.2)


async def main(objects: list[Body], manager: str, *, dry_run: bool) -> None:
    first = [body for body in objects if body["kind"] in _FIRST]
    defined = {body["spec"]["group"] for body in first if body["kind"] == "CustomResourceDefinition"}
    builtin = [body for body in objects if body not in first and body["apiVersion"].partition("/")[0] not in defined]
    custom = [body for body in objects if body not in first and body not in builtin]
    limits = httpx.Limits(max_connections=_AT_ONCE)
    async with httpx.AsyncClient(**connection(Path(os.environ["KUBECONFIG"])), limits=limits) as api:
        await apply(api, first, manager, dry_run=dry_run)
        await apply(api, builtin, manager, dry_run=dry_run)
        await established(api, {(body["apiVersion"], body["kind"]) for body in custom})
        await apply(api, custom, manager, dry_run=dry_run)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())["items"], sys.argv[2], dry_run="--dry-run" in sys.argv))
