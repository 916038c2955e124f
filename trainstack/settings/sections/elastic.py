"""The elastic policy of a PyTorchJob."""

from typing import Literal

from pydantic import model_validator

from trainstack.settings.base import Section
from trainstack.settings.values.kubernetes import DnsName, NonNegative, Port, Positive


class Elastic(Section):
    """The number of workers of a PyTorchJob, and their rendezvous: torchrun's options.

    Source: https://www.kubeflow.org/docs/components/trainer/legacy-v1/reference/ (ElasticPolicy)
    """

    min_replicas: Positive = 1
    max_replicas: Positive
    rdzv_backend: Literal["c10d", "etcd", "etcd-v2"] = "c10d"
    rdzv_host: DnsName | None = None
    """The rendezvous host; None: the first worker, which serves c10d itself."""
    rdzv_port: Port | None = None
    max_restarts: NonNegative | None = None
    """Restarts of the worker group; None: torchrun's default."""

    @model_validator(mode="before")
    @classmethod
    def _check_no_autoscaler(cls, values: object) -> object:
        if isinstance(values, dict) and "metrics" in values:
            raise ValueError(
                "metrics enable an autoscaler, and Kueue suspends a job that is resized: leave metrics out"
            )
        return values

    @model_validator(mode="after")
    def _check_order(self) -> "Elastic":
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"maxReplicas is {self.max_replicas}, below minReplicas {self.min_replicas}: raise maxReplicas"
            )
        return self
