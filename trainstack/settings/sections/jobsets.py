"""What a workload of kind JobSet says as a whole, in JobSet's own words.

Source: https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Protocol

from pydantic import Field

from trainstack.settings.base import DnsLabel, Section
from trainstack.settings.values.kubernetes import NonNegative

JobName = DnsLabel
"""The name of an entry of replicatedJobs."""


class DependsOn(Section):
    """Jobs that come first."""

    name: JobName
    status: Literal["Ready", "Complete"]


class SuccessPolicy(Section):
    """When the set has succeeded."""

    operator: Literal["All", "Any"]
    target_replicated_jobs: tuple[JobName, ...] = ()
    """Empty: all of them."""


class FailurePolicyRule(Section):
    """What a failed Job means; the first rule that fits counts."""

    name: str | None = Field(None, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=128)
    action: Literal["FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"]
    on_job_failure_reasons: tuple[
        Literal[
            "BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"
        ],
        ...,
    ] = ()
    """Empty: any."""
    on_job_failure_message_patterns: tuple[str, ...] = ()
    """Regular expressions (RE2); empty: any message."""
    target_replicated_jobs: tuple[JobName, ...] = ()
    """Empty: all of them."""


class FailurePolicy(Section):
    """What the set does when one of its Jobs has failed."""

    max_restarts: NonNegative = 0
    """How often all Jobs are made anew before the set has failed."""
    restart_strategy: Literal["Recreate", "BlockingRecreate"] | None = None
    """None: Recreate. BlockingRecreate waits until everything old is gone."""
    rules: tuple[FailurePolicyRule, ...] = ()


class Network(Section):
    """How pods of the set find each other."""

    enable_dns_hostnames: Annotated[bool, Field(alias="enableDNSHostnames")] = True
    subdomain: DnsLabel | None = None
    """None: the launch's name."""
    publish_not_ready_addresses: bool = True


class Job(Protocol):
    """An entry of replicatedJobs, as far as others refer to it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def depends_on(self) -> tuple[DependsOn, ...]:
        """The entries that it waits for."""


def faults_of_jobs(jobs: Sequence[Job], success: SuccessPolicy | None, failure: FailurePolicy | None) -> Iterator[str]:
    """Names that name no entry of replicatedJobs, or that there is none."""
    if not jobs:
        yield "a JobSet needs replicatedJobs: add them"
    named = {
        "successPolicy": success.target_replicated_jobs if success else (),
        "failurePolicy": [name for rule in (failure.rules if failure else ()) for name in rule.target_replicated_jobs],
        "dependsOn": [before.name for job in jobs for before in job.depends_on],
    }
    known = {job.name for job in jobs}
    for name in sorted(known):
        if sum(job.name == name for job in jobs) > 1:
            yield f"replicatedJobs has several entries called {name}: give each a name of its own"
    for index, job in enumerate(jobs):
        earlier = {each.name for each in jobs[:index]}
        # Source: validateCreate of JobSet's webhook.
        for name in sorted({before.name for before in job.depends_on} & known - earlier):
            yield f"{job.name} depends on {name}, which is not listed before it: list {name} first"
        if len({before.name for before in job.depends_on}) < len(job.depends_on):
            yield f"{job.name} names an entry of dependsOn more than once: name it once"
    for where, names in named.items():
        yield from (
            f"{where} names {name}, which is none of replicatedJobs: correct the name"
            for name in names
            if name not in known
        )
