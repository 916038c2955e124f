"""The rights of teams."""

from dataclasses import dataclass

import pulumi

from trainstack.components.objects import declare
from trainstack.platform import tenants as build
from trainstack.settings.sections.tenants import Tenants as TenantsSettings


@dataclass(frozen=True, kw_only=True)
class TenantsArgs:
    """What `Tenants` declares."""

    stack: str
    tenants: TenantsSettings


class Tenants(pulumi.ComponentResource):
    """A role, its binding and perhaps a ServiceAccount for each team, in the team's namespace."""

    teams: pulumi.Output[list[str]]
    """The teams that have their rights now."""

    def __init__(self, name: str, args: TenantsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare them."""
        super().__init__("trainstack:platform:Tenants", name, {}, opts)
        for team in args.tenants.teams:
            declare(build.rights(team, args.stack), self)
        self.teams = pulumi.Output.from_input([team.name for team in args.tenants.teams])
        self.register_outputs({"teams": self.teams})
