"""Fields of a workload of kind JobSet, as named by JobSet's API.

Source: https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/
"""

from typing import Annotated, Literal

from pydantic import Field

from trainstack.settings.base import Section
from trainstack.settings.values.kubernetes import DnsLabel, NonNegative

JobName = DnsLabel
"""The name of an entry of replicatedJobs."""


class DependsOn(Section):
    """A Job that must be ready or complete first."""

    name: JobName
    status: Literal["Ready", "Complete"]


class SuccessPolicy(Section):
    """When the JobSet has succeeded."""

    operator: Literal["All", "Any"]
    target_replicated_jobs: tuple[JobName, ...] = ()
    """Empty: all of them."""


class FailurePolicyRule(Section):
    """What a failed Job means; the first matching rule applies."""

    name: str | None = Field(None, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=128)
    action: Literal["FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"]
    on_job_failure_reasons: tuple[
        Literal[
            "BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"
        ],
        ...,
    ] = ()
    """Empty: any reason."""
    on_job_failure_message_patterns: tuple[str, ...] = ()
    """Regular expressions (RE2); empty: any message."""
    target_replicated_jobs: tuple[JobName, ...] = ()
    """Empty: all of them."""


class FailurePolicy(Section):
    """What happens when a Job fails."""

    max_restarts: NonNegative = 0
    """How often all Jobs are recreated before the JobSet fails."""
    restart_strategy: Literal["Recreate", "BlockingRecreate"] | None = None
    """None: Recreate. BlockingRecreate waits until all old Jobs are deleted."""
    rules: tuple[FailurePolicyRule, ...] = ()


class Network(Section):
    """The DNS names of a JobSet's pods."""

    enable_dns_hostnames: Annotated[bool, Field(alias="enableDNSHostnames")] = True
    subdomain: DnsLabel | None = None
    """None: the launch's name."""
    publish_not_ready_addresses: bool = True
