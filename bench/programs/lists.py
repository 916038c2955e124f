"""Read lists of objects with nothing but an asynchronous HTTP client, all pages of all lists at once.

python -m bench.programs.lists PATH...
"""

import asyncio
import os
import sys
from pathlib import Path

import httpx

from bench.programs.client import connection

PAGE = 500


async def read(api: httpx.AsyncClient, path: str) -> int:
    """Return the number of objects of a list."""
    count, following = 0, ""
    while True:
        answer = await api.get(path, params={"limit": PAGE, **({"continue": following} if following else {})})
        body = answer.raise_for_status().json()
        count += len(body["items"])
        following = body["metadata"].get("continue", "")
        if not following:
            return count


async def main(paths: list[str]) -> None:
    async with httpx.AsyncClient(**connection(Path(os.environ["KUBECONFIG"]))) as api:
        counts = await asyncio.gather(*(read(api, path) for path in paths))
    sys.stdout.write("".join(f"{path} {count}\n" for path, count in zip(paths, counts, strict=True)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
