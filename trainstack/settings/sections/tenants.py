"""Section `trainstack:tenants`: the teams that use the platform, and who may act for them."""

from typing import Annotated

from pydantic import Field, model_validator

from trainstack.settings.base import DnsLabel, Section

Subject = Annotated[str, Field(min_length=1)]
"""A user or a group by the name that the cluster's authentication gives it; it may begin with a prefix (`oidc:`)."""


class Team(Section):
    """Rights in one namespace: what a stack with `profile: tenant` and the day-two commands need, and no more."""

    name: DnsLabel = Field(max_length=40)
    """Names the role and its binding: `tenant-<name>`."""
    namespace: DnsLabel
    groups: tuple[Subject, ...] = ()
    users: tuple[Subject, ...] = ()
    service_account: DnsLabel | None = None
    """A ServiceAccount that is made in the namespace, for a pipeline; None: none is."""

    @model_validator(mode="after")
    def _somebody(self) -> "Team":
        if not (self.groups or self.users or self.service_account):
            raise ValueError("nobody gets the rights of this team: give groups, users or serviceAccount")
        return self


class Tenants(Section):
    """All teams of a platform."""

    teams: tuple[Team, ...] = ()
