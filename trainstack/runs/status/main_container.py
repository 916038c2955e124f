"""The choice of the training container among the containers of a pod."""

from collections.abc import Sequence

from trainstack.runs.manifests import data_loader, pod_template, pytorchjob
from trainstack.runs.manifests.git_init_container import CHECKOUT_CONTAINER as CHECKOUT
from trainstack.runs.role_pods import NODE

_MAIN_CONTAINERS = (pod_template.TRAINING_CONTAINER, pytorchjob.PYTORCH_CONTAINER, NODE, data_loader.LOADER_CONTAINER)
"""The names of training containers, unless the workload sets one."""


def select_main_container(containers: Sequence[str]) -> str:
    """Return the name of the training container among the names of a pod's containers, init containers included.

    The container is identified by name, because sidecars may be injected before and after it. If the workload sets the
    name, the first container other than the checkout is assumed.
    """
    candidates = [name for name in containers if name != CHECKOUT]
    return next((name for name in candidates if name in _MAIN_CONTAINERS), candidates[0])
