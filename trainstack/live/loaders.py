"""The Jobs of a stack's data loaders, those of commands, as the API server has them."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from trainstack.live import paths
from trainstack.live.client import read
from trainstack.objects.labels import LAUNCH, RUN, STACK


def read_loaders(stack: str, namespaces: Sequence[str | None], context: str | None) -> list[dict[str, Any]]:
    """The loaders in some namespaces (None: in all); none where Jobs may not be listed.

    Raises ClusterError as `client.read` does.
    """
    # A loader has a launch's label but no run's label: it is not a run.
    selector = quote(f"{STACK}={stack},{LAUNCH},!{RUN}")
    asked = [f"{paths.collection('batch/v1', 'Job', each)}?labelSelector={selector}" for each in namespaces]
    return [job for answer in read(asked, context).values() for job in answer.body.get("items") or ()]
