"""Which container of a pod is the one that trains."""

from collections.abc import Sequence

from trainstack.runs.manifests import data_loader, pod_template, pytorchjob
from trainstack.runs.manifests.git_init_container import CONTAINER as CHECKOUT
from trainstack.runs.pods import NODE

_OURS = (pod_template.CONTAINER, pytorchjob.CONTAINER, NODE, data_loader.CONTAINER)
"""The names that our templates give it, where the workload gives none."""


def trainer(containers: Sequence[str]) -> str:
    """The name of the container that trains, among the names of a pod's containers, those that prepare it included.

    It is known by its name: sidecars may be injected before it and behind it. One that the workload named itself is
    taken to be the first.
    """
    own = [name for name in containers if name != CHECKOUT]
    return next((name for name in own if name in _OURS), own[0])
