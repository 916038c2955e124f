"""Environment variables for distributed training of kinds whose operator does not set them.

The names are those that PyTorch's `init_process_group` reads and that the training operator sets for a PyTorchJob.
PyTorch retries until the name of the master resolves, so the pods may start in any order.
"""

from trainstack.objects.labels import Manifest

MASTER_PORT = 29500
"""The port of rank 0: the default of Trainer and of torchrun."""
_COMPLETION_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def rank_variables(world_size: int, master_address: str) -> list[Manifest]:
    """Return the variables for the pods of an Indexed Job, with one rank per pod.

    `world_size`: the number of pods. `master_address`: the DNS name of pod 0.
    """
    values = {"MASTER_ADDR": master_address, "MASTER_PORT": str(MASTER_PORT), "WORLD_SIZE": str(world_size)}
    # apiVersion is set because the API server defaults it; see `pod_template`.
    rank = {"name": "RANK", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": _COMPLETION_INDEX_FIELD}}}
    return [*({"name": name, "value": value} for name, value in values.items()), rank]
