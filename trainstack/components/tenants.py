"""The rights of teams."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from trainstack.components.objects import declare_component
from trainstack.components.sections import build_stack_objects, validate_section
from trainstack.platform.teams import TENANT_PREFIX
from trainstack.settings.sections.tenants import Team
from trainstack.settings.sections.tenants import Tenants as TenantsSettings
from trainstack.stack_objects.component import Component


class Tenants(pulumi.ComponentResource):
    """A Role, a RoleBinding and, if it is named, a ServiceAccount for each team, in the team's namespace."""

    teams: pulumi.Output[list[str]]
    """The names of the teams, once they have their rights."""

    def __init__(
        self,
        name: str,
        args: Sequence[Team | Mapping[str, Any]] | Component,
        opts: pulumi.ResourceOptions | None = None,
        *,
        stack: str | None = None,
    ) -> None:
        """Declare the rights of teams, with the keys of `tenants.teams` in an environment's file.

        `stack` labels the objects; by default, the Pulumi stack.
        """
        super().__init__("trainstack:platform:Tenants", name, {}, opts)
        if not isinstance(args, Component):
            tenants = TenantsSettings(teams=tuple(validate_section(Team, team) for team in args))
            args = build_stack_objects(stack, tenants=tenants).tenants
        declare_component(args, self)
        self.teams = pulumi.Output.from_input(
            [role["metadata"]["name"].removeprefix(TENANT_PREFIX) for role in args.manifests_of_kind("Role")]
        )
        self.register_outputs({"teams": self.teams})
