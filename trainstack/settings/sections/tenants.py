"""Section `trainstack:tenants`: the teams that use the platform, and their members."""

from typing import Annotated

from pydantic import Field, model_validator

from trainstack.settings.base import Section
from trainstack.settings.values.kubernetes import DnsLabel

Subject = Annotated[str, Field(min_length=1)]
"""A user or a group as the cluster's authentication names it, possibly with a prefix such as `oidc:`."""


class Team(Section):
    """The rights in one namespace that a stack with `profile: tenant` and the day-two commands need."""

    name: DnsLabel = Field(max_length=40)
    """The role and its binding are named `tenant-<name>`."""
    namespace: DnsLabel
    groups: tuple[Subject, ...] = ()
    users: tuple[Subject, ...] = ()
    service_account: DnsLabel | None = None
    """A ServiceAccount to create in the namespace, for a pipeline."""

    @model_validator(mode="after")
    def _check_members(self) -> "Team":
        if not (self.groups or self.users or self.service_account):
            raise ValueError("the team has no members: set groups, users or serviceAccount")
        return self


class Tenants(Section):
    """All teams of a platform."""

    teams: tuple[Team, ...] = ()
