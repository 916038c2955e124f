"""Reads of the Jobs of commands' data loaders."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from trainstack.live import paths
from trainstack.live.client import read
from trainstack.objects.labels import LAUNCH, RUN, STACK


def read_loaders(stack: str, namespaces: Sequence[str | None], context: str | None) -> list[dict[str, Any]]:
    """Return the loaders in some namespaces (None: in all); none if the user may not list Jobs.

    Raises ClusterError as `client.read` does.
    """
    # A loader has the label of a launch, but not of a run.
    selector = quote(f"{STACK}={stack},{LAUNCH},!{RUN}")
    lists = [f"{paths.collection_path('batch/v1', 'Job', name)}?labelSelector={selector}" for name in namespaces]
    return [job for answer in read(lists, context).values() for job in answer.body.get("items") or ()]
