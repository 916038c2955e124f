"""A launch for the tests of builders, with short names, because no test derives others from them."""

from typing import Any

from trainstack.runs.identity import Facts
from trainstack.runs.launch import Launch


def make_launch(**facts: Any) -> Launch:
    """Return the launch `train-1-2` of the run `train-1`."""
    base = {"image": "python:3.11", "data_digest": None, "wrapper": "trainstack-wrapper-0", "commit": "abc"}
    return Launch(run_id="train-1", name="train-1-2", facts=Facts(**{**base, **facts}))


LAUNCH_LABELS = {
    "trainstack.dev/workload": "train",
    "trainstack.dev/run": "train-1",
    "trainstack.dev/launch": "train-1-2",
}
"""The labels of launches and their pods."""

OBJECT_LABELS = {
    **LAUNCH_LABELS,
    "app.kubernetes.io/managed-by": "trainstack",
    "trainstack.dev/stack": "dev",
    "kueue.x-k8s.io/queue-name": "research",
    "kueue.x-k8s.io/priority-class": "normal",
}
"""The labels of a launch in the queue `research`."""
