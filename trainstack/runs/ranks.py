"""What processes that train together are told of each other, where no operator tells them.

The names are those that PyTorch's `init_process_group` reads, and that the training operator gives a PyTorchJob. While
the master's name does not resolve PyTorch asks again, so nothing has to wait before it.
"""

from trainstack.objects.labels import Manifest

PORT = 29500
"""Where the processes find rank 0: Trainer's own port, and torchrun's."""
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def ranks(count: int, master: str) -> list[Manifest]:
    """One rank a pod: variables for the pods of an Indexed Job.

    Args:
        count: how many pods there are.
        master: the name by which pod 0 is found.

    """
    told = {"MASTER_ADDR": master, "MASTER_PORT": str(PORT), "WORLD_SIZE": str(count)}
    # With the version that the API server fills in, for the reason that `pod_template` gives.
    index = {"name": "RANK", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": _INDEX}}}
    return [*({"name": name, "value": value} for name, value in told.items()), index]
